"""One input, two environments: at which layer they diverge, whether that is rounding or a fault, and what removes
it."""
