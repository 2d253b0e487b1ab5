"""How right answers are: parts of each input, from which the figures of any weighted set of inputs follow."""
