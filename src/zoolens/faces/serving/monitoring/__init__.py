"""What a running server tells people and programs: metrics for Prometheus, log lines and the live line."""
