"""Trainings of one network in two frameworks, and ports of a network from one to another."""
