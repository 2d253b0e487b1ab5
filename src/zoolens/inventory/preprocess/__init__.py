"""From a decoded sample to a model's input, and from a model's raw answer to scores, as the manifest declares."""
