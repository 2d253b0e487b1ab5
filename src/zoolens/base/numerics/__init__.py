"""How numbers are compared: how far one tensor is from another, and how far rounding alone may move it."""
