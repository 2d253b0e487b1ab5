"""The two sides of a pair: a user's function in a process of its own, or a live object in this one."""
