"""Training of two sides of a port: their data, their steps, and what parts them."""
