"""Every model against every other on the same inputs, in an order that shows families.

matrix = zoolens.agreement_matrix("demo:*")
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ZoolensError
from zoolens.base.present.results import Result, frame
from zoolens.base.present.tables import csv_text
from zoolens.base.store.json_columns import json_value
from zoolens.base.store.records import Run
from zoolens.base.store.store import Store, borrowed_store
from zoolens.findings.comparisons.behaviour import agreement_of
from zoolens.findings.comparisons.compatibility import Interface, compare_interfaces, interface_of
from zoolens.findings.comparisons.contents import changed_notes
from zoolens.findings.comparisons.linkage import families
from zoolens.findings.comparisons.runs import formats_read, runs_like, short_names
from zoolens.findings.comparisons.signatures import Signature, default_dataset, signature_or_reason, task_of
from zoolens.findings.measure.named_runs import RunOrModel, run_text
from zoolens.findings.measure.predictions import renumbered
from zoolens.inventory.catalog.names import bare
from zoolens.inventory.tasks.task import TOLERANCE, task_named

Array = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class Matrix(Result):
    """Row and column i are about `names[i]`. NaN: the two cannot be compared, for the reason in `notes`.

    `difference[i, j]` is the accuracy of j less that of i. `groups[i]`: number of the family that i belongs to.
    """

    names: tuple[str, ...]
    runs: tuple[Run, ...]
    agreement: Array
    difference: Array
    accuracy: Array  # NaN where the task has none
    groups: tuple[int, ...]
    notes: tuple[str, ...]
    agreement_name: str = "same answer"  # what the task of the models says of it

    def frame(self) -> Any:
        """Returns a pandas DataFrame with the agreement of every two models."""
        rows = [
            {"model": name, **dict(zip(self.names, row, strict=True))}
            for name, row in zip(self.names, self.agreement.tolist(), strict=True)
        ]
        return frame(rows, "Matrix.frame")

    @property
    def title(self) -> str:
        return self.agreement_name[:1].upper() + self.agreement_name[1:]

    @property
    def dataset(self) -> str:
        return self.runs[0].dataset.name

    @property
    def n(self) -> int:
        return self.runs[0].inputs


def agreement_matrix(
    models: RunOrModel | Sequence[RunOrModel] = "*",
    data: str | None = None,
    store: Store | str | Path | None = None,
    *,
    runtime: str | None = None,
    tolerance: float = TOLERANCE,
) -> Matrix:
    """Agreement and accuracy difference of all models that the names or patterns mean, from what was measured.

    Without `data`, on the dataset that most of them were run on. Each model once (see `one_each`); with `runtime`
    (a pattern: "*" for all) once in every runtime that it fits.
    """
    several = models if isinstance(models, Sequence) and not isinstance(models, str) else (models,)
    patterns = [run_text(model) for model in several]
    with borrowed_store(store, must_exist=True) as opened:
        runs = _on_one_dataset(runs_like(opened, patterns, data=data, runtime=runtime))
        if runtime is None:
            runs = one_each(runs)
        if len(runs) < 2:
            found = f"there is one: {bare(runs[0].ref)}" if runs else "none is named"
            raise ZoolensError(
                f"A matrix needs two models on the same dataset; {found}.",
                hint="Name more models, or evaluate more with `zoolens eval`.",
            )
        read = [signature_or_reason(opened, run) for run in runs]
    signatures = [result for result in read if isinstance(result, Signature)]
    left_out = [result for result in read if isinstance(result, str)]
    if len(signatures) < 2:
        raise ZoolensError(f"A matrix needs two models that can be read: {' '.join(left_out)}")
    return _matrix(signatures, tolerance, left_out)


def one_each(runs: Sequence[Run]) -> list[Run]:
    """One run of each model: in the runtime most at home in its format, then in the one that most models have."""
    models = Counter(runtime for runtime, _ in {(run.stack.runtime, bare(run.ref)) for run in runs})
    chosen: dict[str, Run] = {}
    for run in sorted(runs, key=lambda run: (formats_read(run.stack.runtime), -models[run.stack.runtime])):
        chosen.setdefault(bare(run.ref), run)
    return [run for run in runs if chosen[bare(run.ref)] is run]


def _on_one_dataset(runs: Sequence[Run]) -> list[Run]:
    most = default_dataset(runs)
    return [run for run in runs if run.key.dataset == most]


def _matrix(signatures: Sequence[Signature], tolerance: float, left_out: Sequence[str]) -> Matrix:
    count = len(signatures)
    agreement, difference = np.eye(count), np.zeros((count, count))
    notes = dict.fromkeys(left_out)
    interfaces = [interface_of(signature.run) for signature in signatures]
    accuracy = np.array([_accuracy(*each) for each in zip(signatures, interfaces, strict=True)])
    for i, j in combinations(range(count), 2):
        ours, theirs = signatures[i], signatures[j]
        fit = compare_interfaces(interfaces[i], interfaces[j])
        if fit:
            shared = agreement_of(ours, theirs, fit, tolerance=tolerance)
            gained = accuracy[j] - accuracy[i]
        else:
            shared = gained = np.nan
            names = f"{bare(ours.run.ref)} (A) and {bare(theirs.run.ref)} (B)"
            notes[f"{names} cannot be compared: {'; '.join(fit.reasons)}"] = None
        agreement[i, j] = agreement[j, i] = shared
        difference[i, j] = gained
        difference[j, i] = -gained
    linked = families(1 - agreement)
    order = list(linked.order)
    runs = [signatures[i].run for i in order]
    return Matrix(
        names=tuple(short_names(runs)),
        runs=tuple(runs),
        agreement=agreement[np.ix_(order, order)],
        difference=difference[np.ix_(order, order)],
        accuracy=accuracy[order],
        groups=tuple(linked.groups[i] for i in order),
        notes=(*notes, *changed_notes(signature.run for signature in signatures)),
        agreement_name=task_named(task_of(signatures[0].run)).agreement_name(tolerance),
    )


def _accuracy(signature: Signature, interface: Interface) -> float:
    """The accuracy of a model, with classes in the dataset's order where its names are used; NaN: it has none."""
    if not signature.labelled:
        return np.nan
    scores = renumbered(signature, compare_interfaces(interface, interface).translation_a).scores
    if scores is None:
        return np.nan
    known = signature.known if task_named(signature.main.task).truth is not None else slice(None)
    return float(scores[known].mean())


# --- as plain values


def as_data(matrix: Matrix) -> dict[str, Any]:
    """What `zoolens equiv --json` prints of several models."""
    data = {
        "dataset": matrix.dataset,
        "n": matrix.n,
        "names": matrix.names,
        "models": [run.ref for run in matrix.runs],
        "runs": [run.id for run in matrix.runs],
        "runtimes": [run.stack.runtime for run in matrix.runs],
        "groups": matrix.groups,
        "accuracy": matrix.accuracy,
        "agreement": matrix.agreement,
        "difference": matrix.difference,
        "notes": matrix.notes,
    }
    return json_value(data)  # type: ignore[no-any-return]


def as_csv(matrix: Matrix) -> str:
    """One row an ordered pair; empty cells where the two cannot be compared."""
    names = ("a", "b", "run_a", "run_b", "dataset", "n", "agreement", "accuracy_difference")
    runs, data = [run.id for run in matrix.runs], (matrix.dataset, matrix.n)
    rows = [
        (a, b, runs[i], runs[j], *data, matrix.agreement[i, j], matrix.difference[i, j])
        for i, a in enumerate(matrix.names)
        for j, b in enumerate(matrix.names)
    ]
    return csv_text(names, rows)
