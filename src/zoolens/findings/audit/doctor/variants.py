"""What can be varied about a manifest: axes, the choices on each, and variants made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Final

from zoolens.inventory.manifests.schema import Input, Manifest, Output

# In the order in which the choices of a variant are applied: the mean of a normalisation depends on the colour order,
# and the resize method is that of whatever steps the framing or the canvas leaves.
SLOTS: Final = (
    "decoder", "layout", "colour", "normalisation", "framing", "canvas", "resize method", "resize library",
    "rate", "waveform", "mel scale", "spectrum", "logarithm", "feature scale",
    "tokenizer", "casing", "padding", "truncation", "special tokens", "context",
    "parts", "head", "boxes", "activation", "map", "map resize", "pooling", "subwords", "labels", "scores",
)  # fmt: skip
# How an image is decoded, cut, padded and resized is as much a protocol as a property of the model, and so is how much
# of a text is given.
_PROTOCOL: Final = frozenset({"decoder", "framing", "resize method", "resize library", "map resize", "context"})
PADDING_VALUE: Final = "padding value"
PROVES_A_RANGE: Final = 30  # inputs: the logits of a few may lie between 0 and 1 by chance

Change = Callable[[Manifest], Manifest]


@dataclass(frozen=True)
class AxisChoice:
    """One other value of one axis. `factor` is what reports call it: one axis may serve two factors."""

    slot: str
    factor: str
    name: str
    change: Change = field(compare=False, repr=False)
    rarity: int = 0  # of choices that do equally well, the commoner one is meant
    # Answers are refused unless they are what this says: where all are accepted, what is declared is wrong, whatever
    # the figure. These are the words for that.
    proof: str | None = None
    proven_by: int = 1  # the fewest inputs that make a proof of it

    @property
    def is_protocol(self) -> bool:
        """Whether it is no fault to have declared another choice. A canvas is a property of the model, the value that
        fills what an image leaves of it is not."""
        return self.slot in _PROTOCOL or self.factor == PADDING_VALUE


@dataclass(frozen=True)
class Axis:
    """Everything that is tried in one place of the manifest, and what is declared there. `ranked`: it may change which
    class is best, so that right answers tell the choices apart."""

    slot: str
    declared: str
    choices: tuple[AxisChoice, ...]
    ranked: bool = True


@dataclass(frozen=True)
class NotSwept:
    factor: str
    reason: str


@dataclass(frozen=True)
class Variant:
    """The declared manifest with at most one choice an axis."""

    choices: tuple[AxisChoice, ...] = ()

    @property
    def name(self) -> str:
        return " + ".join(f"{choice.factor}: {choice.name}" for choice in self.choices) or "as declared"

    @property
    def factor(self) -> str:
        return " + ".join(dict.fromkeys(choice.factor for choice in self.choices)) or "–"

    @property
    def rarity(self) -> int:
        return sum(choice.rarity for choice in self.choices)

    def choice(self, slot: str) -> AxisChoice | None:
        return next((choice for choice in self.choices if choice.slot == slot), None)

    def choosing(self, choice: AxisChoice) -> Variant:
        kept = [other for other in self.choices if other.slot != choice.slot]
        return Variant(tuple(sorted([*kept, choice], key=lambda other: SLOTS.index(other.slot))))

    def reverting(self, slot: str) -> Variant:
        return Variant(tuple(choice for choice in self.choices if choice.slot != slot))

    def apply(self, declared: Manifest) -> Manifest:
        return reduce(lambda manifest, choice: choice.change(manifest), self.choices, declared)


DECLARED: Final = Variant()


def neighbours(variant: Variant, axes: Iterable[Axis]) -> list[Variant]:
    """Every variant that differs on one axis, the declared value included."""
    variants: list[Variant] = []
    for axis in axes:
        if variant.choice(axis.slot) is not None:
            variants.append(variant.reverting(axis.slot))
        variants += [variant.choosing(choice) for choice in axis.choices if variant.choice(axis.slot) != choice]
    return variants


def combinations(variant: Variant, first: Axis, second: Axis) -> list[Variant]:
    """Every variant that differs on both axes at once."""
    return [variant.choosing(choice).choosing(other) for choice in first.choices for other in second.choices]


def with_input(manifest: Manifest, **changes: Any) -> Manifest:
    changed: Input = manifest.inputs[0].model_copy(update=changes)
    return manifest.model_copy(update={"inputs": (changed, *manifest.inputs[1:])})


def with_output(manifest: Manifest, **changes: Any) -> Manifest:
    changed: Output = manifest.outputs[0].model_copy(update=changes)
    return manifest.model_copy(update={"outputs": (changed, *manifest.outputs[1:])})


def axis_or_none(slot: str, declared: str, choices: Sequence[AxisChoice], manifest: Manifest) -> Axis | None:
    """An axis of the choices that change something; None where none does."""
    telling = tuple(choice for choice in choices if choice.change(manifest) != manifest)
    return Axis(slot, declared, telling) if telling else None
