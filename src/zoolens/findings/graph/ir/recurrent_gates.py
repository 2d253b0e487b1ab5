"""The gates of recurrent cells, and how the parameters of each are called.

A gate adds up `kernel`·x, `recurrent_kernel`·h and its biases. Sources with two biases for a gate, as torch has them,
keep both; only in the new gate of a gru that is reset after its product do they stand in different places.
"""

from __future__ import annotations

from typing import Final

# In the order in which torch packs them.
GATES: Final = {
    "lstm": ("input", "forget", "cell", "output"),
    "gru": ("reset", "update", "new"),
    "rnn": ("state",),
}
TENSORS: Final = ("kernel", "recurrent_kernel", "bias", "recurrent_bias")


def role(gate: str, tensor: str) -> str:
    """What a parameter of a gate is called, such as "forget_recurrent_kernel"."""
    return f"{gate}_{tensor}"


def added_to(name: str, kind: str, *, reset_first: bool) -> str | None:
    """The bias that another one is added to; None where a parameter is no second bias, or stands by itself."""
    gate, is_second, _ = name.partition("_recurrent_bias")
    if not is_second or (kind == "gru" and gate == "new" and not reset_first):
        return None
    return role(gate, "bias")
