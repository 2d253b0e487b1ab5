"""Search over the columns: rows in score order, filtered by ranges."""
