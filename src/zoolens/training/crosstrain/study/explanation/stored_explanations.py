"""Explanations in the store: what was found is kept in the study that holds the runs of an explanation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from zoolens.base.statistics.intervals import Interval
from zoolens.base.statistics.student import Estimate
from zoolens.base.store.json_columns import json_value
from zoolens.base.store.store import Store
from zoolens.training.crosstrain.study.explanation.explanation_results import Explanation
from zoolens.training.crosstrain.study.explanation.share_chart import shares_of
from zoolens.training.crosstrain.study.explanation.study_explanation_words import lines
from zoolens.training.crosstrain.study.stored_studies import file_study
from zoolens.training.pairs.explanation.shapley import ShapleyShare

KEY: Final = "explanation"  # in the details of a study


@dataclass(frozen=True)
class FiledExplanation:
    """What was found of a trial of a study."""

    runs_in: str  # the study that holds the runs
    study: str
    trial: str
    a: str
    b: str
    gap: Estimate  # b − a, in accuracy
    shares: tuple[ShapleyShare, ...]
    lines: tuple[str, ...]  # all that the command said


def file_explanation(store: Store, explanation: Explanation, study: str, trial: str) -> None:
    """Keep what was found of a trial of a study; what was found of it before is replaced."""
    pair = explanation.pair
    known = store.studies(explanation.study)[explanation.study]
    data = {
        "study": study,
        "trial": trial,
        "a": pair.a,
        "b": pair.b,
        "gap": json_value(pair.difference),
        "shares": json_value(shares_of(explanation)),
        "lines": lines(explanation),
    }
    file_study(store, explanation.study, known.frameworks, {**known.details, KEY: data})


def filed_explanations(store: Store, study: str) -> list[FiledExplanation]:
    """The explanations of trials of a study, and the one whose runs the study holds."""
    records = store.studies()
    explanations = [_read(name, record.details.get(KEY)) for name, record in sorted(records.items())]
    return [
        explanation
        for explanation in explanations
        if explanation is not None and study in (explanation.study, explanation.runs_in)
    ]


def _read(name: str, data: Any) -> FiledExplanation | None:
    """Reads an explanation; None where there is none, or where a stranger's study has something else under that
    name."""
    if not isinstance(data, Mapping):
        return None
    try:
        return FiledExplanation(
            name,
            str(data["study"]),
            str(data["trial"]),
            str(data["a"]),
            str(data["b"]),
            _estimate(data["gap"]),
            tuple(
                ShapleyShare(str(row["name"]), _estimate(row["points"]), _estimate(row["share"]))
                for row in data["shares"]
            ),
            tuple(str(line) for line in data["lines"]),
        )
    except (KeyError, TypeError, ValueError):
        return None


def _estimate(data: Mapping[str, Any]) -> Estimate:
    ends = data["interval"]
    return Estimate(float(data["value"]), None if ends is None else Interval(float(ends[0]), float(ends[1])))
