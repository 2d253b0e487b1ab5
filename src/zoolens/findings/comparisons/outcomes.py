"""Whether two runs answer alike, with what that rests on: the verdicts of `compare` and `equiv`.

Both are about answers alone. They are the same where every input is answered alike in every output, as the task of the
output tells; an output or a dataset that was not compared leaves that open.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from zoolens.base.store.records import Run
from zoolens.base.verdicts import Coverage, Gap, Tally, Verdict, judged
from zoolens.findings.measure.answers import has_answers

if TYPE_CHECKING:
    from zoolens.findings.comparisons.compare import Report
    from zoolens.findings.comparisons.equivalence import Equivalence, OnData

_COMPARE_OUTPUTS: Final = "`zoolens equiv` compares outputs by name and says which it leaves out."
_NO_AGREEMENT: Final = "The task of the output computes the agreement: correct it."


def verdict_of_report(report: Report) -> Verdict:
    compared = (*((report.answers,) if report.answers is not None else ()), *report.vectors)
    shares = [output.agreement for output in compared]
    gaps = [Gap(f"output {name}", remedy=_COMPARE_OUTPUTS) for name in report.uncompared]
    for side, run in (("A", report.a), ("B", report.b)):
        if not has_answers(run):
            gaps.append(Gap(f"answers of {side}, which were not kept", remedy="Evaluate it without --no-accuracy."))
    inputs = report.a.inputs if shares else 0
    return _judged(shares, len(report.uncompared), [Tally("inputs", inputs, report.a.inputs)], gaps)


def verdict_of_equivalence(report: Equivalence) -> Verdict:
    shares = [output.agreement for pair in report.comparable for output in pair.outputs]
    gaps = [gap for pair in report.on for gap in _gaps_of(pair)]
    left_out = sum(_outputs_left_out(pair) for pair in report.comparable)
    compared, all_inputs = (sum(pair.n for pair in pairs) for pairs in (report.comparable, report.on))
    tallies = [
        Tally("datasets", len(report.comparable), len(report.on)),
        Tally("inputs", compared, all_inputs),
    ]
    return _judged(shares, left_out, tallies, gaps)


def _gaps_of(pair: OnData) -> list[Gap]:
    if not pair.outputs:
        return [Gap(f"{pair.dataset}: {reason}") for reason in pair.fit.reasons]
    left_out = _outputs_left_out(pair)
    return [Gap(f"output without a partner on {pair.dataset}", left_out)] if left_out else []


def _outputs_left_out(pair: OnData) -> int:
    most = max(_outputs(pair.a), _outputs(pair.b))
    return max(0, most - len(pair.outputs))


def _outputs(run: Run) -> int:
    return len(run.resolved.get("outputs") or (None,))


def _judged(shares: Sequence[float], left_out: int, tallies: Sequence[Tally], gaps: Sequence[Gap]) -> Verdict:
    """`shares`: the agreement on every output that was compared, NaN where the task could not tell it."""
    known = [share for share in shares if not math.isnan(share)]
    unknown = len(shares) - len(known)
    not_numbers = [Gap("agreement that is not a number", unknown, _NO_AGREEMENT)] if unknown else []
    outputs = Tally("outputs", len(known), len(shares) + left_out)
    coverage = Coverage((outputs, *tallies), (*gaps, *not_numbers))
    return judged(coverage, different=any(share < 1 for share in known))
