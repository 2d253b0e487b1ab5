"""An index as queries read it: attributes, units and models of its rows, worked out once for all queries."""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.recent_values import RecentValues
from zoolens.findings.index.index import Index
from zoolens.findings.queries.language.errors import UnknownQueryName
from zoolens.findings.queries.language.syntax import Condition
from zoolens.findings.queries.planning.condition_evaluator import COMMON, Attributes, rows_where
from zoolens.findings.queries.planning.metrics import ACCURACY, ResolvedMetric, resolved_metric
from zoolens.inventory.tasks.task import task_named

Values = NDArray[np.float64]
Mask = NDArray[np.bool_]

_KEPT: Final = 4  # agreements
_REMEMBERED: Final = 100  # names and conditions


class View:
    """Everything here is made when first asked for, and kept for the queries that follow."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self.attributes = Attributes(index.rows)
        self._rows: RecentValues[tuple[str, tuple[tuple[str, str], ...]], int] = RecentValues(_REMEMBERED)
        self._metrics: RecentValues[tuple[str, int], ResolvedMetric] = RecentValues(_REMEMBERED)
        self._where: RecentValues[tuple[Condition, int], Mask] = RecentValues(_REMEMBERED)
        self._measured: dict[str, Mask] = {}
        self._agreements: RecentValues[int, Values] = RecentValues(_KEPT)

    def __len__(self) -> int:
        return len(self.index.rows)

    @property
    def probes(self) -> int:
        """How many inputs equivalence is measured on."""
        semantic = self.index.semantic
        return 0 if semantic is None else semantic.probes

    @property
    def counts_answers(self) -> bool:
        """Whether equivalence is a share of inputs, of which bounds are known; other tasks compare by distance, or by
        an agreement that may lie between 0 and 1 on an input."""
        semantic = self.index.semantic
        return semantic is None or (semantic.labels and not task_named(semantic.task).graded)

    @property
    def agreement_is_exact(self) -> bool:
        """Whether enough is kept of answers to know how far they agree."""
        semantic = self.index.semantic
        return semantic is None or task_named(semantic.task).agreement_is_exact

    @property
    def closer_agreement(self) -> str:
        """How an agreement that is not known exactly would be known more closely."""
        semantic = self.index.semantic
        return "" if semantic is None else task_named(semantic.task).closer_agreement

    @property
    def searched_by_distance(self) -> bool:
        semantic = self.index.semantic
        return semantic is not None and task_named(semantic.task).searched_by_distance

    @property
    def equivalence_name(self) -> str:
        """What the equivalence with the reference is."""
        if self.counts_answers or self.index.semantic is None:
            return "equal answers"
        task = task_named(self.index.semantic.task)
        return "alike" if task.searched_by_distance else task.agreement_name()

    @property
    def quality(self) -> str:
        """The column that says how good a model is: its accuracy, or the main metric of another task."""
        semantic = self.index.semantic
        return ACCURACY if semantic is None else task_named(semantic.task).metric or ACCURACY

    @property
    def dataset(self) -> str:
        return self.index.dataset.name

    @property
    def units(self) -> dict[str, str]:
        """Every column of figures, with its unit."""
        return self.index.rows.figures.units

    @property
    def models(self) -> NDArray[np.int64]:
        """For each row, the number of its model's first row."""
        return self.index.rows.models

    @cached_property
    def most_rows_of_a_model(self) -> int:
        return int(np.bincount(self.models).max(initial=1))

    @property
    def answered(self) -> Mask:
        """The rows that answered the probes."""
        return self.index.rows.signed

    @cached_property
    def twins(self) -> Mask:
        return self.index.rows.attribute("twin_of").codes >= 0

    @cached_property
    def has_twins(self) -> bool:
        return bool(self.twins.any())

    def find(self, name: str, settings: tuple[tuple[str, str], ...]) -> int:
        """The row that a name means, of those that run so."""
        return self._rows.kept((name, settings), lambda: self.index.find(name, dict(settings)))

    def metric(self, name: str, batch: int) -> ResolvedMetric:
        """What a metric's name stands for here. Accuracy is the main metric of another task than classification."""
        if name == "accuracy" and self.quality != ACCURACY:
            return self._metrics.kept((name, batch), lambda: resolved_metric(self.quality, self.units, batch))
        return self._metrics.kept((name, batch), lambda: resolved_metric(name, self.units, batch))

    def where(self, condition: Condition, batch: int = 1) -> Mask:
        return self._where.kept(
            (condition, batch),
            lambda: rows_where(condition, self.attributes, lambda name: self._figures(name, batch)),
        )

    def is_attribute(self, name: str) -> bool:
        """Whether a name is an attribute. A figure goes before an attribute that some manifests happen to call so: the
        models of all others would be left out, although the store has their figures."""
        return name in COMMON or (name in self.attributes and not self._is_figure(name))

    def _is_figure(self, name: str) -> bool:
        try:
            self.metric(name, 1)
        except UnknownQueryName:
            return False
        return True

    def _figures(self, name: str, batch: int) -> Values | None:
        return None if self.is_attribute(name) else self.values(self.metric(name, batch).column)

    def measured(self, column: str) -> Mask:
        """The rows whose figure was measured, neither claimed nor estimated."""
        if column not in self._measured:
            self._measured[column] = self.index.rows.figures.measured(column)
        return self._measured[column]

    def values(self, column: str) -> Values:
        return self.index.columns.values(column)

    def agreement(self, row: int) -> Values:
        """Agreement of a row with every row; NaN where unknown. The last few results are kept."""
        return self._agreements.kept(row, lambda: self.index.agreement(row))

    def least_agreement(self, row: int) -> Values:
        """What the agreement of a row with every row is at least."""
        return self.agreement(row) if self.agreement_is_exact else self.index.agreement_range(row).least
