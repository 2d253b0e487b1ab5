"""Latency loops, hardware counters and whatever else disturbs or explains a time."""
