"""`--fail-on "top1 drop > 1%"`: a condition on a comparison that makes a CI job fail.

METRIC drop|rise|change OP NUMBER[%], metric optionally with a scope: `latency_p50[batch=8] rise > 10%`. For metrics
that are fractions (top1, recall, ece) a number is percentage points; for all others it is relative to run A.
`disagreement > 2%` is about answers that differ.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

from zoolens.comparisons.paired import Report
from zoolens.errors import UnknownName, ZoolensError

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_PATTERN = re.compile(
    r"^\s*(?P<metric>\w+)(?:\[(?P<scope>[^\]]*)\])?\s+(?:(?P<way>drop|rise|change)\s+)?"
    r"(?P<op>>=|<=|>|<)\s*(?P<number>\d+(?:\.\d+)?)\s*(?P<percent>%?)\s*$"
)


@dataclass(frozen=True)
class Gate:
    text: str
    metric: str
    scope: str | None
    way: str | None
    op: str
    limit: float  # as a fraction

    def verdict(self, report: Report) -> tuple[bool, str]:
        """Whether the condition holds (the gate fails), and the fact behind it."""
        value = self._value(report)
        holds = _OPERATORS[self.op](value, self.limit)
        return holds, f"{self.text}: {self.metric} {self.way or 'is'} {100 * value:.2f} %"

    def _value(self, report: Report) -> float:
        if self.metric == "disagreement":
            return 1 - report.agreement
        figure = report.value(self.metric, self.scope)
        if figure is None or figure.change is None:
            known = {one.metric for one in report.figures if one.change is not None} | {"disagreement"}
            raise UnknownName("metric in both runs", self.metric, known)
        return {"drop": -figure.change, "rise": figure.change, "change": abs(figure.change)}[self.way or "change"]


def parse_gate(text: str) -> Gate:
    match = _PATTERN.match(text)
    if match is None or (match["way"] is None and match["metric"] != "disagreement"):
        raise ZoolensError(
            f"{text!r} is not a condition.",
            hint="Write it like 'top1 drop > 1%', 'latency_p50[batch=1] rise > 10%' or 'disagreement > 2%'.",
        )
    number = float(match["number"]) / (100 if match["percent"] else 1)
    return Gate(text.strip(), match["metric"], match["scope"], match["way"], match["op"], number)
