"""What strangers may not do: files that are not trusted, and what only the user may allow."""
