"""The first line: the same network, the same but for constants, or different ones and by what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from zoolens.graph.diff import causes
from zoolens.graph.diff.cost_shares import INTERPLAY
from zoolens.graph.diff.findings import Difference
from zoolens.graph.diff.phrases import amount

NAMED: Final = 4  # causes in the line; the rest is counted
ABSURD: Final = 2  # times the gap
NEGLIGIBLE: Final = 0.005
_CONSTANT_WORDS: Final = {
    causes.EPSILON: "epsilon",
    causes.PADDING: "padding side",
    causes.BIAS: "biases",
    causes.CONSTANT: "settings of layers",
    causes.NORM_PARAMETERS: "scales and shifts of norms",
}
_BESIDE: Final = {
    causes.OUTPUT: "the final activation",
    causes.PREPROCESSING: "preprocessing inside the network",
    causes.FLATTEN: "the order of flattening",
    causes.WIRING: "the arrangement of values",
}


def verdict(
    differences: Sequence[Difference],
    macs_gap: int,
    *,
    same_cost: bool,
    norm_blind: str,
    folded: str = "",
    stored: str = "",
    by_name: int = 0,
) -> str:
    aside = f"; norms aside, for {norm_blind} has none (folded into its layers, or never there)" if norm_blind else ""
    aside += f"; norms are folded into the layers of {folded}" if folded else ""
    aside += f"; {stored} stores what the other computes from weights alone" if stored else ""
    aside += _unknown(by_name)
    if not differences:
        return f"the same network{aside}"
    if same_cost:
        return f"the same network up to {_constants(differences)}{aside}"
    return f"different networks: {_causes(differences, macs_gap)}{aside}"


def _unknown(count: int) -> str:
    if not count:
        return ""
    return f"; {count:,} operator{'s are' if count > 1 else ' is'} unknown to us and compared by name only"


def _constants(differences: Sequence[Difference]) -> str:
    names = list(dict.fromkeys(difference.cause for difference in differences))
    constants = [_CONSTANT_WORDS.get(cause, cause) for cause in names if cause not in _BESIDE]
    words = [f"constants that do not change cost ({', '.join(constants)})"] if constants else []
    return " and ".join([*words, *(_BESIDE[cause] for cause in names if cause in _BESIDE)])


def _causes(differences: Sequence[Difference], macs_gap: int) -> str:
    sums: dict[str, int] = {}
    for difference in differences:
        sums[difference.cause] = sums.get(difference.cause, 0) + difference.macs
    sums.pop(INTERPLAY, None)
    structural = [cause for cause in sums if cause not in causes.CONSTANTS or sums[cause]] or list(sums) or [INTERPLAY]
    ordered = sorted(structural, key=lambda cause: -abs(sums.get(cause, 0)))
    shown = [f"{cause}{_share(sums.get(cause, 0), macs_gap)}" for cause in ordered[:NAMED]]
    more = len(ordered) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _share(part: int, gap: int) -> str:
    """Says the share in percent of the gap, unless causes that work against each other make that absurd."""
    if abs(part) < NEGLIGIBLE * abs(gap) or not part:
        return ""
    return (
        f" ({100 * part / gap:.0f} % of the cost gap)" if abs(part) <= ABSURD * abs(gap) else f" ({amount(part)} MACs)"
    )
