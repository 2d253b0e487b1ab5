"""Policies: which tier of a ladder answers the next batch. One file each, registered under `zoolens.policies`."""
