"""One module per source of graphs; see `base` for the contract."""
