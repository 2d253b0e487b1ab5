"""Texts that served language models write: one token after the other, each an inference of the data plane."""
