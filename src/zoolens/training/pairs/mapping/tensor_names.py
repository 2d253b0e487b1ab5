"""Which layer a tensor's name belongs to."""

from __future__ import annotations

from typing import Final

_COLLECTIONS: Final = ("params", "batch_stats")


def owner(tensor: str) -> str:
    """The layer that a tensor's name belongs to: "1" of "1.weight", "norm" of "norm/gamma", and of Flax' variables,
    which begin with their collection, "norm" of "batch_stats/norm/mean"."""
    collection, _, rest = tensor.partition("/")
    name = rest if collection in _COLLECTIONS else tensor
    cut = max(name.rfind("."), name.rfind("/"))
    return name[:cut] if cut >= 0 else ""
