"""Meters of energy: one file each, registered under `zoolens.meters`. `base` has the contract and chooses."""
