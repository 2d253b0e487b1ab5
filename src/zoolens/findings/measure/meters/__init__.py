"""Meters of energy: one file each, registered under `zoolens.meters`. `meter` has the contract and chooses."""
