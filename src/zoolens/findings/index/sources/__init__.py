"""Rows from the store: models, their runs, claims, structures and class orders."""
