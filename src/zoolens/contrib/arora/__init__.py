"""The compression bound of Arora et al. 2018 with everything it is computed from."""
