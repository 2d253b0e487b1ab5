"""The whole examination: open model and data, see what can be swept, search, judge.

import zoolens
diagnosis = zoolens.doctor("demo:lenet-torch", "demo", limit=500)
print(diagnosis.sentence)
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ConstraintError, DatasetError, ManifestError, ModelError
from zoolens.base.progress import Progress, Silent
from zoolens.base.store.records import RunKind
from zoolens.base.store.store import Store, borrowed_store
from zoolens.findings.audit.doctor.axes import find_axes, scores_of
from zoolens.findings.audit.doctor.bench import Level, VariantBench
from zoolens.findings.audit.doctor.diagnosis import Diagnosis
from zoolens.findings.audit.doctor.kept_samples import KeptSamples
from zoolens.findings.audit.doctor.label_order import (
    doubt,
    needs_other_orders,
    order_choices,
    with_orders,
)
from zoolens.findings.audit.doctor.mixed_inputs import doubt_mixed
from zoolens.findings.audit.doctor.next_token_axes import next_token_notes
from zoolens.findings.audit.doctor.next_token_sense import next_token_sense
from zoolens.findings.audit.doctor.nothing_works import doubt_nothing
from zoolens.findings.audit.doctor.search import search
from zoolens.findings.audit.doctor.spelling import spelling_note
from zoolens.findings.audit.doctor.variants import DECLARED, AxisChoice
from zoolens.findings.audit.doctor.verdict import judge
from zoolens.findings.measure.jobs import Job, RunOptions, plan_jobs
from zoolens.findings.measure.plan import EvaluationPlan
from zoolens.inventory.catalog.lookup import Model, find_all, model_text
from zoolens.inventory.datasets.dataset import UNLABELLED, Dataset
from zoolens.inventory.datasets.opening import Data, open_dataset, whole_data
from zoolens.inventory.datasets.subset import Subset, select
from zoolens.inventory.preprocess.outputs import labels_of, remaining_columns
from zoolens.inventory.runtimes.runtime import Options, Session
from zoolens.inventory.tasks.task import Task, task_named
from zoolens.inventory.zoos.zoo import Entry

SCREEN = 64
# Kinds of truth, in words.
TRUTHS: Final = {"mask": "masks", "value": "values", "similarity": "similarities", "activity": "times of speech"}


def doctor(
    model: Model,
    data: Data,
    *,
    runtime: str | None = None,
    limit: int | None = None,
    seed: int = 0,
    screen: int = SCREEN,
    threads: int | None = None,
    allow_code: bool = False,
    store: Store | str | Path | None = None,
    progress: Progress | None = None,
) -> Diagnosis:
    """Whether what a manifest declares of inputs and answers is the best there is for the model on labelled data.

    `limit` inputs are drawn at random by `seed`; each variant first sees `screen` of them, the best see half of them,
    and the other half confirms. Every variant is an evaluation in the store: a second call measures nothing again.
    """
    watcher = progress or Silent()
    watcher.begin(model_text(model), "open the model and the dataset", None)
    spec = whole_data(data)
    job = _job(_one_entry(model), runtime, threads, allow_code, watcher)
    plan = EvaluationPlan(
        [model], spec, limit=limit, seed=seed, batches=(), task_metrics=False, cold=False, kind=RunKind.TRIAL
    )
    with borrowed_store(store) as opened, closing(KeptSamples(open_dataset(spec))) as dataset:
        task = task_named(job.manifest.task)
        _check_truth(dataset, task)
        judged, left_out = _with_truth(dataset, task, limit, seed)
        with closing(VariantBench(job, plan, judged, screen, opened, watcher)) as bench:
            _check_outputs(job, bench.session())
            axes, not_swept = find_axes(job, bench.session(), bench.data[Level.ALL], bench.data[Level.SCREEN])
            best = search(bench, axes)
            if needs_other_orders(bench, best):
                axes = with_orders(axes, _orders(job, bench.session(), dataset))
                best = search(bench, axes)
            diagnosis = judge(bench, axes, not_swept, best)
            diagnosis = doubt(diagnosis, bench, best)
            diagnosis = doubt_nothing(diagnosis, bench, best)
            diagnosis = doubt_mixed(diagnosis, bench)
            spelling = spelling_note(diagnosis.corrected or diagnosis.declared, bench.session().inputs[0])
            notes = (_who_answered(job), left_out, *diagnosis.notes, spelling, *next_token_notes(job, axes))
            corrected = bool(diagnosis.faults)
            seen = bench.measure(best if corrected else DECLARED, Level.SELECTION)
            sense = next_token_sense(seen, bench.noun, corrected=corrected)
            return replace(diagnosis, sense=sense, notes=tuple(note for note in notes if note))


def _check_outputs(job: Job, session: Session) -> None:
    """A service answers in the classes of its reference, whatever a manifest says of labels, order and scores."""
    if session.postprocessed:
        raise ModelError(
            f"{job.runtime.full_name} answers with probabilities that are postprocessed already, so that what the "
            f"manifest of {job.entry.ref} says of its outputs cannot be judged.",
            hint="Ask about the model in a runtime of this machine.",
        )


def _who_answered(job: Job) -> str | None:
    """Whose answers a diagnosis is made of, where a server gives them: the manifest may belong to another model."""
    if job.runtime.can("run_here"):
        return None
    served = job.runtime.identity().get("served_model", {}).get("name")
    return (
        f"The answers are those of {f'the model {served!r} at ' if served else ''}{job.runtime.address}. Whether these "
        f"are the weights of {job.entry.ref} cannot be seen from here."
    )


def _orders(job: Job, session: Session, dataset: Dataset) -> list[AxisChoice]:
    output = job.manifest.outputs[0]
    outputs = scores_of(session, output.name)
    columns = remaining_columns(output, outputs) if outputs else int(dataset.labels().max()) + 1
    return order_choices(job.manifest, columns, dataset.classes, labels_of(output, job.entry.folder))


def _one_entry(model: Model) -> Entry:
    entries = find_all([model])
    if len(entries) > 1:
        names = ", ".join(entry.ref for entry in entries[:3])
        raise ModelError(
            f"{model_text(model)} names {len(entries)} models ({names}, …).", hint="The doctor examines one at a time."
        )
    entry = entries[0]
    code, inputs = entry.manifest.code, entry.manifest.inputs
    if code is not None and (code.preprocess or code.postprocess):
        raise ManifestError(
            f"{entry.ref} prepares its inputs or answers with Python code of its own, which cannot be varied.",
            hint="Declare the steps under preprocess and postprocess instead.",
        )
    if len(inputs) > 1:
        raise ModelError(f"{entry.ref} has {len(inputs)} inputs; the doctor examines models with one.")
    task = task_named(entry.manifest.task)
    if not task.judged and task.truth is None:
        raise ModelError(
            f"{entry.ref} has task: {task.name}, whose answers no dataset can judge.",
            hint="Declare the task that the model does; `zoolens manifest init` writes a manifest.",
        )
    return entry


def _job(entry: Entry, runtime: str | None, threads: int | None, allow_code: bool, progress: Progress) -> Job:
    wanted = RunOptions(runtimes=(runtime,) if runtime else (), options=Options(threads=threads), allow_code=allow_code)
    jobs, skipped = plan_jobs([entry], wanted, progress)
    if not jobs:
        raise ConstraintError(skipped[0].reason)
    # The first, but one that needs no process of its own if there is.
    return min(jobs, key=lambda job: job.isolate)


def _with_truth(dataset: Dataset, task: Task, limit: int | None, seed: int) -> tuple[Dataset, str | None]:
    """The dataset without the inputs that have no truth, which prove nothing, and a note that says how many these are.

    It is the dataset itself where none of those that `limit` and `seed` choose lacks a truth: what is drawn from it is
    then what `zoolens eval` draws. Otherwise inputs are drawn until `limit` of them have one. Whether an image has a
    mask with a pixel that is judged is known once it is decoded, so that no more of them are looked at.
    """
    wanted = looked_at = len(dataset) if limit is None else min(limit, len(dataset))
    drawn = select(dataset, wanted, seed)
    known = _has_truth(drawn, task)
    if known.all():
        return dataset, None
    while np.count_nonzero(known) < wanted and looked_at < len(dataset):
        looked_at = min(2 * looked_at, len(dataset))
        drawn = select(dataset, looked_at, seed)
        known = _has_truth(drawn, task)
    places = np.flatnonzero(known)
    of = f"{len(drawn):,} inputs of {dataset.name}" + (" that were looked at" if looked_at < len(dataset) else "")
    note = f"{len(drawn) - len(places):,} of the {of} have no truth; they are left out."
    return Subset(drawn, places, f"the {len(places):,} with a truth"), note


def _has_truth(dataset: Dataset, task: Task) -> NDArray[np.bool_]:
    if task.truth is None:
        return np.asarray(dataset.labels() != UNLABELLED)
    return np.array([dataset.truth(index) is not None for index in range(len(dataset))])


def _check_truth(dataset: Dataset, task: Task) -> None:
    """Refuses a dataset that cannot show one variant to be better than another."""
    if not dataset.says(task.truth):
        has = "has no labels" if task.truth is None else f"has no true {TRUTHS.get(task.truth, task.truth)}"
        raise DatasetError(
            f"{dataset.name} {has}, so that no variant can be judged.",
            hint="The doctor needs a dataset that says what is right, of several classes where answers are classes.",
        )
    if task.truth is not None:
        if all(dataset.truth(index) is None for index in range(len(dataset))):
            raise DatasetError(
                f"None of the {len(dataset):,} inputs of {dataset.name} has a truth, so that no variant can be judged."
            )
        return
    labels = dataset.labels()
    known = labels[labels != UNLABELLED]
    if len(np.unique(known)) < 2:
        raise DatasetError(
            f"All {len(known):,} inputs of {dataset.name} have the label {int(known[0])}, which proves nothing.",
            hint="The doctor needs a labelled dataset of several classes.",
        )
