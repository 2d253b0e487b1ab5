"""`--fail-on`: a condition on a comparison or on an equivalence that makes a CI job fail.

Of `compare`: METRIC drop|rise|change OP NUMBER%, metric optionally with a scope, as in "top1 drop > 1%" or
"latency_p50[batch=8] rise > 10%". For metrics that are fractions (top1, recall, ece) the number is percentage points;
for all others it is relative to run A. Without a scope every scope counts (each class, each batch size; raw timings
only when named), and the worst one decides. "disagreement > 2%" is about answers that differ: another class, or a
vector that is off by more than a thousandth; of several outputs the one that differs most decides.

Of `equiv`: METRIC OP NUMBER%, where METRIC is `agreement` (measured), `guaranteed` (its lower bound), `identical`
(share of bit-equal outputs) or `accuracy_drop` (points that B is less accurate than A). Over several datasets the worst
decides.

Of `compare` too: "kl > 0.02" is about two language models, in nats a token.

Of both: "unknown", which refuses a verdict that is not known.

A gate neither passes nor fails on what is not known: it raises `NotKnown`, which has an exit code of its own.
"""

from __future__ import annotations

import math
import operator
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import numpy as np

from zoolens.base.errors import UnknownName, ZoolensError
from zoolens.base.phrases import first_few
from zoolens.base.statistics.intervals import Interval
from zoolens.base.store.records import Observation, is_disturbed
from zoolens.base.store.scopes import parse_scope
from zoolens.base.verdicts import UNKNOWN, NotKnown, UnknownGate
from zoolens.findings.comparisons.compare import verdict_of_report
from zoolens.findings.comparisons.equivalence import verdict_of_equivalence
from zoolens.findings.comparisons.outcomes import ComparedOutput

if TYPE_CHECKING:
    from zoolens.findings.comparisons.compare import FigurePair, Report
    from zoolens.findings.comparisons.equivalence import Equivalence

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
_DIVERGENCE: Final = re.compile(r"\s*kl\s*(?P<op>>=|<=|>|<)\s*(?P<number>\d+(?:\.\d+)?)\s*")
_DISAGREEMENT: Final = "disagreement"
_SUBJECT: Final = "the answers"
_SHOWN: Final = 5  # names in one sentence

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

    def other_end(self, report: Judged) -> float | None:
        """What the quantity may be instead, where it lies in a range and `worst` tells one end of it."""
        return None

    def verdict(self, report: Judged) -> tuple[bool, str]:
        """Whether the condition holds (the gate fails), and the fact behind it."""
        scope, value = self.worst(report)
        # No comparison with a NaN holds, so that it would pass every gate.
        if math.isnan(value):
            raise NotKnown(f"{self.metric} is not a number, so that the gate {self.text!r} would prove nothing.")
        holds, other = _OPERATORS[self.op](value, self.limit), self.other_end(report)
        if other is not None and holds is not _OPERATORS[self.op](other, self.limit):
            low, high = sorted((value, other))
            raise NotKnown(
                f"{self.metric} lies {_between(low, high)}, as far as tokens were kept, so that the gate {self.text!r} "
                "would prove nothing.",
                hint="Evaluate both on more and longer texts, with --fresh where a run is older than samples of "
                "unlikely tokens, or choose another limit.",
            )
        where = f"{self.metric}[{scope}]" if scope else self.metric
        said = f"{100 * value:.2f} %" if other in (None, value) else _between(*sorted((value, other)))
        return holds, f"{self.text}: {where} {self.verb} {said}"

    @property
    def verb(self) -> str:
        return "is"


def _between(low: float, high: float) -> str:
    """In as many digits as tell the two apart."""
    digits = next((digits for digits in range(2, 6) if f"{100 * low:.{digits}f}" != f"{100 * high:.{digits}f}"), 6)
    return f"between {100 * low:.{digits}f} and {100 * high:.{digits}f} %"


def _limits(output: ComparedOutput) -> Interval:
    """Between which numbers the agreement lies: that of language models is not known further than their tokens were
    kept."""
    figures = output.next_tokens
    return Interval(output.agreement, output.agreement) if figures is None else figures.agreement


# --- of a comparison


@dataclass(frozen=True)
class ComparisonGate(Gate["Report"]):
    scope: str | None = None
    way: str | None = None

    @property
    def verb(self) -> str:
        return self.way or "is"

    def holds(self, change: float) -> bool:
        """Whether the condition holds for a change of the metric: B − A of fractions, B/A − 1 of everything else."""
        return _OPERATORS[self.op](round(self._quantity(change), _DIGITS), self.limit)

    def _quantity(self, change: float) -> float:
        sign = {"drop": -1.0, "rise": 1.0}.get(self.way or "")
        return abs(change) if sign is None else sign * change

    def worst(self, report: Report) -> tuple[str, float]:
        values = self._values(report)
        choose = max if self.op.startswith(">") else min
        scope, value = choose(values.items(), key=lambda item: item[1])
        return scope, round(value, _DIGITS) + 0.0  # never -0.00

    def other_end(self, report: Report) -> float | None:
        if self.metric != _DISAGREEMENT:
            return None
        known = [] if report.answers is None else [1 - report.answers.agreement]
        return max([*known, *(1 - _limits(output).low for output in report.vectors)], default=None)

    def _values(self, report: Report) -> dict[str, float]:
        """The quantity the condition is about, by scope."""
        if self.metric == _DISAGREEMENT and report.uncompared:
            raise NotKnown(
                f"Nothing is known of the disagreement in {', '.join(report.uncompared[:_SHOWN])}, which `compare` "
                "does not compare, so that a gate on disagreement would prove nothing.",
                hint="`zoolens equiv` has gates too, and says which outputs it leaves out.",
            )
        if self.metric == _DISAGREEMENT and (report.answers is not None or report.vectors):
            of_classes = [] if report.answers is None else [1 - report.answers.agreement]
            shares = [*of_classes, *(1 - _limits(output).high for output in report.vectors)]
            if any(map(math.isnan, shares)):
                raise NotKnown(
                    "The share of equal answers is not a number, so that a gate on disagreement would prove nothing.",
                    hint="The task of an output computes it: correct what that task says of the agreement.",
                )
            return {"": max(shares)}
        if any(self.metric in change.left_out for change in report.vectors):
            raise NotKnown(
                f"{self.metric} is about tokens, and the two models split texts into different ones, so that a gate on "
                "it would prove nothing.",
                hint="Gate on bits_per_byte.",
            )
        self._refuse_disturbed(report)
        self._refuse_one_sided(report)
        meant = [figure for figure in report.figures if self._is_meant(figure)]
        self._refuse_unknown_changes(meant)
        values = {figure.scope: self._quantity(figure.change) for figure in meant if figure.change is not None}
        if not values:
            known = {_named(figure) for figure in report.figures}
            named = f"{self.metric}[{self.scope}]" if self.scope is not None else self.metric
            raise UnknownName("metric in both runs", named, known | {_DISAGREEMENT})
        return values

    def _refuse_disturbed(self, report: Report) -> None:
        """A timing that others disturbed proves nothing, neither that the gate holds nor that it does not."""
        for figure in report.figures:
            if not self._is_meant(figure):
                continue
            sides = [side for side, measured in (("A", figure.a), ("B", figure.b)) if is_disturbed(measured)]
            if sides:
                raise NotKnown(
                    f"{_named(figure)} of {' and '.join(sides)} was measured with fewer than 20 undisturbed samples, "
                    "so that a gate on it would judge other load of the machine.",
                    hint="Measure it again with --fresh on an idle machine or with more --latency-seconds, or gate "
                    f"on {figure.metric}[{replace(parse_scope(figure.scope), raw=True)}] if you mean the raw time.",
                )

    def _refuse_one_sided(self, report: Report) -> None:
        """A figure that A has and B lacks may be the worst of all. One that only B has decides nothing as long as
        there is another that both have."""
        paired = [figure for figure in report.figures if self._is_meant(figure)]
        only_a = [figure for figure in paired if figure.a.value is not None and figure.b.value is None]
        only_b = [figure for figure in paired if figure.a.value is None and figure.b.value is not None]
        known_of_a: list[FigurePair | Observation] = [*only_a, *self._known(report.only_a)]
        known_of_b: list[FigurePair | Observation] = [*only_b, *self._known(report.only_b)]
        if known_of_a:
            raise _one_sided(known_of_a, "A", "B")
        if known_of_b and all(figure.change is None for figure in paired):
            raise _one_sided(known_of_b, "B", "A")

    def _refuse_unknown_changes(self, figures: Sequence[FigurePair]) -> None:
        """Raises an error for a change relative to zero, and for one of what is not a number."""
        for figure in figures:
            if figure.a.value is None or figure.b.value is None:
                continue
            if figure.change is None or not math.isfinite(figure.change):
                raise NotKnown(
                    f"{_named(figure)} is {figure.a.value:g} in A and {figure.b.value:g} in B, so that its change in "
                    "percent is not known and a gate on it would prove nothing.",
                    hint="Look at both with `zoolens runs show`, or gate on another scope or metric.",
                )

    def _known(self, observations: Sequence[Observation]) -> list[Observation]:
        return [observed for observed in observations if self._is_meant(observed) and observed.value is not None]

    def _is_meant(self, figure: FigurePair | Observation) -> bool:
        if figure.metric != self.metric:
            return False
        return not parse_scope(figure.scope).raw if self.scope is None else figure.scope == self.scope


class DivergenceGate(Gate["Report"]):
    """How far the next tokens of B are from those of A. `limit` is in nats a token."""

    def worst(self, report: Report) -> tuple[str, float]:
        found = [change.next_tokens for change in report.vectors if change.next_tokens is not None]
        if not found:
            raise NotKnown(
                "kl is about two language models with the same tokens, and these runs have no such output in common.",
                hint="`zoolens runs show` tells the task of each output.",
            )
        return "", max(figures.divergence for figures in found)

    def verdict(self, report: Report) -> tuple[bool, str]:
        value = self.worst(report)[1]
        return _OPERATORS[self.op](value, self.limit), f"{self.text}: kl of the kept tokens is {value:.4g} nats a token"


def _one_sided(figures: Sequence[FigurePair | Observation], known_of: str, unknown_of: str) -> NotKnown:
    names = [_named(figure) for figure in figures]
    verb = "is" if len(names) == 1 else "are"
    return NotKnown(
        f"{first_few(names, _SHOWN)} {verb} known of {known_of} and not of {unknown_of}, so that a gate would prove "
        "nothing.",
        hint="Look at why with `zoolens runs show`, or gate on a scope that both have.",
    )


def _named(figure: FigurePair | Observation) -> str:
    return f"{figure.metric}[{figure.scope}]" if figure.scope else figure.metric


def parse_gate(text: str) -> ComparisonGate | DivergenceGate | UnknownGate[Report]:
    """A condition of `compare`."""
    if text.strip() == UNKNOWN:
        return UnknownGate(verdict_of_report, _SUBJECT)
    if divergence := _DIVERGENCE.fullmatch(text):
        return DivergenceGate(text.strip(), "kl", divergence["op"], float(divergence["number"]))
    match = _PATTERN.fullmatch(text)
    number = float(match["number"]) / 100 if match else 0.0
    if match is None or number < 0 or (match["way"] is None and match["metric"] != _DISAGREEMENT):
        raise ZoolensError(
            f"{text!r} is not a condition.",
            hint="Write it like 'top1 drop > 1%', 'latency_p50[batch=1] rise > 10%' or 'disagreement > 2%', "
            "of language models 'kl > 0.02'.",
        )
    return ComparisonGate(text.strip(), match["metric"], match["op"], number, match["scope"], match["way"])


# --- of an equivalence


class EquivalenceGate(Gate["Equivalence"]):
    def worst(self, report: Equivalence) -> tuple[str, float]:
        if len(report.comparable) < len(report.on):
            left_out = ", ".join(pair.dataset for pair in report.on if not pair.outputs)
            raise NotKnown(
                f"{report.a} and {report.b} cannot be compared on {left_out}: a gate would judge only the rest.",
                hint="Name the dataset to judge with --data.",
            )
        value = _EQUIVALENCE_METRICS[self.metric](report)
        if value is None or math.isnan(value):
            raise NotKnown(
                f"{self.metric} is not known for {report.a} and {report.b}.",
                hint="Bounds are off, the models have no accuracy, or no raw outputs were kept.",
            )
        return "", value

    def other_end(self, report: Equivalence) -> float | None:
        if self.metric != "agreement":
            return None
        return min(_limits(output).low for pair in report.comparable for output in pair.outputs)


def parse_equivalence_gate(text: str) -> EquivalenceGate | UnknownGate[Equivalence]:
    """A condition of `equiv`."""
    if text.strip() == UNKNOWN:
        return UnknownGate(verdict_of_equivalence, _SUBJECT)
    match = _PATTERN.fullmatch(text)
    if match is None or match["scope"] is not None or match["way"] is not None:
        raise ZoolensError(
            f"{text!r} is not a condition.", hint="Write it like 'agreement < 95%' or 'accuracy_drop > 1%'."
        )
    if match["metric"] not in _EQUIVALENCE_METRICS:
        raise UnknownName("metric of an equivalence", match["metric"], _EQUIVALENCE_METRICS)
    return EquivalenceGate(text.strip(), match["metric"], match["op"], float(match["number"]) / 100)


def _agreement(report: Equivalence) -> float:
    return float(np.min([_limits(output).high for pair in report.comparable for output in pair.outputs]))


def _identical(report: Equivalence) -> float:
    # numpy's minimum of a NaN, which stands for outputs that were not kept, is NaN.
    return float(np.min([output.identical for pair in report.comparable for output in pair.outputs]))


def _accuracy_drop(report: Equivalence) -> float | None:
    known = [pair.outputs[0].accuracy for pair in report.comparable]
    drops = [-accuracy.difference for accuracy in known if accuracy is not None]
    return max(drops) if drops and len(drops) == len(known) else None


_EQUIVALENCE_METRICS: Final[Mapping[str, Callable[[Equivalence], float | None]]] = {
    "agreement": _agreement,
    "guaranteed": lambda report: report.guaranteed,
    "identical": _identical,
    "accuracy_drop": _accuracy_drop,
}
