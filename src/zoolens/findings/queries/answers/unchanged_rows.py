"""The best rows of a query whose model's file is the one that was measured: what is known of another is not about what
is there.

Files are looked at when the answer is, best rows first, and of as few rows as possible: they may be large. Where most
of the best models have changed, many rows are judged together, since each look at the store costs as much as hundreds
of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from zoolens.findings.index.index import Index
from zoolens.findings.queries.planning.query_plan import Plan

_PATIENT: Final = 4  # judgements of as many rows as are wanted, before more are judged than may be needed


def settled(plan: Plan, best: Sequence[int]) -> tuple[Plan, Sequence[int]]:
    """The plan and its best rows without models whose file has changed. `best`: the rows that the plan gives."""
    judgements = _Judgements(plan.view.index, plan.limit)
    judgements.judge(best)
    if not judgements.changed:
        return plan, best
    most = plan.wanted
    while True:
        ranked, all_rows = plan.ranked_rows(most)
        kept, changed = _unchanged(plan, ranked, judgements)
        if len(kept) == plan.limit or all_rows:
            return replace(plan, changed=tuple(changed)), kept
        most *= 4


class _Judgements:
    """Which rows' files have changed, as far as they were looked at."""

    def __init__(self, index: Index, limit: int) -> None:
        self._index = index
        self._calls = 0
        self.at_once = limit  # rows to judge next
        self.looked_at: set[int] = set()
        self.changed: set[int] = set()

    def judge(self, rows: Sequence[int]) -> None:
        self.changed.update(self._index.changed_rows(rows))
        self.looked_at.update(rows)
        self._calls += 1
        if self._calls >= _PATIENT:
            self.at_once *= 2


def _unchanged(plan: Plan, ranked: Sequence[int], judgements: _Judgements) -> tuple[list[int], list[int]]:
    """The best unchanged row of each model, as many as are wanted, and the changed rows that are better than these."""
    models = plan.view.models.take(ranked).tolist()
    kept: dict[int, int] = {}
    changed = []
    for place, (row, model) in enumerate(zip(ranked, models, strict=True)):
        if model in kept:
            continue
        if len(kept) == plan.limit:
            break
        if row not in judgements.looked_at:
            ahead = zip(ranked[place:], models[place:], strict=True)
            open_ = (other for other, its in ahead if its not in kept and other not in judgements.looked_at)
            judgements.judge(list(islice(open_, judgements.at_once)))
        if row in judgements.changed:
            changed.append(row)
        else:
            kept[model] = row
    return list(kept.values()), changed
