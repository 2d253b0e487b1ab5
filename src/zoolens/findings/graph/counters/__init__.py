"""Public cost counters beside our own: what each of them counts, as data, and how to run it where it is installed."""
