"""`--fail-on`: a condition on a divergence that makes a CI job fail: "max_error > 1e-3", "flips > 0" or "unknown".

A condition that cannot be judged neither passes nor fails: it is NotKnown, which has an exit code of its own.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from zoolens.base.errors import ZoolensError
from zoolens.base.verdicts import UNKNOWN, NotKnown, UnknownGate
from zoolens.findings.divergence.result import Divergence

_OPERATORS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le,
}  # fmt: skip
_PATTERN: Final = re.compile(r"\s*(\w+)\s*(>=|<=|>|<)\s*(\d+(?:\.\d+)?(?:e[-+]?\d+)?)\s*(%?)\s*", re.IGNORECASE)
_FIGURES: Final[Mapping[str, Callable[[Divergence], float]]] = {
    "max_error": lambda divergence: max(divergence.answers.max_error, *_others(divergence, "error")),
    "relative_error": lambda divergence: max(divergence.answers.relative_error, *_others(divergence, "relative_error")),
    "flips": lambda divergence: float(len(divergence.answers.flipped)),
    "flip_rate": lambda divergence: len(divergence.answers.flipped) / len(divergence.answers.rows),
    "not_finite": lambda divergence: float(divergence.answers.not_finite),
    "layers_beyond": lambda divergence: _layers_beyond(divergence),
    "unproved": lambda divergence: float(sum(not cause.proved for cause in divergence.causes)),
}


@dataclass(frozen=True)
class DivergenceGate:
    text: str
    figure: str
    op: str
    limit: float

    def verdict(self, divergence: Divergence) -> tuple[bool, str]:
        """Whether the condition holds (the gate fails), and the fact behind it; NotKnown where it cannot be told."""
        value = _FIGURES[self.figure](divergence)
        if math.isnan(value):
            raise NotKnown(f"The gate {self.text!r} cannot be judged: {self.figure} is not a number.")
        fails = _OPERATORS[self.op](value, self.limit)
        return fails, f"{self.text}: {self.figure} is {value:.3g}"


def parse_divergence_gate(text: str) -> DivergenceGate | UnknownGate[Divergence]:
    if text.strip() == UNKNOWN:
        return UnknownGate(lambda divergence: divergence.verdict, "whether A and B agree")
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise ZoolensError(
            f"{text!r} is no condition.", hint='Write one such as "max_error > 1e-3", "flips > 0" or "unknown".'
        )
    figure, op, number, percent = match.groups()
    if figure not in _FIGURES:
        known = ", ".join(_FIGURES)
        raise ZoolensError(f"There is no figure {figure!r} of a divergence.", hint=f"There are {known}.")
    return DivergenceGate(text, figure, op, float(number) / (100 if percent else 1))


def _others(divergence: Divergence, figure: str) -> list[float]:
    """Return the figure for every output besides the main one, with 0 if there are none."""
    return [0.0, *(getattr(other, figure) for other in divergence.answers.others)]


def _layers_beyond(divergence: Divergence) -> float:
    compared = [fact.layer for fact in divergence.layers if fact.layer.between is not None]
    beyond = sum(layer.beyond for layer in compared)
    blind = sum(layer.between is not None and layer.between.verdict(layer.floor) == "blind" for layer in compared)
    if not compared or (blind and not beyond):
        why = f"rounding may move {blind} of them by their own size" if blind else "no layer was compared"
        raise NotKnown(
            f"How many layers are beyond rounding is not known: {why}.", hint="Gate on max_error or flips instead."
        )
    return float(beyond)
