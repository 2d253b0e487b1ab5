"""/datasets: what was measured on, for the choice at the head of every page."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from zoolens.faces.ui.context import Context
from zoolens.faces.ui.endpoint import Answer, Endpoint, Query, Shown
from zoolens.faces.ui.known_datasets import known_datasets

MOST: Final = 500


class DatasetsQuery(Query):
    pass


class DatasetItem(Answer):
    """One dataset with evaluations. `name` is what `data` and `dataset` of other questions take."""

    name: Shown
    tasks: list[Shown]
    """What models do on it; the task of its newest run first."""
    inputs: int
    runs: int
    models: int
    newest: datetime


class DatasetList(Answer):
    """The dataset that was used last comes first."""

    total: int
    rows: list[DatasetItem]


def datasets(context: Context, _: DatasetsQuery) -> DatasetList:
    known = known_datasets(context)
    return DatasetList(total=len(known), rows=[DatasetItem.of(one) for one in known[:MOST]])


ENDPOINTS: Final = (Endpoint("/datasets", "Datasets that models were measured on", datasets),)
