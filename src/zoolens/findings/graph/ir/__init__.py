"""The graph itself (intermediate representation): nodes, operators, shapes, equality and the storage format."""
