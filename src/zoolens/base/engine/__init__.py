"""Where work runs: worker processes with or without a sandbox, their environments, and what passes between them.

The room knows no model, graph or trainer: who uses it brings a worker module and plain data.
"""
