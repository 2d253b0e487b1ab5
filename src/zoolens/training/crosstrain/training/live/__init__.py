"""Looks at the live objects of one framework, in a process of its own, and says what is there as plain data."""
