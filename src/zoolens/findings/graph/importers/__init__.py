"""One package for each source of graphs, and what they share; see `base` for the contract."""
