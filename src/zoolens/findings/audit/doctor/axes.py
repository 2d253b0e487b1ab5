"""Which axes of a manifest can be varied: those of its input, and those of how its answers are read."""

from __future__ import annotations

import math
from collections.abc import Iterator

from zoolens.base.errors import ModelError
from zoolens.findings.audit.doctor.box_axes import box_axes
from zoolens.findings.audit.doctor.class_axes import NUMBERED, class_axis
from zoolens.findings.audit.doctor.decoder_axes import decoder_axis
from zoolens.findings.audit.doctor.map_axes import map_axes
from zoolens.findings.audit.doctor.next_token_axes import next_token_axes
from zoolens.findings.audit.doctor.output_axes import label_axis, probability_axis, scores_axis
from zoolens.findings.audit.doctor.part_axes import part_axis
from zoolens.findings.audit.doctor.pixel_axes import colour_axis, normalisation_axis
from zoolens.findings.audit.doctor.shape_axes import layout_axis, shape_axes
from zoolens.findings.audit.doctor.sound_axes import sound_axes
from zoolens.findings.audit.doctor.text_axes import tag_axes, text_axes
from zoolens.findings.audit.doctor.variants import Axis, NotSwept
from zoolens.findings.measure.jobs import Job
from zoolens.inventory.datasets.dataset import Dataset
from zoolens.inventory.preprocess.classlookup import find_outputs
from zoolens.inventory.preprocess.outputs import labels_of, remaining_columns
from zoolens.inventory.runtimes.runtime import Session, TensorSpec
from zoolens.inventory.tasks.task import task_named


def find_axes(job: Job, session: Session, dataset: Dataset, screened: Dataset) -> tuple[list[Axis], list[NotSwept]]:
    """The axes of a model on a dataset, and what is not varied and why. `screened`: the inputs that decoders are
    compared on."""
    found = [*_input_axes(job, session, dataset, screened), *_output_axes(job, session, dataset)]
    return [axis for axis in found if isinstance(axis, Axis)], [axis for axis in found if isinstance(axis, NotSwept)]


def scores_of(session: Session, name: str | None) -> int | None:
    """How many scores the file says it gives for one input."""
    extents = _tensor(session, name).shape[1:]
    return math.prod(extent or 0 for extent in extents) or None


def _input_axes(job: Job, session: Session, dataset: Dataset, screened: Dataset) -> Iterator[Axis | NotSwept]:
    manifest, tensor = job.manifest, session.inputs[0]
    if len(session.inputs) > 1 and not (manifest.takes_text or manifest.takes_sound):
        raise ModelError(f"{job.entry.ref} has {len(session.inputs)} inputs; the doctor examines models with one.")
    yield from decoder_axis(manifest, screened)
    yield layout_axis(manifest, tensor, job.asset.format)
    yield colour_axis(manifest)
    yield normalisation_axis(manifest, tensor)
    yield from shape_axes(manifest, dataset, located=task_named(manifest.task).located)
    yield from sound_axes(manifest)
    yield from text_axes(manifest)
    yield from next_token_axes(job, screened)


def _output_axes(job: Job, session: Session, dataset: Dataset) -> Iterator[Axis | NotSwept]:
    manifest, output = job.manifest, job.manifest.outputs[0]
    task, labels = task_named(manifest.task), labels_of(output, job.entry.folder)
    if task.roles:
        yield from _role_axes(job, session, dataset)
    elif task.discrete:
        classes = int(dataset.labels().max()) + 1
        outputs = scores_of(session, output.name)
        if outputs is not None and not output.label_map:
            # Refuses an order nobody knows.
            find_outputs(labels, remaining_columns(output, outputs), dataset)
        yield label_axis(manifest, outputs, classes, labels)
        yield scores_axis(manifest, outputs)


def _role_axes(job: Job, session: Session, dataset: Dataset) -> Iterator[Axis | NotSwept]:
    """The axes of a task that reads its tensors by role: what they hold says how else they may be read."""
    manifest, output = job.manifest, job.manifest.outputs[0]
    task, labels = task_named(manifest.task), labels_of(output, job.entry.folder)
    yield from part_axis(manifest, session.outputs)
    yield from box_axes(manifest)
    if "mask" in task.roles:
        yield from map_axes(manifest, _tensor(session, (output.parts or {}).get("mask", output.name)))
    if "emissions" in task.roles and labels:
        yield from tag_axes(manifest, labels)
    if task.truth in NUMBERED and dataset.classes:
        numbered = class_axis(manifest, dataset.classes, labels)
        yield numbered or NotSwept("label offset", "no other number of a class is possible.")
    if len(task.roles) == 1 and ({"scores", "probability"} & set(task.roles)):
        yield probability_axis(manifest)


def _tensor(session: Session, name: str | None) -> TensorSpec:
    return next((output for output in session.outputs if output.name == name), session.outputs[0])
