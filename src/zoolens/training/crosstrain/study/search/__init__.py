"""Search for hyperparameters at which the sides train apart: where to look, what was found, when to stop."""
