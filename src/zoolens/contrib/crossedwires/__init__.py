"""The published study CrossedWires (Zvyagin et al. 2021): its trials, its search, and its paper read against both."""
