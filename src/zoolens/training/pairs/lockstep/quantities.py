"""What a captured training step holds, by the names that both doors use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from numpy.typing import NDArray

Array = NDArray[Any]
Capture = Mapping[str, Array]
Key = tuple[str, str]  # kind, and the layer's or tensor's name; ("loss", "")
# In the order in which a step computes them; "definition": a layer or tensor that not all have.
KINDS: Final = ("definition", "activation", "statistic", "loss", "gradient", "first", "second", "average", "tensor")


def key_of(kind: str, name: str) -> str:
    """Returns the key of a quantity in a capture; a tensor is defined where it is captured."""
    if kind == "loss":
        return kind
    return f"{'tensor' if kind == 'definition' else kind}/{name}"
