"""What the outputs of a model mean, inferred from its file or from its answers to noise."""
