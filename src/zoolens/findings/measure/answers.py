"""What a run answered, input by input, as one table: the same for an evaluation and for a training.

An evaluation keeps scores beside the best classes. A training keeps the best class alone, and the true classes of the
test samples are kept once for all trainings on the same data; they are put together when the table is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zoolens.base.errors import ZoolensError
from zoolens.base.store.records import (
    DONE,
    DatasetRecord,
    ModelRecord,
    Part,
    Run,
    RunKey,
    RunKind,
    StackRecord,
    Stage,
    fingerprint,
)
from zoolens.base.store.store import Store
from zoolens.findings.measure.class_order import data_classes, stored_translation
from zoolens.findings.measure.predictions import KIND, Predictions, read_predictions, renumbered

TRAINED: Final = "training"  # the observation that says which part has a training's answers
NO_LABEL: Final = -1
_CLASSES_ONLY: Final = "answers"  # the kind of bulk facts of trainings in stores of before: a column "answer"
_LABELS: Final = "labels"
_LABELS_KEY: Final = fingerprint(["crosstrain labels"])
_LABELS_MODEL: Final = ModelRecord(_LABELS_KEY, "crosstrain-labels", "labels", {})
_LABELS_STACK: Final = StackRecord(_LABELS_KEY, "crosstrain:labels", {}, {})

Classes = NDArray[np.int32]


def answering_stage(run: Run) -> Stage:
    """The stage at whose end the run has answered every input."""
    return Stage.TRAINING if run.kind is RunKind.TRAINING else Stage.PREDICTIONS


ANSWERING_STAGES: Final = (Stage.TRAINING, Stage.PREDICTIONS)


def has_answers(run: Run) -> bool:
    """Whether the run had answered every input when it was read from the store."""
    return run.stages.get(answering_stage(run)) == DONE


def unfinished(run: Run) -> ZoolensError:
    """The refusal of a run that has not answered every input."""
    words = f"Run {run.id[:8]} ({run.ref}) has no finished predictions."
    return ZoolensError(words, hint="Run the same `zoolens eval` again to finish it.")


def answers_table(store: Store, run: Run, parts: Sequence[Part] = ()) -> pa.Table:
    """One row an input: `index`, `input` and `label`, then the columns of every output (see `predictions.schema`). A
    training has the column `top` with one class, and none of the columns about scores. `parts`: of its predictions,
    where they are known."""
    if run.kind is not RunKind.TRAINING:
        return store.table(run.id, KIND, parts)
    answers, labels = trained_answers(store, run.id), kept_labels(store, run.dataset)
    if labels is None or len(labels) != len(answers):
        labels = np.full(len(answers), NO_LABEL, np.int32)
    places = np.arange(len(answers), dtype=np.int64)
    about = {"index": places, "input": [f"test {place}" for place in places], "label": labels}
    return pa.table({**about, "top": _one_each(answers)})


def predictions_of(table: pa.Table, run: Run, classes: tuple[str, ...] | None = None) -> Predictions:
    """The table that `answers_table` gives as arrays. `classes`: names of the dataset's classes."""
    return read_predictions(table, classes, run.resolved.get("outputs") or (), f"run {run.id[:8]}")


def judged_predictions(store: Store, run: Run) -> Predictions:
    """What a finished run answered, with classes in the dataset's order and under the data's names."""
    if not has_answers(run):
        raise unfinished(run)
    return renumbered(run_predictions(store, run, data_classes(run)), stored_translation(run))


def run_predictions(store: Store, run: Run, classes: tuple[str, ...] | None = None) -> Predictions:
    return predictions_of(answers_table(store, run), run, classes)


def iter_predictions(store: Store, run: Run, classes: tuple[str, ...] | None = None) -> Iterator[Predictions]:
    """What an evaluation answered, part by part: a few seconds' worth of answers are in memory at once."""
    for table in store.iter_tables(run.id, KIND):
        yield predictions_of(table, run, classes)


# --- trainings


def keep_trained_answers(store: Store, run_id: str, answers: NDArray[Any]) -> dict[str, Any]:
    """Keep the class that was answered for each test sample, and return what the observation `TRAINED` has to say of
    it. A training that was killed after it had written its answers left a part behind, and the next one may have learnt
    something else: then it gets a part of its own."""
    classes = np.asarray(answers, np.int32)
    table = pa.table({"index": np.arange(len(classes), dtype=np.int64), "top": _one_each(classes)})
    part = 0
    while not store.add_part(run_id, KIND, part, table):
        if np.array_equal(_part(store, run_id, KIND, part), classes):
            break
        part += 1
    return {"answers": part, "kind": KIND}


def trained_answers(store: Store, run_id: str) -> Classes:
    """The class that a training answered for each test sample."""
    learnt = store.observations(run_id, metric=TRAINED)
    part = learnt[0].details.get("answers") if learnt else None
    if part is None:
        raise ZoolensError(
            f"Run {run_id} has no stored answers.", hint="Trials that others published come without them."
        )
    return _part(store, run_id, str(learnt[0].details.get("kind") or _CLASSES_ONLY), int(part))


def _part(store: Store, run_id: str, kind: str, number: int) -> Classes:
    table = next(store.part_table(part) for part in store.parts(run_id, kind) if part.part == number)
    column = table["answer"] if kind == _CLASSES_ONLY else table["top"].combine_chunks().flatten()
    return np.asarray(column.to_numpy(), np.int32)


def _one_each(classes: Classes) -> pa.ListArray:
    offsets = np.arange(len(classes) + 1, dtype=np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(classes, pa.int32()))


# --- the true classes


def keep_labels(store: Store, dataset: DatasetRecord, labels: NDArray[Any]) -> None:
    """Keep the true classes of a dataset's test samples: figures can then be recomputed without the images."""
    run = store.begin_run(_LABELS_MODEL, dataset, _LABELS_STACK, kind=RunKind.LABELS)
    store.add_part(run.id, _LABELS, 0, pa.table({"label": pa.array(np.asarray(labels, np.int32), pa.int32())}))


def kept_labels(store: Store, dataset: DatasetRecord) -> Classes | None:
    """The true classes of a dataset's test samples; None where nobody kept them."""
    run = RunKey(_LABELS_KEY, dataset.fingerprint, _LABELS_KEY).id
    table = next(store.iter_tables(run, _LABELS), None)
    return None if table is None else np.asarray(table["label"].to_numpy(), np.int32)
