"""One input, two stacks: at which layer they part, whether that is rounding or a fault, and what removes it."""
