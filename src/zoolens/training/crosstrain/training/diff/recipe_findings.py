"""What a static comparison found: items that differ, and what was compared and is equal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from zoolens.base.present.results import Result

# In the order in which they are told.
KINDS: Final = (
    "layers", "parameters", "bias", "dropout", "stride", "padding", "norm", "init", "head", "loss", "optimizer",
    "schedule", "layout",
)  # fmt: skip
_NAMED: Final = 4


@dataclass(frozen=True)
class Item:
    """`layers`: how many layers it concerns on the side that has more of them; 0 where it is not about layers."""

    kind: str
    what: str
    a: str
    b: str
    evidence: str = ""
    layers: int = 0


@dataclass(frozen=True)
class Same:
    kind: str
    what: str
    value: str


Finding = Item | Same


@dataclass(frozen=True, repr=False)
class StaticDiff(Result):
    """What two frameworks' versions of an architecture have differently, and what not."""

    a: str
    b: str
    networks: tuple[str, str]  # who built each side
    versions: tuple[Mapping[str, str], Mapping[str, str]]  # of the libraries that did
    items: tuple[Item, ...]
    same: tuple[Same, ...]

    def of(self, kind: str) -> tuple[Item, ...]:
        return tuple(item for item in self.items if item.kind == kind)


def compared(kind: str, what: str, a: str, b: str, *, evidence: str = "", layers: int = 0) -> Finding:
    return Same(kind, what, a) if a == b else Item(kind, what, a, b, evidence, layers)


def tallied(values: Iterable[str]) -> str:
    """One value as it is; several with how often each occurs."""
    counts = Counter(values)
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{value} in {count}" for value, count in counts.most_common()) or "none"


def named(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    shown = ", ".join(names[:_NAMED])
    return f"{shown} and {len(names) - _NAMED} more" if len(names) > _NAMED else shown
