"""Load on any endpoint of the Open Inference Protocol V2: arrivals, drivers, and what the answers were worth."""
