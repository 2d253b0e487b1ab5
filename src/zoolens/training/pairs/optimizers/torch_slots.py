"""The moments that torch's optimizers keep, under the names by which lockstep compares them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from zoolens.training.pairs.optimizers.torch_rules import OwnRule

# The names under which lockstep compares slots -> torch's for them.
_SLOTS: Final[Mapping[str, tuple[str, ...]]] = {
    "first": ("exp_avg", "momentum_buffer"), "second": ("exp_avg_sq", "square_avg", "sum"), "average": ("grad_avg",),
}  # fmt: skip


def slots(optimizer: Any, tensors: Mapping[str, Any]) -> dict[str, Any]:
    """first/TENSOR, second/TENSOR and average/TENSOR, as far as the optimizer keeps them: the raw moments."""
    by_name: dict[str, Any] = {}
    if isinstance(optimizer, OwnRule):
        places = {id(parameter): place for place, parameter in enumerate(optimizer.parameters)}
        for name, tensor in tensors.items():
            if id(tensor) in places:
                by_name |= {f"{slot}/{name}": values[places[id(tensor)]] for slot, values in optimizer.slots.items()}
        return by_name
    states = {id(parameter): state for parameter, state in optimizer.state.items()}
    for name, tensor in tensors.items():
        state = states.get(id(tensor), {})
        for slot, theirs in _SLOTS.items():
            value = next((state[key] for key in theirs if state.get(key) is not None), None)
            if value is not None:
                by_name[f"{slot}/{name}"] = value
    return by_name
