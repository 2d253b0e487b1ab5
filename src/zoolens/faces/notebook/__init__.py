"""Results in a notebook."""
