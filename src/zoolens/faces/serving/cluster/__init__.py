"""Serving on several machines: one front, one controller, and replicas that each hold a data plane of their own."""
