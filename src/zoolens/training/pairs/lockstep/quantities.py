"""What a captured training step holds, by the names that both doors use, and how far compared sides lie from it."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from numpy.typing import NDArray

from zoolens.base.numerics.deviation import Deviation, Verdict
from zoolens.training.pairs.mapping.tensor_names import owner

Array = NDArray[Any]
Capture = Mapping[str, Array]  # "loss", "output/0", "activation/LAYER", "gradient/TENSOR" and so on -> values
Captures = Mapping[int, Capture]  # by the number of the step, from 1
Key = tuple[str, str]  # kind, and the layer's or tensor's name; ("loss", "")
AFTER_GRADIENTS: Final = ("first", "second", "average", "tensor")  # what an update makes
# In the order in which a step computes them; "definition": a layer or tensor that not all have.
KINDS: Final = ("definition", "activation", "statistic", "output", "loss", "gradient", *AFTER_GRADIENTS)


def key_of(kind: str, name: str) -> str:
    """Returns the key of a quantity in a capture; a tensor is defined where it is captured."""
    if kind == "loss":
        return kind
    return f"{'tensor' if kind == 'definition' else kind}/{name}"


def captured_key(name: str) -> Key:
    """The quantity that a capture has under this name."""
    kind, _, rest = name.partition("/")
    return kind, rest


def computation_order(layers: Sequence[str], named: Mapping[str, Sequence[str]]) -> Iterator[Key]:
    """Forward through the layers, each with the definitions of its tensors and with its statistics, the loss, backward
    through the gradients, and what the update makes.

    `layers`: in the order of their calls; `named`: by kind, the names of all other quantities, a layer's in order.
    """
    statistics, gradients = named.get("statistic", ()), named.get("gradient", ())
    placed: set[str] = set()
    for layer in layers:
        yield from (("definition", name) for name in named.get("definition", ()) if owner(name) == layer)
        yield "activation", layer
        own = [name for name in statistics if owner(name) == layer]
        placed.update(own)
        yield from (("statistic", name) for name in own)
    yield from (("statistic", name) for name in statistics if name not in placed)
    yield from (("output", name) for name in named.get("output", ()))
    yield from (("loss", name) for name in named.get("loss", ()))
    backward = [name for layer in reversed(layers) for name in gradients if owner(name) == layer]
    rest = [name for name in reversed(gradients) if name not in backward]
    yield from (("gradient", name) for name in (*backward, *rest))
    for kind in AFTER_GRADIENTS:
        yield from ((kind, name) for name in named.get(kind, ()))


@dataclass(frozen=True)
class ComparedQuantity:
    """One quantity at one step: how far each compared side lies from the reference, and how far rounding alone may.

    Errors and floor are relative: root mean squares of the difference and of the larger of the two, which no rounding
    can make more than 2.
    """

    step: int
    kind: str
    name: str
    sides: tuple[Deviation, ...]  # B alone, where A is the reference
    floor: float
    place: int = 0  # among the quantities of its step
    ratio: float | None = None  # what makes the reference's values those of the side, in every element

    def verdict(self, side: int = 0) -> Verdict:
        """Blind: rounding alone moves the quantity by its own size, so that nothing can be told from it."""
        return self.sides[side].verdict(self.floor)

    @property
    def blind(self) -> bool:
        """Whether nothing can be told of some side."""
        return any(self.verdict(side) == "blind" for side in range(len(self.sides)))

    @property
    def beyond(self) -> tuple[int, ...]:
        """The sides that depart by more than rounding."""
        return tuple(side for side in range(len(self.sides)) if self.verdict(side) == "beyond")

    @property
    def apart(self) -> Deviation:
        """The farthest side's."""
        return max(self.sides, key=lambda moved: moved.error)

    @property
    def worst(self) -> float:
        """The largest error, in floors."""
        return self.apart.error / self.floor if self.floor else math.inf

    @property
    def position(self) -> tuple[int, int]:
        return self.step, self.place

    @property
    def layer(self) -> str:
        return self.name if self.kind == "activation" else self.name.rpartition(".")[0] or self.name


class ToldQuantities:
    """Which quantities could be told from rounding at some step, and which were only met."""

    def __init__(self, rows: Iterable[ComparedQuantity]) -> None:
        self._told: dict[Key, bool] = {}
        for row in rows:
            key = row.kind, row.name
            self._told[key] = not row.blind or self._told.get(key, False)

    def tensors(self, kinds: Collection[str]) -> tuple[str, ...]:
        """All of these kinds, but for those whose gradient is nothing but rounding, such as that of a bias before a
        norm. Where not even the loss can be told, no gradient says so."""
        loss_told = self._told.get(("loss", ""), False)
        names = [name for kind, name in self._told if kind in kinds]
        return tuple(name for name in names if not loss_told or self._told.get(("gradient", name), True))

    def lost(self, kinds: Collection[str]) -> tuple[str, ...]:
        """Those of `tensors` that rounding alone moves by their size at every compared step."""
        told = {name for (kind, name), seen in self._told.items() if kind in kinds and seen}
        return tuple(name for name in self.tensors(kinds) if name not in told)
