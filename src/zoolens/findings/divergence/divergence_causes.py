"""What a cause of a difference is, and its proof.

The difference of two answers is the sum of three: what runtime A adds to the exact answer of its file, what the exact
answers of the two files and inputs differ by, and what runtime B adds. Each part is explained by itself. A cause is
proved where the part vanishes, down to rounding, once the suspect is changed; where it does not, the cause is
withdrawn and what was tried is said.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Final

from zoolens.findings.graph.ir.model import Graph

LEFT: Final = 0.1  # of a difference that a proof may leave


class Kind(Enum):
    PREPROCESSING = "preprocessing"
    WEIGHTS = "weights"
    STRUCTURE = "structure"
    PRECISION = "precision"
    QUANTISATION = "quantisation"
    KERNEL = "kernel"
    NOT_FINITE = "not finite"
    RANDOM = "randomness"
    UNEXPLAINED = "unexplained"


@dataclass(frozen=True)
class Proof:
    """What was changed, and the relative difference before and after; `floor` is what rounding may do.
    It holds if nearly all of the difference is gone: that what is left is small says nothing where it was small before.
    """

    words: str
    before: float
    after: float
    floor: float

    @property
    def holds(self) -> bool:
        return self.after <= min(self.floor, LEFT * self.before)

    @property
    def removed(self) -> float:
        """The share of the difference that is gone."""
        if math.isinf(self.before) or not self.before:
            return 0.0 if math.isinf(self.after) else 1.0
        return max(0.0, 1 - self.after / self.before)


@dataclass(frozen=True)
class Cause:
    """One cause of a difference, with its proof."""

    kind: Kind
    words: str
    side: str | None = None  # "A" or "B"; None: both files or inputs
    layer: str | None = None  # a node of A's graph, or of the side's own graph where a side is named
    label: str | None = None
    proof: Proof | None = None
    withdrawn: tuple[str, ...] = ()  # what was suspected and not proved
    seen: bool = False  # observed directly, so nothing has to be changed to prove it

    @property
    def proved(self) -> bool:
        return self.seen or (self.proof is not None and self.proof.holds)


@dataclass(frozen=True)
class Parts:
    """The three parts of a difference, on one input: relative deviations of the main output, and the floor of each."""

    a: float
    files: float
    b: float
    floor: float

    @property
    def words(self) -> str:
        return f"runtime of A {number(self.a)}, files and inputs {number(self.files)}, runtime of B {number(self.b)}"


def number(value: float) -> str:
    """A relative difference; infinite are those of numbers that are not finite, and of other shapes."""
    return "0" if value == 0 else f"{value:.1e}" if math.isfinite(value) else "infinite"


def label_of(graph: Graph, name: str) -> str:
    node = graph.by_name[name]
    return f"{node.source or node.name} ({node.get('operator') or node.op})"
