"""What two sides computed at a step, beside the reference: layer by layer, in the order of computation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from zoolens.base.numerics.deviation import Deviation, Verdict, deviation
from zoolens.training.crosstrain.training.architectures import is_statistic, tensor_shapes
from zoolens.training.crosstrain.training.network import Network
from zoolens.training.pairs.lockstep.quantities import KINDS, Capture, Key, key_of


@dataclass(frozen=True)
class QuantityRow:
    """One quantity at one step. Errors and floor are relative: root mean squares of the difference and of the larger
    of the two, which no rounding can make more than 2."""

    step: int
    kind: str
    name: str
    sides: tuple[Deviation, Deviation]
    floor: float

    def verdict(self, side: int) -> Verdict:
        """Blind: rounding alone moves the quantity by its own size, so that nothing can be told from it."""
        return self.sides[side].verdict(self.floor)

    @property
    def beyond(self) -> tuple[int, ...]:
        """Which sides are: 0, 1."""
        return tuple(side for side in (0, 1) if self.verdict(side) == "beyond")

    @property
    def worst(self) -> float:
        """The larger of both errors, in floors."""
        return max(moved.error for moved in self.sides) / self.floor if self.floor else math.inf

    @property
    def layer(self) -> str:
        return self.name if self.kind == "activation" else self.name.rpartition(".")[0] or self.name


def compare(
    step: int, order: Sequence[Key], reference: Capture, sides: tuple[Capture, Capture], floors: Mapping[Key, float]
) -> Iterator[QuantityRow]:
    """One row for each quantity that all have, and one for each layer or tensor that not all have, in order."""
    named: set[str] = set()
    for kind, name in order:
        key = key_of(kind, name)
        there = [key in capture for capture in (reference, *sides)]
        if all(there) and kind == "definition":
            continue
        if all(there):
            deviations = deviation(sides[0][key], reference[key]), deviation(sides[1][key], reference[key])
            yield QuantityRow(step, kind, name, deviations, floors[kind, name])
        elif any(there) and name not in named:
            named.add(name)
            yield QuantityRow(step, "definition", name, (_presence(*there[:2]), _presence(there[0], there[2])), 0.0)


def order(networks: Sequence[Network]) -> list[Key]:
    """Forward through the layers (a tensor that a side lacks is told where it is first used), the loss, backward
    through the gradients, then what the update makes: slots and tensors."""
    layers = [layer.name for layer in max((network.layers for network in networks), key=len)]
    tensors = {name: None for network in networks for name in tensor_shapes(network)}
    of = {layer: [name for name in tensors if name.rpartition(".")[0] == layer] for layer in layers}
    learned = {layer: [name for name in names if not is_statistic(name)] for layer, names in of.items()}
    keys: list[Key] = []
    for layer in layers:
        keys += [("definition", name) for name in learned[layer]]
        keys.append(("activation", layer))
        keys += [("statistic", name) for name in of[layer] if is_statistic(name)]
    keys.append(("loss", ""))
    keys += [("gradient", name) for layer in reversed(layers) for name in learned[layer]]
    keys += [(kind, name) for kind in KINDS[5:] for layer in layers for name in learned[layer]]
    return keys


def _presence(reference: bool, side: bool) -> Deviation:
    if reference == side:
        return Deviation(0.0)
    return Deviation(math.inf, "missing" if reference else "extra")
