"""Claims compared across zoos: how far apart they are, who claims most and least.

Everything here is arithmetic on `ClaimRow`s. Each zoo speaks with one figure for each architecture, which a
`SpreadView` chooses:

- first weights: that of the first published weights, in the zoos of Montes et al. (2022), where TF Model Garden means
  slim. This is what the study compared.
- best weights today: the highest one of each of those zoos and of the Model Garden's official models.

A claim is an outlier only among first weights, and counts for nothing in either view then. Newer weights that are far
better than those of other zoos are progress, not a mistake: they make today's spread as wide as it is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Final

from zoolens.findings.audit.architectures import ArchitectureEntry, architectures
from zoolens.findings.audit.claims import ClaimRow
from zoolens.inventory.zoos.published import IMAGENET

STUDY_ZOOS: Final = ("torchvision", "keras", "onnx", "slim")
# One claim this far from the nearest other, while the others lie within a third of that, is an error or another
# evaluation rather than a spread. The study left such a one out (DenseNet-121 of the ONNX zoo, 60.96 %).
OUTLIER_POINTS: Final = 5.0
OUTLIER_RATIO: Final = 3.0


@dataclass(frozen=True)
class SpreadView:
    name: str
    zoos: tuple[str, ...]
    best: bool  # else the first


FIRST_WEIGHTS: Final = SpreadView("first weights", STUDY_ZOOS, best=False)
BEST_TODAY: Final = SpreadView("best weights today", (*STUDY_ZOOS, "official"), best=True)


@dataclass(frozen=True)
class ZooClaim:
    """The one figure a zoo speaks with."""

    zoo: str
    ref: str
    value: float
    unit: str
    source: str


@dataclass(frozen=True)
class Spread:
    """Claimed accuracies of one architecture, highest first; outliers are set apart and count for nothing.

    Outliers are those of the first weights, which are also findings: nothing is set apart silently.
    """

    architecture: ArchitectureEntry
    claims: tuple[ZooClaim, ...]
    outliers: tuple[ZooClaim, ...]

    @property
    def points(self) -> float:
        """Percentage points between the highest and the lowest claim."""
        return 100 * (self.claims[0].value - self.claims[-1].value)


@dataclass(frozen=True)
class ClaimStanding:
    """How often a zoo's claim is the highest or lowest of those it is compared in; ties count for all who share."""

    zoo: str
    compared: int
    highest: int
    lowest: int


def zoo_claims(
    rows: Iterable[ClaimRow], metric: str, view: SpreadView, *, known: Sequence[ArchitectureEntry] | None = None
) -> dict[ArchitectureEntry, tuple[ZooClaim, ...]]:
    """The figure of each zoo that claims one, for each architecture."""
    by_ref = _first_by_ref(rows, metric)
    claims_of = {}
    for entry in architectures() if known is None else known:
        chosen = [_choose(by_ref, zoo, names, view) for zoo, names in entry.members.items() if zoo in view.zoos]
        if claims := tuple(claim for claim in chosen if claim):
            claims_of[entry] = claims
    return claims_of


def spreads(
    rows: Iterable[ClaimRow],
    view: SpreadView = FIRST_WEIGHTS,
    *,
    metric: str = "top1",
    known: Sequence[ArchitectureEntry] | None = None,
) -> list[Spread]:
    """Claimed accuracies of architectures that at least two zoos claim one for, widest first."""
    rows = list(rows)
    first = zoo_claims(rows, metric, FIRST_WEIGHTS, known=known)
    odd = {claim.ref for claims in first.values() for claim in outliers_of(claims)}
    compared = [_spread(entry, claims, odd) for entry, claims in zoo_claims(rows, metric, view, known=known).items()]
    return sorted((spread for spread in compared if len(spread.claims) > 1), key=lambda spread: -spread.points)


def standings(compared: Iterable[Spread]) -> list[ClaimStanding]:
    """Counts how often each zoo is highest and lowest, most often highest first. Table 1 of the study counts so."""
    counts: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for spread in compared:
        top, bottom = spread.claims[0].value, spread.claims[-1].value
        for claim in spread.claims:
            count = counts[claim.zoo]
            count[0] += 1
            count[1] += claim.value == top
            count[2] += claim.value == bottom
    return sorted(
        (ClaimStanding(zoo, *count) for zoo, count in counts.items()),
        key=lambda standing: (-standing.highest, standing.zoo),
    )


def outliers_of(claims: Sequence[ZooClaim]) -> tuple[ZooClaim, ...]:
    """The claim, if there is one, that stands far from the rest while the rest agree; two claims have no rest."""
    if len(claims) < 3:
        return ()
    for extreme in (min(claims, key=_value), max(claims, key=_value)):
        rest = [100 * other.value for other in claims if other is not extreme]
        gap = min(abs(100 * extreme.value - value) for value in rest)
        if gap > max(OUTLIER_POINTS, OUTLIER_RATIO * (max(rest) - min(rest))):
            return (extreme,)
    return ()


def _spread(architecture: ArchitectureEntry, claims: Sequence[ZooClaim], odd: Set[str]) -> Spread:
    outliers = tuple(claim for claim in claims if claim.ref in odd)
    return Spread(architecture, _descending(claim for claim in claims if claim.ref not in odd), outliers)


def _first_by_ref(rows: Iterable[ClaimRow], metric: str) -> dict[str, ClaimRow]:
    """A model's first figure: where several image sizes are claimed, zoos list that of the manifest first."""
    first_of_ref: dict[str, ClaimRow] = {}
    for row in rows:
        about = not row.dataset or row.dataset.startswith(IMAGENET)
        if row.metric == metric and row.value is not None and about:
            first_of_ref.setdefault(row.ref, row)
    return first_of_ref


def _choose(by_ref: dict[str, ClaimRow], zoo: str, names: Sequence[str], view: SpreadView) -> ZooClaim | None:
    refs = [f"{zoo}:{name}" for name in names]
    claims = [_zoo_claim(by_ref[ref]) for ref in refs if ref in by_ref]
    if not claims:
        return None
    return max(claims, key=_value) if view.best else claims[0]


def _zoo_claim(row: ClaimRow) -> ZooClaim:
    assert row.value is not None, "rows without a value were left out"
    return ZooClaim(row.zoo, row.ref, row.value, row.unit, row.source)


def _descending(claims: Iterable[ZooClaim]) -> tuple[ZooClaim, ...]:
    return tuple(sorted(claims, key=_value, reverse=True))


def _value(claim: ZooClaim) -> float:
    return claim.value
