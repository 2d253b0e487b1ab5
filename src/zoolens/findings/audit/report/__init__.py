"""An audit as a terminal summary, one HTML page, JSON and CSV."""
