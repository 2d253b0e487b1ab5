"""The first steps of a pair, quantity by quantity: the first departure beyond rounding, and its proved cause."""
