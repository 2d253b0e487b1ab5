"""Prediction signatures of all models on the probe inputs: their file, their memory, and exact agreement."""
