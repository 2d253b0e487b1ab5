"""`--fail-on`: a condition on a comparison or on an equivalence that makes a CI job fail.

Of `compare`: METRIC drop|rise|change OP NUMBER%, metric optionally with a scope, as in "top1 drop > 1%" or
"latency_p50[batch=8] rise > 10%". For metrics that are fractions (top1, recall, ece) the number is percentage points;
for all others it is relative to run A. Without a scope every scope counts (each class, each batch size; raw timings
only when named), and the worst one decides. "disagreement > 2%" is about answers that differ: another class, or a
vector that is off by more than a thousandth.

Of `equiv`: METRIC OP NUMBER%, where METRIC is `agreement` (measured), `guaranteed` (its lower bound), `identical`
(share of bit-equal outputs) or `accuracy_drop` (points that B is less accurate than A). Over several datasets the worst
decides.

What is not known is an error: a gate neither passes nor fails on it.
"""

from __future__ import annotations

import math
import operator
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import numpy as np

from zoolens.errors import UnknownName, ZoolensError
from zoolens.store.records import is_disturbed
from zoolens.store.scopes import parse_scope

if TYPE_CHECKING:
    from zoolens.comparisons.compare import Report
    from zoolens.comparisons.equivalence import Equivalence

_OPERATORS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_DIGITS: Final = 12  # 91 % less 90 % is 1 %: differences of floats are a little off, and a gate must not fire on that
_PATTERN: Final = re.compile(
    r"\s*(?P<metric>\w+)(?:\[(?P<scope>[^\]]*)\])?\s*(?:\s(?P<way>drop|rise|change)\s*)?"
    r"(?P<op>>=|<=|>|<)\s*(?P<number>-?\d+(?:\.\d+)?)\s*%\s*"
)
_DISAGREEMENT: Final = "disagreement"

Judged = TypeVar("Judged", "Report", "Equivalence")


@dataclass(frozen=True)
class Gate(ABC, Generic[Judged]):
    """One condition. `limit` is a fraction."""

    text: str
    metric: str
    op: str
    limit: float

    @abstractmethod
    def worst(self, report: Judged) -> tuple[str, float]:
        """The scope that decides, and the quantity that the condition is about there."""

    def verdict(self, report: Judged) -> tuple[bool, str]:
        """Whether the condition holds (the gate fails), and the fact behind it."""
        scope, value = self.worst(report)
        where = f"{self.metric}[{scope}]" if scope else self.metric
        return _OPERATORS[self.op](value, self.limit), f"{self.text}: {where} {self.verb} {100 * value:.2f} %"

    @property
    def verb(self) -> str:
        return "is"


# --- of a comparison


@dataclass(frozen=True)
class ComparisonGate(Gate["Report"]):
    scope: str | None = None
    way: str | None = None

    @property
    def verb(self) -> str:
        return self.way or "is"

    def worst(self, report: Report) -> tuple[str, float]:
        values = self._values(report)
        choose = max if self.op.startswith(">") else min
        scope, value = choose(values.items(), key=lambda item: item[1])
        return scope, round(value, _DIGITS) + 0.0  # never -0.00

    def _values(self, report: Report) -> dict[str, float]:
        """The quantity the condition is about, by scope."""
        if self.metric == _DISAGREEMENT and report.answers is not None:
            return {"": 1 - report.answers.agreement}
        if self.metric == _DISAGREEMENT and report.vectors:
            return {"": max(1 - change.agreement for change in report.vectors)}
        sign = {"drop": -1.0, "rise": 1.0}.get(self.way or "")
        self._refuse_disturbed(report)
        self._refuse_lost(report)
        values = {
            figure.scope: abs(figure.change) if sign is None else sign * figure.change
            for figure in report.figures
            if figure.metric == self.metric and figure.change is not None and self._is_meant(figure.scope)
        }
        if not values:
            known = {f"{figure.metric}[{figure.scope}]" if figure.scope else figure.metric for figure in report.figures}
            named = f"{self.metric}[{self.scope}]" if self.scope is not None else self.metric
            raise UnknownName("metric in both runs", named, known | {_DISAGREEMENT})
        return values

    def _refuse_disturbed(self, report: Report) -> None:
        """A timing that others disturbed proves nothing, neither that the gate holds nor that it does not."""
        for figure in report.figures:
            if figure.metric != self.metric or not self._is_meant(figure.scope):
                continue
            sides = [side for side, measured in (("A", figure.a), ("B", figure.b)) if is_disturbed(measured)]
            if sides:
                where = f"{figure.metric}[{figure.scope}]"
                raise ZoolensError(
                    f"{where} of {' and '.join(sides)} was measured with fewer than 20 undisturbed samples, so that a "
                    "gate on it would judge what else the machine did.",
                    hint="Measure it again with --fresh on a quieter machine or with more --latency-seconds, or gate "
                    f"on {figure.metric}[{replace(parse_scope(figure.scope), raw=True)}] if you mean the raw time.",
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


def parse_gate(text: str) -> ComparisonGate:
    """A condition of `compare`."""
    match = _PATTERN.fullmatch(text)
    number = float(match["number"]) / 100 if match else 0.0
    if match is None or number < 0 or (match["way"] is None and match["metric"] != _DISAGREEMENT):
        raise ZoolensError(
            f"{text!r} is not a condition.",
            hint="Write it like 'top1 drop > 1%', 'latency_p50[batch=1] rise > 10%' or 'disagreement > 2%'.",
        )
    return ComparisonGate(text.strip(), match["metric"], match["op"], number, match["scope"], match["way"])


# --- of an equivalence


class EquivalenceGate(Gate["Equivalence"]):
    def worst(self, report: Equivalence) -> tuple[str, float]:
        if len(report.comparable) < len(report.on):
            left_out = ", ".join(pair.dataset for pair in report.on if not pair.outputs)
            raise ZoolensError(
                f"{report.a} and {report.b} cannot be compared on {left_out}: a gate would judge only the rest.",
                hint="Name the data to judge with --data.",
            )
        value = _EQUIVALENCE_METRICS[self.metric](report)
        if value is None or math.isnan(value):
            raise ZoolensError(
                f"{self.metric} is not known for {report.a} and {report.b}.",
                hint="Bounds are off, the models have no accuracy, or no raw outputs were kept.",
            )
        return "", value


def parse_equivalence_gate(text: str) -> EquivalenceGate:
    """A condition of `equiv`."""
    match = _PATTERN.fullmatch(text)
    if match is None or match["scope"] is not None or match["way"] is not None:
        raise ZoolensError(
            f"{text!r} is not a condition.", hint="Write it like 'agreement < 95%' or 'accuracy_drop > 1%'."
        )
    if match["metric"] not in _EQUIVALENCE_METRICS:
        raise UnknownName("metric of an equivalence", match["metric"], _EQUIVALENCE_METRICS)
    return EquivalenceGate(text.strip(), match["metric"], match["op"], float(match["number"]) / 100)


def _identical(report: Equivalence) -> float:
    # numpy's minimum of a NaN, which stands for outputs that were not kept, is NaN.
    return float(np.min([output.identical for pair in report.comparable for output in pair.outputs]))


def _accuracy_drop(report: Equivalence) -> float | None:
    known = [pair.outputs[0].accuracy for pair in report.comparable]
    drops = [-accuracy.difference for accuracy in known if accuracy is not None]
    return max(drops) if drops and len(drops) == len(known) else None


_EQUIVALENCE_METRICS: Final[Mapping[str, Callable[[Equivalence], float | None]]] = {
    "agreement": lambda report: report.agreement,
    "guaranteed": lambda report: report.guaranteed,
    "identical": _identical,
    "accuracy_drop": _accuracy_drop,
}
