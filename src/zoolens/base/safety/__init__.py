"""Untrusted files, and what only the user may allow."""
