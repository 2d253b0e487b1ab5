"""Trains, exports and checks the demo zoo: twelve small Fashion-MNIST classifiers with fixed seeds."""
