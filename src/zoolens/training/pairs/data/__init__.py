"""What a pair is trained on: datasets, recorded streams, and the order of samples that both sides replay."""
