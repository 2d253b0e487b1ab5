"""Signatures of networks, those of known networks, and the search for the nearest."""
