"""Fuzzers: seeded, time-boxed, one function for each kind of input. `make fuzz`, or `python -m tests.fuzz`."""
