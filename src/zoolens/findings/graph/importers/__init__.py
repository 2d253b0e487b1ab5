"""One package for each source of graphs, and what they share; see `importer` for the contract."""
