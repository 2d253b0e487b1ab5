"""One side of a comparison: an opened model in a runtime, with its graph and what can be read inside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import prod
from typing import Any, Final

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.findings.divergence.points import Observed
from zoolens.findings.graph.diff.phrases import plural
from zoolens.findings.graph.importers.onnx.empty_caches import MASKS_FACT
from zoolens.findings.graph.ir.model import Array, Graph
from zoolens.findings.graph.passes.axis_labels import canonical_order
from zoolens.findings.measure.jobs import Job
from zoolens.findings.measure.subject import Subject, prepare_subject
from zoolens.inventory.datasets.dataset import Dataset
from zoolens.inventory.runtimes.runtime import Effective, Options, TensorSpec

_PASSING: Final = ("cast", "identity", "reshape", "flatten", "transpose", "expand")  # change no number

Feeds = dict[str, Array]


@dataclass(frozen=True)
class Side:
    """An opened model. `raw` is its graph as the file has it, `graph` the canonical one, both with weights and None
    where they cannot be read; `points` are the tensors inside that can be read, by node of the canonical graph.
    `notes` say what is not known of this side, and why."""

    label: str  # "A" or "B"
    job: Job
    subject: Subject
    effective: Effective
    dataset: Dataset  # decoded as the manifest of this side declares
    raw: Graph | None = None
    graph: Graph | None = None
    borrowed: bool = False  # the graph is the other side's, since this one's cannot be read
    foreign: bool = False  # its tensors do not even have the shapes of the other side's graph
    points: Mapping[str, Observed] = field(default_factory=dict)
    holes: Mapping[str, str] = field(default_factory=dict)  # nodes that the reference cannot compute -> points
    focus: TensorSpec | None = None  # the output that is looked at; None: the main one
    notes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        options = _options_words(self.job.options)
        return f"{self.job.title}{f' ({options})' if options else ''}"

    @property
    def precision(self) -> str:
        return self.effective.precision or "unknown precision"

    def close(self) -> None:
        self.subject.session.close()

    # --- what goes in

    def noting(self, note: str) -> Side:
        """The side with a further note for the report."""
        return replace(self, notes=(*self.notes, note))

    def feeds(self, index: int) -> Feeds:
        """The inputs of the model for one sample, as a batch of one."""
        ready = np.asarray(self.subject.prepare(self.dataset.read(index)))
        return self.subject.named_inputs(np.ascontiguousarray(ready[np.newaxis]))

    def real_inputs(self, feeds: Feeds) -> Feeds:
        """Return the inputs as real numbers in the axes of the graph, by name of the graph's inputs."""
        assert self.graph is not None
        hidden = [name for name in self.graph.facts.get(MASKS_FACT, ()) if not np.asarray(feeds[name]).all()]
        if hidden:
            raise ModelError(
                f"The graph of {self.job.entry.ref} was read for texts without padding, and {hidden[0]} has some."
            )
        inputs = {node: _real(feeds[spec.name], spec, self._axes(node)) for spec, node in self._inputs()}
        for node in _places_in_tables(self.graph) & inputs.keys():
            inputs[node] = inputs[node].astype(np.int64)  # whatever type the runtime takes them in
        inputs |= self._taken_from_runtime(feeds)
        for node, value in inputs.items():
            expected = self.graph.by_name[node].shape
            if value.size != prod(expected):
                raise ModelError(
                    f"The graph of {self.job.entry.ref} was read for inputs of the shape {expected}, but "
                    f"{self.label} was fed one of {value.shape}."
                )
        return {node: value.reshape(self.graph.by_name[node].shape) for node, value in inputs.items()}

    def _taken_from_runtime(self, feeds: Feeds) -> Feeds:
        """What the runtime computes where the reference cannot."""
        assert self.graph is not None
        wanted = {node: point for node, point in self.holes.items() if node in self.graph.by_name}
        if not wanted:
            return {}
        shown = self.subject.session.capture(self.batched(feeds), tuple(dict.fromkeys(wanted.values()))).tensors
        values = {}
        for node, point in wanted.items():
            value = self.first_sample(np.asarray(shown[point]))
            values[node] = value.astype(np.float64) if value.dtype.kind == "f" else value
        return values

    def _inputs(self) -> list[tuple[TensorSpec, str]]:
        """Every input of the session with the node of the graph that it feeds."""
        assert self.graph is not None
        own = [node for node in self.graph.inputs if node.name not in self.holes]
        nodes = {node.source or node.name: node.name for node in own}
        by_place = [node.name for node in own]
        assumed = self.graph.facts.get(MASKS_FACT, ())
        specs = [spec for spec in self.subject.session.inputs if spec.name not in assumed]
        if len(specs) != len(by_place):
            graph_has = plural(len(by_place), "input")
            raise ModelError(f"The graph of {self.job.entry.ref} has {graph_has}, its session {len(specs)}.")
        return [(spec, nodes.get(spec.name, by_place[place])) for place, spec in enumerate(specs)]

    def _axes(self, node: str) -> str:
        assert self.graph is not None
        return str(self.graph.facts.get("input_axes", {}).get(node, ""))

    # --- what comes out

    @property
    def watched(self) -> TensorSpec:
        """The output that is looked at."""
        return self.focus or self.subject.outputs[0].tensor

    def outputs(self, feeds: Feeds) -> dict[str, Array]:
        """Every output for one sample by name, as it comes from the runtime. Samples are given one at a time, since the
        answers of some models depend on what else is in the batch."""
        answered = self.subject.session.predict(self.batched(feeds))
        return {name: self.first_sample(array) for name, array in answered.items()}

    def answer(self, feeds: Feeds) -> Array:
        """The watched output for one sample, as it comes from the runtime."""
        return self.outputs(feeds)[self.watched.name]

    def capture(self, feeds: Feeds, nodes: Sequence[str]) -> tuple[dict[str, Array], Array]:
        """Values inside the model by node of the graph, as real numbers in its axes, and the watched output."""
        wanted = {node: self.points[node] for node in nodes}
        names = tuple(dict.fromkeys(observed.point.name for observed in wanted.values()))
        captured = self.subject.session.capture(self.batched(feeds), names)
        values = {node: observed.value(captured.tensors[observed.point.name]) for node, observed in wanted.items()}
        return values, self.first_sample(captured.outputs[self.watched.name])

    def first_sample(self, output: Array) -> Array:
        """What belongs to the first sample; an output that does not grow with the batch is taken whole."""
        array = np.asarray(output)
        return array[:1] if array.ndim and len(array) == (self.subject.fixed_batch or 1) else array

    def is_stored(self, feeds: Feeds, node: str) -> bool:
        """Whether a point gives integers."""
        name = self.points[node].point.name
        captured = self.subject.session.capture(self.batched(feeds), (name,))
        return captured.tensors[name].dtype.kind in "iu"

    def real_answer(self, answer: Array) -> Array:
        """A watched output as plain real numbers, in the order of the graph's output."""
        real = _real(answer, self.watched, "")
        node = self.graph.by_name[self.output] if self.graph is not None else None
        if node is not None and len(node.shape) == real.ndim > 2 and real.shape[1:] != node.shape[1:]:
            real = np.moveaxis(real, -1, 1)
        return real.reshape(-1)

    @property
    def output(self) -> str:
        """The node of the graph that makes the watched output."""
        assert self.graph is not None
        if self.borrowed:
            return self.graph.outputs[0]
        names = list(self.graph.facts.get("file_outputs", ()))
        tensors = self.graph.facts.get("tensors", {})
        wanted = tensors.get(self.watched.name, self.watched.name)
        if wanted in names:
            return self.graph.outputs[names.index(wanted)]
        own = [spec.name for spec in self.subject.session.outputs]
        if len(own) != len(self.graph.outputs):
            raise ModelError(f"The output {self.watched.name[:60]!r} of {self.label} is not found in its graph.")
        return self.graph.outputs[own.index(self.watched.name)]

    def scores(self, answer: Array) -> Array:
        return self.subject.outputs[0].read(answer)

    def batched(self, feeds: Feeds) -> Feeds:
        """A model that was exported for several samples at once gets the same one several times."""
        batch = self.subject.fixed_batch or 1
        return feeds if batch == 1 else {name: np.repeat(value, batch, axis=0) for name, value in feeds.items()}


def open_side(label: str, job: Job, dataset: Dataset) -> Side:
    session = job.open()
    try:
        decoded = dataset.decoded_with(job.manifest.decoder)
        subject = prepare_subject(job, session, decoded)
        subject.check_answers()
        return Side(label, job, subject, session.effective(), decoded)
    except BaseException:
        session.close()
        raise


def reopened(side: Side, **options: Any) -> Side:
    """Open the model of a side in its runtime with other options; its graph and points are reused."""
    job = Job(*(getattr(side.job, part.name) for part in fields(Job)))
    job = replace(job, options=replace(job.options, **options))
    session = job.open()
    try:
        return replace(
            side, job=job, subject=prepare_subject(job, session, side.dataset), effective=session.effective()
        )
    except BaseException:
        session.close()
        raise


def _options_words(options: Options) -> str:
    chosen = {option.name: getattr(options, option.name) for option in fields(Options)}
    default = Options()
    return ", ".join(
        f"{name} {value}" for name, value in chosen.items() if value != getattr(default, name) and name != "mode"
    )


def _places_in_tables(graph: Graph) -> set[str]:
    """Inputs that say which rows of a table are looked up, such as the numbers of tokens."""
    asked = [node.inputs[0] for node in graph.nodes if node.op == "embedding" and node.inputs]
    asked += [node.inputs[1] for node in graph.nodes if node.op == "gather" and len(node.inputs) > 1]
    names: set[str] = set()
    while asked:
        node = graph.by_name[asked.pop()]
        names |= {node.name} if node.op == "input" else set()
        asked += node.inputs if node.op in _PASSING else ()
    return names


def real_output(stored: Array, spec: TensorSpec) -> Array:
    """An output as plain real numbers, in the order in which the runtime gives them."""
    return _real(stored, spec, "").astype(np.float64).reshape(-1)


def _real(stored: Array, spec: TensorSpec, axes: str) -> Array:
    """Stored numbers as the real ones they stand for, with axes in canonical order. Whole numbers that stand for
    themselves, such as those of tokens, stay whole."""
    real = stored.astype(np.float64) if stored.dtype.kind == "f" else stored
    if stored.dtype.kind in "iub":
        real = stored.astype(np.int64)
        real = (real - (spec.zero_point or 0)) * float(spec.scale) if spec.scale else real
    return real.transpose(canonical_order(axes)) if len(axes) == real.ndim else real
