"""What each run is about, in a few words: for who looks at very many runs and needs neither manifests nor locks.

Reading whole runs checks every row and takes a minute for a hundred thousand of them; this takes about a second, and
then only what changed is read again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime
from sys import intern
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Select, select

from zoolens.store.records import RunKind
from zoolens.store.schema import datasets, models, runs, stacks

_AT_ONCE: Final = 5_000  # ids a statement


class RunSummary(NamedTuple):
    """One run. `model` and `dataset` are fingerprints, `ref` and `dataset_name` what they were first called."""

    seq: int
    id: str
    kind: RunKind
    model: str
    ref: str
    format: str
    dataset: str
    dataset_name: str
    runtime: str
    created: datetime


def load_summaries(connection: Connection, ids: Collection[str] | None = None) -> list[RunSummary]:
    """The runs of these ids, or all, oldest first."""
    kinds = {kind.value: kind for kind in RunKind}
    summaries = [
        RunSummary(
            row.seq, row.id, kinds[row.kind], intern(row.model), intern(row.ref), intern(row.format),
            intern(row.dataset), intern(row.name), intern(row.runtime), row.created,
        )
        for query in _queries(ids)
        for row in connection.execute(query)
    ]  # fmt: skip
    return sorted(summaries) if ids is not None else summaries


def _queries(ids: Collection[str] | None) -> Iterator[Select[Any]]:
    subject = (
        select(
            runs.c.seq, runs.c.id, runs.c.kind, runs.c.model, models.c.ref, models.c.format, runs.c.dataset,
            datasets.c.name, stacks.c.runtime, runs.c.created,
        )
        .join(models, models.c.fingerprint == runs.c.model)
        .join(datasets, datasets.c.fingerprint == runs.c.dataset)
        .join(stacks, stacks.c.fingerprint == runs.c.stack)
        .order_by(runs.c.seq)
    )  # fmt: skip
    if ids is None:
        yield subject
        return
    wanted = list(ids)
    for start in range(0, len(wanted), _AT_ONCE):
        yield subject.where(runs.c.id.in_(wanted[start : start + _AT_ONCE]))
