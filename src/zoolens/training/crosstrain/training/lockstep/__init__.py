"""Two sides trained step by step beside a float64 reference: which layer and quantity is the first beyond rounding."""

from zoolens.training.crosstrain.training.lockstep.comparison import Lockstep, lockstep

__all__ = ["Lockstep", "lockstep"]
