"""One model that might answer for a service: found in the catalog, opened once, and compared with the reference."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from zoolens.base.errors import ZoolensError
from zoolens.base.progress import Progress
from zoolens.base.protocol.messages import Tensor, TensorMetadata
from zoolens.base.store.records import Run
from zoolens.faces.serving.contracts.adapter import Adapter
from zoolens.faces.serving.plane.signature import tensor_metadata
from zoolens.faces.serving.services.definition import Service
from zoolens.faces.serving.services.input_conversion import (
    IMAGE,
    Convert,
    NotConvertible,
    image_conversion,
    pixel_conversion,
    tensor_conversion,
)
from zoolens.faces.serving.services.output_conversion import (
    ScoreColumns,
    class_identities,
    column_order,
    mapped_conversion,
    probability_conversion,
    require_raw,
)
from zoolens.findings.measure.class_order import data_classes, matched_by_name, stored_translation
from zoolens.findings.measure.jobs import Job, plan_jobs
from zoolens.inventory.catalog.lookup import find
from zoolens.inventory.catalog.names import FILE_ZOO
from zoolens.inventory.catalog.sessions import RunOptions
from zoolens.inventory.manifests.schema import Input, Output
from zoolens.inventory.manifests.schema_steps import Resize
from zoolens.inventory.preprocess.classes import class_mismatch, translation
from zoolens.inventory.preprocess.outputs import build_scores, labels_of
from zoolens.inventory.runtimes.outputs.noise_probe import made_up_feeds
from zoolens.inventory.runtimes.runtime import Options, TensorSpec
from zoolens.inventory.tasks.task import task_named

PROBABILITIES: Final = "probabilities"  # the name of a service's output
_SAMPLE: Final = (375, 500)  # a picture as photographs on the web are, for timing how long one takes to prepare


@dataclass(frozen=True)
class Candidate:
    """A model that was opened to look at it. `name` is what the catalog finds it by."""

    name: str
    job: Job
    run: Run
    source: TensorSpec
    target: TensorSpec
    columns: ScoreColumns

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
    task = task_named(manifest.task)
    # Requests are compared by their classes, which agree or do not.
    if not task.discrete or task.graded:
        raise ZoolensError(f"its task is {manifest.task}, and services switch between classifiers only.")
    if len(manifest.inputs) != 1:
        raise ZoolensError(f"it takes {len(manifest.inputs)} inputs, and services take one.")
    with job.open_isolated() as session:
        if len(session.inputs) != 1:
            raise ZoolensError(f"it takes {len(session.inputs)} inputs, and services take one.")
        by_name = {spec.name: spec for spec in session.outputs}
        target = by_name.get(manifest.outputs[0].name or "", session.outputs[0])
        source = _as_declared(session.inputs[0], manifest.inputs[0])
        answers = session.predict(made_up_feeds([source], source.shape[0] or 1))
        plain = manifest.outputs[0].model_copy(update={"label_map": None})
        width = build_scores(plain, target)(answers[target.name]).shape[1]
        source = session.inputs[0]
    names = class_identities(manifest.outputs[0], job.entry.folder, width, data_classes(run))
    judged = judged_classes(run, manifest.outputs[0], job.entry.folder, width)
    return Candidate(name, job, run, source, target, ScoreColumns(tuple(names), judged))


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


def _as_declared(spec: TensorSpec, declared: Input) -> TensorSpec:
    shape = spec.shape
    if len(shape) == len(declared.shape):
        pairs = zip(shape[1:], declared.shape[1:], strict=True)
        extents = [own or stated for own, stated in pairs]
        shape = (shape[0], *extents)
    return TensorSpec(spec.name, shape, spec.dtype, spec.scale, spec.zero_point)


# --- between the service and a model


class RungAdapter(Adapter):
    """Converts the one input and the one output of a service to and from those of a model."""

    def __init__(
        self, names: tuple[str, str], model_names: tuple[str, str], into: Convert | None, back: Convert | None
    ) -> None:
        self._input, self._output = names
        self._model_input, self._model_output = model_names
        self._into, self._back = into, back
        self.quick = into is None

    def feeds(self, inputs: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        tensor = inputs[self._input]
        return {self._model_input: tensor if self._into is None else self._into(tensor)}

    def outputs(self, answers: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        tensor = answers[self._model_output]
        return {self._output: tensor if self._back is None else self._back(tensor)}


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


def adapter_between(service: Service, reference: Candidate, candidate: Candidate) -> RungAdapter:
    """NotConvertible where the candidate cannot answer for the reference."""
    back: Convert | None
    if service.output == "raw":
        order = column_order(reference.columns, candidate.columns)
        require_raw(reference.output, reference.target, candidate.output, candidate.target, ordered=order is not None)
        output, back = reference.target.name, None
    else:
        output, back = PROBABILITIES, _probabilities(reference.columns, candidate)
    into: Convert | None
    if service.input == "tensor":
        name = reference.source.name
        into = tensor_conversion(reference.input, reference.source, candidate.input, candidate.source)
    else:
        name = IMAGE
        conversion = image_conversion if service.input == "image" else pixel_conversion
        into = conversion(candidate.input, candidate.source)
    return RungAdapter((name, output), (candidate.source.name, candidate.target.name), into, back)


def _probabilities(columns: ScoreColumns, candidate: Candidate) -> Convert:
    """From the candidate's raw answers to probabilities of the reference's classes."""
    try:
        order = column_order(columns, candidate.columns)
    except NotConvertible:
        known = columns.judged is not None and None not in columns.judged
        if not candidate.output.label_map or not known:
            raise
        return mapped_conversion(candidate.output, candidate.target, columns)
    return probability_conversion(candidate.output, candidate.target, order)


def sample_input(service: Service, spec: Input) -> Mapping[str, NDArray[Any]] | None:
    """A made-up input whose preparation is worth timing; None where tensors are sent, which take next to no time."""
    if service.input == "tensor":
        return None
    height, width = _SAMPLE
    if not any(isinstance(step, Resize) for step in spec.preprocess) and "H" in spec.layout:
        extents = dict(zip(spec.layout, spec.shape, strict=True))
        height, width = extents["H"] or height, extents["W"] or width
    coarse = np.random.default_rng(0).integers(0, 256, (24, 32, 3)).astype(np.uint8)
    picture = Image.fromarray(coarse).resize((width, height))
    if service.input == "pixels":
        return {IMAGE: np.asarray(picture)[np.newaxis]}
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=90)
    return {IMAGE: np.array([[buffer.getvalue()]], object)}


# --- what clients see


def service_inputs(service: Service, reference: Candidate) -> tuple[TensorMetadata, ...]:
    if service.input == "image":
        return (TensorMetadata(IMAGE, "BYTES", (-1, 1)),)
    if service.input == "pixels":
        return (TensorMetadata(IMAGE, "UINT8", (-1, -1, -1, -1)),)
    spec = _as_declared(reference.source, reference.input)
    return tensor_metadata([spec], batched=True)


def service_outputs(service: Service, reference: Candidate) -> tuple[TensorMetadata, ...]:
    if service.output == "raw":
        return tensor_metadata([reference.target], batched=True)
    return (TensorMetadata(PROBABILITIES, "FP32", (-1, len(reference.columns))),)


def class_labels(reference: Candidate) -> tuple[str, ...] | None:
    """The reference's class names, where its manifest has any."""
    return labels_of(reference.output, reference.job.entry.folder)


__all__ = ["Candidate", "NotConvertible", "RungAdapter", "adapter_between", "examine"]
