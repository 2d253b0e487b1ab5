"""The first line: the same network, the same but for constants, or different ones and by what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from zoolens.base.phrases import first_few
from zoolens.base.verdicts import Outcome, Verdict
from zoolens.findings.graph.diff import diff_causes
from zoolens.findings.graph.diff.cost_shares import INTERPLAY
from zoolens.findings.graph.diff.diff_findings import Difference
from zoolens.findings.graph.diff.phrases import amount

NAMED: Final = 4  # causes in the line; the rest is counted
NEGLIGIBLE: Final = 0.005
_CONSTANT_WORDS: Final = {
    diff_causes.EPSILON: "epsilon",
    diff_causes.PADDING: "padding side",
    diff_causes.BIAS: "biases",
    diff_causes.CONSTANT: "numbers that layers compute with",
    diff_causes.NORM_PARAMETERS: "scales and shifts of norms",
}
_BESIDE: Final = {
    diff_causes.OUTPUT: "the final activation",
    diff_causes.PREPROCESSING: "preprocessing inside the network",
    diff_causes.FLATTEN: "the order of flattening",
    diff_causes.WIRING: "the arrangement of values",
}


def form_words(
    *, norm_blind: str = "", folded: str = "", scaled: str = "", forms: Sequence[str] = (), stored: str = ""
) -> str:
    """Says in which form two networks were compared; each name is that of a side (see `Diff`)."""
    words = f"; norms aside, for {norm_blind} has none (folded into its layers, or never there)" if norm_blind else ""
    words += f"; norms are folded into the layers of {folded}" if folded else ""
    words += f"; outputs of layers are scaled by a constant in {scaled}, by weights in the other" if scaled else ""
    words += "".join(f"; {form}" for form in forms)
    return words + (f"; {stored} stores what the other computes from weights alone" if stored else "")


def verdict(
    differences: Sequence[Difference],
    macs_gap: int,
    *,
    decision: Verdict,
    same_cost: bool,
    aside: str = "",
    unproved: int = 0,
) -> str:
    """`aside`: in which form the two were compared. `unproved`: differences beside what is not understood."""
    coverage = decision.coverage
    if decision.outcome is Outcome.NOT_KNOWN and not same_cost:
        return f"not known whether it is the same network{aside}. {_open(unproved)} {coverage.text}"
    if not differences:
        return f"the same network{aside}"
    if not coverage.whole and not same_cost:
        return f"different networks: {_named(differences)}{aside}. {coverage.text}"
    if same_cost:
        doubt = "" if decision.known else ", and it is not known whether that changes what it computes"
        return f"the same network up to {_constants(differences)}{aside}{doubt}"
    return f"different networks: {_causes(differences, macs_gap)}{aside}"


def _open(unproved: int) -> str:
    if not unproved:
        return "Nothing that is understood differs."
    stand = "1 difference stands" if unproved == 1 else f"{unproved:,} differences stand"
    return f"{stand} beside what is not understood, which proves nothing."


def _named(differences: Sequence[Difference]) -> str:
    """Causes without shares, since a cost that is not counted whole has none."""
    names = list(dict.fromkeys(difference.cause for difference in differences))
    return first_few(names, NAMED)


def _constants(differences: Sequence[Difference]) -> str:
    names = list(dict.fromkeys(difference.cause for difference in differences))
    constants = [_CONSTANT_WORDS.get(cause, cause) for cause in names if cause not in _BESIDE]
    words = [f"constants that do not change cost ({', '.join(constants)})"] if constants else []
    return " and ".join([*words, *(_BESIDE[cause] for cause in names if cause in _BESIDE)])


def has_shares(differences: Sequence[Difference], macs_gap: int) -> bool:
    """Whether percentages of the cost gap say something: not where causes work against each other, since 193 % and
    −93 % are no shares of anything."""
    against = sum(abs(difference.macs) for difference in differences if difference.macs * macs_gap < 0)
    return bool(macs_gap) and against < NEGLIGIBLE * abs(macs_gap)


def _causes(differences: Sequence[Difference], macs_gap: int) -> str:
    sums: dict[str, int] = {}
    for difference in differences:
        sums[difference.cause] = sums.get(difference.cause, 0) + difference.macs
    sums.pop(INTERPLAY, None)
    costly = [cause for cause in sums if cause not in diff_causes.CONSTANTS or sums[cause]]
    named = costly or list(sums) or [INTERPLAY]
    ordered = sorted(named, key=lambda cause: -abs(sums.get(cause, 0)))
    percent = has_shares(differences, macs_gap)
    shares = [f"{cause}{_share(sums.get(cause, 0), macs_gap, percent=percent)}" for cause in ordered]
    return first_few(shares, NAMED)


def _share(part: int, gap: int, *, percent: bool) -> str:
    if not part or abs(part) < NEGLIGIBLE * abs(gap):
        return ""
    if percent:
        return f" ({100 * part / gap:.0f} % of the cost gap)"
    return f" ({amount(part)} MACs)"
