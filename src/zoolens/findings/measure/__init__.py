"""Accuracy, latency, memory and size of a model in a runtime, with intervals: what produces observations."""
