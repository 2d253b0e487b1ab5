"""`--fail-on "top1 drop > 1%"`: a condition on a comparison that makes a CI job fail.

METRIC drop|rise|change OP NUMBER%, metric optionally with a scope: `latency_p50[batch=8] rise > 10%`. For metrics that
are fractions (top1, recall, ece) the number is percentage points; for all others it is relative to run A. Without a
scope every scope counts (each class, each batch size; raw timings only when named), and the worst one decides.
`disagreement > 2%` is about answers that differ: another class, or a vector that is off by more than a thousandth.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from zoolens.comparisons.compare import Report
from zoolens.errors import UnknownName, ZoolensError
from zoolens.store.records import is_disturbed
from zoolens.store.scopes import parse_scope

OPERATORS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_DIGITS = 12  # 91 % less 90 % is 1 %: differences of floats are a little off, and a gate must not fire on that
_PATTERN = re.compile(
    r"^\s*(?P<metric>\w+)(?:\[(?P<scope>[^\]]*)\])?\s+(?:(?P<way>drop|rise|change)\s+)?"
    r"(?P<op>>=|<=|>|<)\s*(?P<number>\d+(?:\.\d+)?)\s*%\s*$"
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
        scope, value = self.worst(report)
        where = f"{self.metric}[{scope}]" if scope else self.metric
        return OPERATORS[self.op](value, self.limit), f"{self.text}: {where} {self.way or 'is'} {100 * value:.2f} %"

    def worst(self, report: Report) -> tuple[str, float]:
        """The scope that decides, and the quantity that the condition is about there."""
        found = self._values(report)
        choose = max if self.op.startswith(">") else min
        scope, value = choose(found.items(), key=lambda item: item[1])
        return scope, round(value, _DIGITS) + 0.0  # never -0.00

    def _values(self, report: Report) -> dict[str, float]:
        """The quantity the condition is about, by scope."""
        if self.metric == "disagreement" and report.answers is not None:
            return {"": 1 - report.answers.agreement}
        if self.metric == "disagreement" and report.vectors:
            return {"": max(1 - one.agreement for one in report.vectors)}
        sign = {"drop": -1.0, "rise": 1.0}.get(self.way or "")
        self._refuse_disturbed(report)
        self._refuse_lost(report)
        found = {
            one.scope: abs(one.change) if sign is None else sign * one.change
            for one in report.figures
            if one.metric == self.metric and one.change is not None and self._is_meant(one.scope)
        }
        if not found:
            known = {f"{one.metric}[{one.scope}]" if one.scope else one.metric for one in report.figures}
            named = f"{self.metric}[{self.scope}]" if self.scope is not None else self.metric
            raise UnknownName("metric in both runs", named, known | {"disagreement"})
        return found

    def _refuse_disturbed(self, report: Report) -> None:
        """A timing that others disturbed proves nothing, neither that the gate holds nor that it does not."""
        for one in report.figures:
            if one.metric != self.metric or not self._is_meant(one.scope):
                continue
            sides = [side for side, figure in (("A", one.a), ("B", one.b)) if is_disturbed(figure)]
            if sides:
                where = f"{one.metric}[{one.scope}]"
                raise ZoolensError(
                    f"{where} of {' and '.join(sides)} was measured with fewer than 20 undisturbed samples, so that a "
                    "gate on it would judge what else the machine did.",
                    hint="Measure it again with --fresh on a quieter machine or with more --latency-seconds, or gate "
                    f"on {one.metric}[{replace(parse_scope(one.scope), raw=True)}] if you mean the raw time.",
                )

    def _refuse_lost(self, report: Report) -> None:
        """A figure that A has and B could not give may be the worst of all."""
        lost = [
            figure.scope
            for figure in report.figures
            if figure.metric == self.metric
            and self._is_meant(figure.scope)
            and figure.a.value is not None
            and figure.b.value is None
        ]
        if lost:
            where = ", ".join(f"{self.metric}[{scope}]" if scope else self.metric for scope in lost)
            raise ZoolensError(
                f"{where} is known of A and not of B, so that a gate on it would prove nothing.",
                hint="Look at why with `zoolens runs show`, or gate on a scope that both have.",
            )

    def _is_meant(self, scope: str) -> bool:
        return not parse_scope(scope).raw if self.scope is None else scope == self.scope


def parse_gate(text: str) -> Gate:
    match = _PATTERN.match(text)
    if match is None or (match["way"] is None and match["metric"] != "disagreement"):
        raise ZoolensError(
            f"{text!r} is not a condition.",
            hint="Write it like 'top1 drop > 1%', 'latency_p50[batch=1] rise > 10%' or 'disagreement > 2%'.",
        )
    number = float(match["number"]) / 100
    return Gate(text.strip(), match["metric"], match["scope"], match["way"], match["op"], number)
