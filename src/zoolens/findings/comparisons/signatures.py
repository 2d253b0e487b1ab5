"""Prediction signatures: what a run answered, input by input, read back as arrays.

Any pair of runs on the same inputs can be compared from these with no further inference.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from zoolens.base.errors import DatasetError, StoreError
from zoolens.base.store.records import Part, Run, RunKind
from zoolens.base.store.store import Store
from zoolens.findings.measure.answers import answering_stage, answers_table, has_answers, predictions_of, unfinished
from zoolens.findings.measure.class_order import data_classes, stored_translation
from zoolens.findings.measure.predictions import Predictions, numbers, renumbered
from zoolens.inventory.datasets.opening import absolute_spec
from zoolens.inventory.tasks.task import DEFAULT_TASK


@dataclass(frozen=True, kw_only=True)
class Signature(Predictions):
    """The predictions of a stored run."""

    run: Run

    @property
    def model(self) -> str:
        return self.run.ref


def signature_of(store: Store, run: Run, parts: Sequence[Part] = ()) -> Signature:
    """What a run answered; refused where it has not answered every input. `parts`: as `answers_table` takes them."""
    if not has_answers(run):
        # It may have answered the rest since it was read; a stage that is done stays done.
        state = store.stages(run.id).get(answering_stage(run))
        if state is None or not state.done:
            raise unfinished(run)
    table = answers_table(store, run, parts)
    _check_rows(table, run)
    return Signature(**vars(predictions_of(table, run)), run=run)


def known_score(score: np.floating[Any]) -> float | None:
    """Return a score that was kept; None for NaN, which stands in its place where none was."""
    return None if np.isnan(score) else float(score)


def signature_in_data_order(store: Store, run: Run) -> Signature:
    """Return what a run answered, with its classes named and numbered as in the dataset."""
    named = replace(signature_of(store, run), classes=data_classes(run))
    return renumbered(named, stored_translation(run))


def identical_share(store: Store, a: Run, b: Run) -> float | None:
    """Return the share of inputs with bit-equal answers in all outputs; None if one of the runs has no answers."""
    if not (has_answers(a) and has_answers(b)):
        return None
    ours, theirs = answers_table(store, a), answers_table(store, b)
    digests, other_digests = (
        [name for name in table.column_names if name.endswith("digest")] for table in (ours, theirs)
    )
    if ours.num_rows != theirs.num_rows or digests != other_digests:
        return 0.0
    equal = np.ones(ours.num_rows, bool)
    for name in digests:
        equal &= ours[name].to_numpy() == theirs[name].to_numpy()
    return float(equal.mean())


def signature_or_reason(store: Store, run: Run) -> Signature | str:
    """The signature of a run, or the sentence that says why its file cannot be read, for whoever goes on without it."""
    try:
        return signature_of(store, run)
    except StoreError as error:
        return f"{run.ref} in {run.stack.runtime} is left out: {error}"


def _check_rows(table: pa.Table, run: Run) -> None:
    """Runs are compared row by row: row i must be input i."""
    # Its dataset is for training too.
    inputs = table.num_rows if run.kind is RunKind.TRAINING else run.dataset.size
    if not np.array_equal(numbers(table["index"]), np.arange(inputs)):
        raise StoreError(
            f"The predictions of run {run.id[:8]} are not one row for each of its {run.dataset.size:,} inputs.",
            hint="Measure it again with `zoolens eval --fresh`.",
        )


def probe_runs(
    store: Store, *, data: str | None = None, task: str | None = None, kind: RunKind = RunKind.EVALUATION
) -> list[Run]:
    """Measured runs with finished predictions, newest first: the last attempt of each model on each data in each stack.

    `data`: a pattern on the dataset's name, or the data as `zoolens eval --data` was told. In the second case runs on a
    part of it (`--limit`) count only where none is on the whole.
    """
    runs = store.runs(dataset=data, kind=kind)
    if data is not None and not runs:
        runs = _told(store, data)
    last: dict[tuple[str, str, str], Run] = {}
    for run in runs:
        if has_answers(run) and (task is None or task_of(run) == task):
            key = (run.key.model, run.key.dataset, run.key.stack)
            if key not in last or last[key].key.attempt < run.key.attempt:
                last[key] = run
    return list(last.values())


def default_dataset(runs: Iterable[Run], among: Collection[str] | None = None) -> str | None:
    """The fingerprint of the dataset that is meant where none is named: the one that most models were measured on, then
    the one with most inputs, then the newest. `among`: of these only."""
    by_data: dict[str, list[Run]] = {}
    for run in runs:
        if among is None or run.key.dataset in among:
            by_data.setdefault(run.key.dataset, []).append(run)
    return max(by_data, key=lambda data: _worth(by_data[data]), default=None)


def _worth(runs: Sequence[Run]) -> tuple[int, int, int]:
    models = {run.ref for run in runs}
    return len(models), runs[0].inputs, max(run.number for run in runs)


def task_of(run: Run) -> str:
    """What the main output does."""
    outputs = run.resolved.get("outputs") or run.model.manifest.get("outputs") or [{}]
    return str(outputs[0].get("task") or DEFAULT_TASK)


def _told(store: Store, data: str) -> list[Run]:
    """Runs on data that someone named so, also those on the same content by another name."""
    try:
        spec = absolute_spec(data)
    except DatasetError:
        return []
    runs = store.runs()
    named = [run for run in runs if run.origin.get("data") == spec]
    meant = {run.key.dataset for run in named if run.origin.get("limit") is None} or {run.key.dataset for run in named}
    return [run for run in runs if run.key.dataset in meant]
