"""What a network costs: multiply-accumulates, parameters and bytes of every layer, and how much of it is known."""
