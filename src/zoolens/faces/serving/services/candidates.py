"""One model that might answer for a service: found in the catalog and opened once, to know how it is fed and read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ModelError, ZoolensError
from zoolens.base.progress import Progress
from zoolens.base.store.records import Run
from zoolens.faces.serving.services.looked_at import LookedAt
from zoolens.faces.serving.services.output_conversion import ScoreColumns, class_identities
from zoolens.faces.serving.services.sample_decoding import MODALITY, made_up_sample, sample_decoder
from zoolens.findings.measure.class_order import data_classes, matched_by_name, stored_translation
from zoolens.findings.measure.jobs import Job, plan_jobs
from zoolens.findings.measure.measured_reading import ClosedSession, MeasuredClasses, MeasuredReading, RowMemo
from zoolens.findings.measure.run_data import ACCURACY
from zoolens.inventory.catalog.lookup import find
from zoolens.inventory.catalog.names import FILE_ZOO
from zoolens.inventory.catalog.sessions import RunOptions
from zoolens.inventory.manifests.schema import Input, Output
from zoolens.inventory.manifests.schema_inputs import GIVEN
from zoolens.inventory.preprocess.classes import class_mismatch, translation
from zoolens.inventory.preprocess.outputs import build_scores, labels_of
from zoolens.inventory.runtimes.outputs.noise_probe import made_up_feeds
from zoolens.inventory.runtimes.runtime import Options, Session, TensorSpec
from zoolens.inventory.tasks.task import Task, task_named


@dataclass(frozen=True)
class Example:
    """What a model answered to one made-up input, raw, with what reading it needs to know."""

    answers: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    memos: tuple[RowMemo, ...] = ()


@dataclass(frozen=True)
class Candidate:
    """A model that was opened to look at it. `name` is what the catalog finds it by.

    `columns`: of a classifier, the classes of its scores. `reading`: how a model of any other task, or one that takes
    texts or sounds, is fed and read.
    """

    name: str
    job: Job
    run: Run
    source: TensorSpec
    target: TensorSpec
    columns: ScoreColumns | None = None
    reading: MeasuredReading | None = None
    example: Example = field(default=Example(), compare=False)
    opened: bool = field(default=True, compare=False)  # it had to be, as nothing that holds was kept of it

    @property
    def environment(self) -> str:
        """The packages of the environment that it runs in; "" for the server's own."""
        return ", ".join(self.job.environment.spec.requirements) if self.job.environment else ""

    @property
    def input(self) -> Input:
        return self.job.manifest.inputs[0]

    @property
    def output(self) -> Output:
        return self.job.manifest.outputs[0]

    @property
    def task(self) -> Task:
        return task_named(self.job.manifest.task)

    @property
    def one_row(self) -> bool:
        """Whether it takes one input at a time."""
        if self.reading is not None and self.reading.subject.fixed_batch == 1:
            return True
        return bool(self.source.shape) and self.source.shape[0] == 1


def answers_classes(task: Task) -> bool:
    """Whether answers are classes that are the same or not: then clients get probabilities, else documents."""
    return task.discrete and not task.graded


def quality_name(task: Task) -> str:
    """What the figure is called that says how good a model is."""
    return "accuracy" if task.metric in (None, ACCURACY) else str(task.metric)


def examine(run: Run, progress: Progress) -> Candidate:
    """Open the model of a stored run as it was measured. A ZoolensError says why that is not possible."""
    name = catalog_name(run)
    measured = run.stack.identity
    wanted = RunOptions(
        runtimes=(run.stack.runtime,),
        environments=(", ".join(measured.get("environment") or ()),),
        options=Options(**(measured.get("options") or {})),
    )
    jobs, skipped = plan_jobs([find(name)], wanted, progress)
    if not jobs:
        raise ZoolensError(skipped[0].reason if skipped else f"No runtime here runs {name}.")
    job = jobs[0]
    if job.model.fingerprint != run.key.model:
        raise ZoolensError("its files or its manifest are not those that were measured.")
    manifest = job.manifest
    taking = [spec for spec in manifest.inputs if spec.modality not in GIVEN]
    if len(taking) != 1:
        raise ZoolensError(f"it takes {len(taking)} inputs, and services take one.")
    if manifest.outputs[0].batch_axis and answers_classes(task_named(manifest.task)):
        raise ZoolensError("its answers have inputs along another axis than the first, which services do not read.")
    with LookedAt(job) as session:
        plain = len(session.inputs) == 1 and taking[0].modality in ("image", "array")
        if plain and answers_classes(task_named(manifest.task)):
            candidate = _examined_classifier(name, job, run, session)
        else:
            candidate = _examined_by_reading(name, job, run, session)
        return replace(candidate, opened=session.opened)


def _examined_classifier(name: str, job: Job, run: Run, session: Session) -> Candidate:
    target = _main_output(job, session)
    source = declared_input(session.inputs[0], job.manifest.inputs[0])
    answers = session.predict(made_up_feeds([source], source.shape[0] or 1))
    columns = _score_columns(job, run, target, answers[target.name])
    return Candidate(name, job, run, session.inputs[0], target, columns)


def _main_output(job: Job, session: Session) -> TensorSpec:
    by_name = {spec.name: spec for spec in session.outputs}
    return by_name.get(job.manifest.outputs[0].name or "", session.outputs[0])


def _score_columns(job: Job, run: Run, target: TensorSpec, raw: NDArray[Any]) -> ScoreColumns:
    output, folder = job.manifest.outputs[0], job.entry.folder
    width = build_scores(output.model_copy(update={"label_map": None}), target)(raw).shape[1]
    names = class_identities(output, folder, width, data_classes(run))
    return ScoreColumns(tuple(names), judged_classes(run, output, folder, width))


def _examined_by_reading(name: str, job: Job, run: Run, session: Session) -> Candidate:
    """A model that is fed and read as when it was measured."""
    manifest = job.manifest
    if manifest.code is not None:
        raise ZoolensError("its manifest has code for its inputs or outputs, which services do not run.")
    sound = manifest.inputs[0].sound
    if sound is not None and sound.windows is not None:
        raise ZoolensError(
            "it answers a sound window by window, and services make one call for a request. Serve it by its own name: "
            "clients then send each window."
        )
    reading = MeasuredReading(job, ClosedSession(session), MeasuredClasses(run.dataset.name, data_classes(run)))
    subject = reading.subject
    if not subject.outputs:
        raise ZoolensError(f"it takes {len(session.inputs)} inputs, and services take one.")
    if subject.fixed_batch not in (None, 1):
        raise ZoolensError(f"it takes batches of {subject.fixed_batch} only, and requests have any number of inputs.")
    example = _example(reading, session)
    columns = None
    if answers_classes(reading.task):
        columns = _score_columns(job, run, subject.outputs[0].tensor, reading.raw(example.answers, example.memos))
    else:
        example = _readable(example, reading, run)
    return Candidate(name, job, run, subject.input, subject.outputs[0].tensor, columns, reading, example)


def _example(reading: MeasuredReading, session: Session) -> Example:
    spec = reading.job.manifest.inputs[0]
    memos: tuple[RowMemo, ...] = (RowMemo(),)
    if spec.modality == "array" and len(session.inputs) > 1:
        raise ZoolensError("it takes constants beside an array, which services do not fill.")
    if spec.modality == "array":
        feeds = made_up_feeds([declared_input(reading.subject.input, spec)], 1)
    else:
        sent = next(sent for sent, modality in MODALITY.items() if modality == spec.modality)
        samples = sample_decoder(sent, spec, reading.task)(made_up_sample(sent, spec))
        feeds, memos = reading.prepared(samples)
    # The session's memory is gone when it is closed.
    return Example({name: np.array(tensor) for name, tensor in session.predict(feeds).items()}, memos)


def _readable(example: Example, reading: MeasuredReading, run: Run) -> Example:
    """The example, or an empty one where the model answers NaN and the like to what was made up: it has answered real
    inputs when it was measured."""
    try:
        width = reading.answers(example.answers, example.memos).width
    except ModelError:
        return Example()
    _check_width(run, width)
    return example


def _check_width(run: Run, width: int | None) -> None:
    """Vectors of pairs of texts are kept beside each other: what was measured of pairs is not that of one text."""
    described = run.resolved.get("outputs") or [{}]
    measured = described[0].get("width")
    if width is not None and measured not in (None, width):
        raise ZoolensError(
            f"its answers had {measured:,} numbers when it was measured, and have {width:,} for one input.",
            hint="Measure it on single inputs, not on pairs.",
        )


def judged_classes(run: Run, output: Output, folder: Path | None, width: int) -> tuple[int | None, ...] | None:
    """Which class of the data each of `width` outputs was counted as in a run; None where that is not known, because
    the dataset's classes were looked up among more outputs."""
    if output.label_map:
        return tuple(output.label_map.get(place) for place in range(width))
    if not matched_by_name(run):
        order = stored_translation(run)
        return tuple(range(width)) if order is None else tuple(order.tolist())
    names, known = labels_of(output, folder), data_classes(run)
    if names is None or known is None or class_mismatch(names, known) is not None:
        return None
    order = translation(names, known)
    return tuple(range(width)) if order is None else tuple(order.tolist())


def catalog_name(run: Run) -> str:
    """What the catalog finds the model of a run by: its reference, or its path where it was named by that."""
    if not run.ref.startswith(f"{FILE_ZOO}:"):
        return run.ref
    folder, file = run.origin.get("folder"), run.origin.get("file")
    if folder is None or file is None:
        raise ZoolensError("it was measured from a bare file; give it a manifest and measure that.")
    return str(Path(folder) / file)


def declared_input(spec: TensorSpec, declared: Input) -> TensorSpec:
    """The tensor with the extents that the manifest declares, for as many inputs as the file takes at once."""
    return spec.with_extents((None, *declared.shape[1:]))


def file_states(candidate: Candidate) -> tuple[tuple[str, int, int], ...]:
    """Sizes and times of a model's files: a cheap sign that one was replaced."""
    states = []
    for path in candidate.job.paths.values():
        try:
            about = path.stat()
        except OSError:
            states.append((str(path), -1, -1))
        else:
            states.append((str(path), about.st_size, about.st_mtime_ns))
    return tuple(states)


def class_labels(reference: Candidate) -> tuple[str, ...] | None:
    """The names of a classifier's classes, where its manifest has any."""
    return None if reference.columns is None else labels_of(reference.output, reference.job.entry.folder)
