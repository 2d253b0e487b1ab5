"""What the parts of a server know of each other: the data plane, observers, adapters and ladders."""
