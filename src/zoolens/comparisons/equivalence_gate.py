"""`--fail-on "agreement < 95%"`: a condition on an equivalence that makes a CI job fail.

METRIC OP NUMBER%, where METRIC is `agreement` (measured), `guaranteed` (its lower bound), `identical` (share of
bit-equal outputs) or `accuracy_drop` (points that B is less accurate than A). Over several datasets the worst decides.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from zoolens.comparisons.equivalence import Equivalence
from zoolens.comparisons.gate import OPERATORS
from zoolens.errors import UnknownName, ZoolensError

_PATTERN: Final = re.compile(r"\s*(?P<metric>\w+)\s*(?P<op>>=|<=|>|<)\s*(?P<number>-?\d+(?:\.\d+)?)\s*%\s*")


@dataclass(frozen=True)
class Gate:
    text: str
    metric: str
    op: str
    limit: float  # as a fraction

    def verdict(self, report: Equivalence) -> tuple[bool, str]:
        """Whether the condition holds (the gate fails), and the fact behind it."""
        if len(report.comparable) < len(report.on):
            left_out = ", ".join(pair.dataset for pair in report.on if not pair.outputs)
            raise ZoolensError(
                f"{report.a} and {report.b} cannot be compared on {left_out}: a gate would judge only the rest.",
                hint="Name the data to judge with --data.",
            )
        value = _METRICS[self.metric](report)
        if value is None or math.isnan(value):
            raise ZoolensError(
                f"{self.metric} is not known for {report.a} and {report.b}.",
                hint="Bounds are off, the models have no accuracy, or no raw outputs were kept.",
            )
        return OPERATORS[self.op](value, self.limit), f"{self.text}: {self.metric} is {100 * value:.2f} %"


def parse_gate(text: str) -> Gate:
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise ZoolensError(
            f"{text!r} is not a condition.", hint="Write it like 'agreement < 95%' or 'accuracy_drop > 1%'."
        )
    if match["metric"] not in _METRICS:
        raise UnknownName("metric of an equivalence", match["metric"], _METRICS)
    return Gate(text.strip(), match["metric"], match["op"], float(match["number"]) / 100)


def _identical(report: Equivalence) -> float:
    # numpy's minimum of a NaN, which stands for outputs that were not kept, is NaN.
    return float(np.min([output.identical for one in report.comparable for output in one.outputs]))


def _accuracy_drop(report: Equivalence) -> float | None:
    known = [one.outputs[0].accuracy for one in report.comparable]
    drops = [-accuracy.difference for accuracy in known if accuracy is not None]
    return max(drops) if drops and len(drops) == len(known) else None


_METRICS: Final[Mapping[str, Callable[[Equivalence], float | None]]] = {
    "agreement": lambda report: report.agreement,
    "guaranteed": lambda report: report.guaranteed,
    "identical": _identical,
    "accuracy_drop": _accuracy_drop,
}
