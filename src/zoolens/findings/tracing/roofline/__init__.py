"""How far a model is from what this machine could do: measured peaks, and each layer against them."""
