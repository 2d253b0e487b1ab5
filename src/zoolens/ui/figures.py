"""A number as the API gives it: with its interval, where it comes from, and the words that every page shows."""

from __future__ import annotations

from zoolens.present.figures import provenance_mark, with_interval
from zoolens.store.records import Observation, Provenance
from zoolens.ui.endpoint import Answer, Shown


class Figure(Answer):
    """`words` is the value with its unit, and marks where it is a claim or was disturbed; `interval` is the value with
    the interval in the same unit. `value` is null where it could not be had, and `reason` says why."""

    metric: Shown
    scope: Shown
    value: float | None
    low: float | None
    high: float | None
    unit: Shown
    n: int | None
    provenance: Provenance
    words: Shown
    interval: Shown
    reason: Shown


def figure_of(observation: Observation) -> Figure:
    """An observation of the store in the words of reports and of the terminal."""
    both = with_interval(observation) + provenance_mark(observation)
    alone, _, _ = with_interval(observation).partition(" [")
    return Figure(
        metric=observation.metric,
        scope=observation.scope,
        value=observation.value,
        low=observation.low,
        high=observation.high,
        unit=observation.unit,
        n=observation.n,
        provenance=observation.provenance,
        words=alone + provenance_mark(observation),
        interval=both,
        reason=str(observation.details.get("reason") or ""),
    )
