"""A first draft of a port: the code of a network in another framework, written from its canonical graph."""
