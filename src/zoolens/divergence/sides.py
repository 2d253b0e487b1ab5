"""One side of a comparison: an opened model in a runtime, with its graph and what can be read inside it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np

from zoolens import plugins
from zoolens.catalog.lookup import find
from zoolens.comparisons.reproduce import job_of_run
from zoolens.datasets.base import Dataset
from zoolens.divergence.evaluation import with_grids
from zoolens.divergence.points import Alike, Observed, in_order, observable
from zoolens.divergence.quantisation import quantised_tensors
from zoolens.errors import ModelError, UnsupportedAbility, ZoolensError
from zoolens.graph.model import Array, Graph
from zoolens.graph.passes.axis_labels import canonical_order
from zoolens.graph.weighted_graph import canonical_with_facts, raw_graph
from zoolens.manifests.digests import digest
from zoolens.measure.jobs import Job, Wanted, plan_jobs
from zoolens.measure.subject import Subject, prepare_subject
from zoolens.progress import Progress
from zoolens.runtimes.base import Effective, Options, TensorSpec
from zoolens.runtimes.naming import parse_runtime
from zoolens.runtimes.observing import CapturePoint
from zoolens.store.records import Run
from zoolens.zoos.base import Entry

_OPTION: Final = re.compile(r"(\w+)=([^,=]+)")
_OPTIONS: Final = ("precision", "threads", "mode", "device", "env")  # env comes last: it may hold commas

_PASSING: Final = ("cast", "identity", "reshape", "flatten", "transpose", "expand")  # change no number
_TOGETHER: Final = 16  # points that are read at a time where their sizes are not known
_COPIES: Final = 3  # of a captured tensor: itself and as float64
_FITTING: Final = 0.5  # of the layers with weights that must have a tensor of their shape

Feeds = dict[str, Array]


@dataclass(frozen=True)
class SideName:
    """What a user wrote for one side: MODEL, MODEL@RUNTIME or MODEL@RUNTIME:precision=float32,threads=1."""

    model: str
    runtime: str | None = None
    options: Options = field(default_factory=Options)
    environment: str = ""


def parse_side(text: str) -> SideName:
    """The parts of what a user wrote. An "@" that no runtime follows belongs to the model: its version, or its path."""
    model, at, rest = text.rpartition("@")
    name, address = parse_runtime(rest)
    if not at or name not in plugins.names(plugins.RUNTIMES) or Path(text).exists():
        return SideName(text)
    options, behind, environment = address.rpartition("env=")
    parts = (options.rstrip(",") if behind else address).split(",") if address != f"env={environment}" else []
    if not address or not all(_OPTION.fullmatch(part) for part in parts):
        return SideName(model, rest)
    chosen = dict(part.split("=", 1) for part in parts)
    unknown = next((option for option in chosen if option not in _OPTIONS), None)
    if unknown is not None:
        raise ZoolensError(f"There is no option {unknown!r} of a side.", hint=f"There are {', '.join(_OPTIONS)}.")
    environment = environment if behind else ""
    threads = chosen.pop("threads", None)
    if threads is not None and not threads.isdecimal():
        raise ZoolensError(f"threads={threads} is no number of threads.")
    return SideName(model, name, Options(threads=int(threads) if threads else None, **chosen), environment)


def job_named(name: SideName, *, allow_code: bool = False, progress: Progress | None = None) -> Job:
    """The model in the runtime that was asked for, or in the installed one that reads the fewest other formats."""
    wanted = Wanted(
        runtimes=(name.runtime,) if name.runtime else (),
        environments=(name.environment,),
        options=name.options,
        allow_code=allow_code,
    )
    jobs, skipped = plan_jobs([_found(name.model)], wanted, progress)
    if not jobs:
        raise ModelError(" ".join(passed.reason for passed in skipped) or f"{name.model} cannot be run here.")
    return min(jobs, key=lambda job: len(job.runtime.formats))


def _found(model: str) -> Entry:
    """The model of this name. What stands behind its last "@" was taken for a version, since no runtime is called so:
    where there is no such version either, a runtime was meant."""
    try:
        return find(model)
    except ZoolensError as error:
        name, at, rest = model.rpartition("@")
        if not at or rest[:1].isdigit():
            raise
        entry = find(name)  # says what is wrong with the name, where that is it
        known = ", ".join(plugins.names(plugins.RUNTIMES))
        raise ZoolensError(
            f"There is no runtime {parse_runtime(rest)[0]!r}, and {entry.ref} has no version {rest!r}.",
            hint=f"Runtimes are {known}.",
        ) from error


def job_stored(run: Run, *, allow_code: bool = False) -> Job:
    """The job that a stored run was made by."""
    return job_of_run(run, allow_code)


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

    def feeds(self, index: int) -> Feeds:
        """The inputs of the model for one sample, as a batch of one."""
        ready = np.asarray(self.subject.prepare(self.dataset.read(index)))
        return self.subject.named_inputs(np.ascontiguousarray(ready[np.newaxis]))

    def real_inputs(self, feeds: Feeds) -> Feeds:
        """The same as real numbers in the axes of the graph, by name of its inputs."""
        assert self.graph is not None
        inputs = {node: _real(feeds[spec.name], spec, self._axes(node)) for spec, node in self._inputs()}
        for node in _places_in_tables(self.graph) & inputs.keys():
            inputs[node] = inputs[node].astype(np.int64)  # whatever type the runtime takes them in
        for node, value in inputs.items():
            expected = self.graph.by_name[node].shape
            if value.size != prod(expected):
                raise ModelError(
                    f"The graph of {self.job.entry.ref} was read for inputs of the shape {expected}, but "
                    f"{self.label} was fed one of {value.shape}."
                )
        return {node: value.reshape(self.graph.by_name[node].shape) for node, value in inputs.items()}

    def _inputs(self) -> list[tuple[TensorSpec, str]]:
        """Every input of the session with the node of the graph that it feeds."""
        assert self.graph is not None
        nodes = {node.source or node.name: node.name for node in self.graph.inputs}
        by_place = [node.name for node in self.graph.inputs]
        specs = self.subject.session.inputs
        if len(specs) != len(by_place):
            raise ModelError(f"The graph of {self.job.entry.ref} has {len(by_place)} inputs, its session {len(specs)}.")
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
        return {name: self._first_sample(array) for name, array in answered.items()}

    def answer(self, feeds: Feeds) -> Array:
        """The watched output for one sample, as it comes from the runtime."""
        return self.outputs(feeds)[self.watched.name]

    def capture(self, feeds: Feeds, nodes: Sequence[str]) -> tuple[dict[str, Array], Array]:
        """Values inside the model by node of the graph, as real numbers in its axes, and the watched output."""
        wanted = {node: self.points[node] for node in nodes}
        names = tuple(dict.fromkeys(observed.point.name for observed in wanted.values()))
        captured = self.subject.session.capture(self.batched(feeds), names)
        values = {node: observed.value(captured.tensors[observed.point.name]) for node, observed in wanted.items()}
        return values, self._first_sample(captured.outputs[self.watched.name])

    def _first_sample(self, output: Array) -> Array:
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
        decoded = dataset.decoded_with(job.manifest.inputs[0].decoder)
        subject = prepare_subject(job, session, decoded)
        subject.check_answers()
        return Side(label, job, subject, session.effective(), decoded)
    except BaseException:
        session.close()
        raise


def reopened(side: Side, **options: Any) -> Side:
    """The same model in the same runtime with other options; its graph and points are taken over."""
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


def with_graph(side: Side, other: Side | None = None) -> Side:
    """The side with its graph, if that can be read; the very same where the other side has the same files."""
    if other is not None and other.graph is not None and _same_files(side.job, other.job):
        return replace(side, raw=other.raw, graph=other.graph)
    try:
        raw = raw_graph(side.job.entry, side.job.asset)
        graph = canonical_with_facts(raw)
    except ZoolensError as error:
        return replace(side, notes=(*side.notes, f"{side.label}: {error.message}"))
    if graph.unknown:
        kinds = ", ".join(sorted({str(node.get("source_op")) for node in graph.unknown}))
        note = f"{side.label}: its graph has operators that the reference cannot compute: {kinds[:200]}."
        return replace(side, notes=(*side.notes, note))
    return replace(side, raw=raw, graph=graph)


def _same_files(a: Job, b: Job) -> bool:
    if a.asset.format != b.asset.format or a.paths.keys() != b.paths.keys():
        return False
    return all(path == b.paths[role] or digest(path) == digest(b.paths[role]) for role, path in a.paths.items())


def with_points(side: Side, index: int, known: Alike | None = None) -> Side:
    """The side with the tensors inside its model that can be read, and the grids of those that its file quantises,
    both found in its graph. `known`: which values of its two graphs are the same, where that was found already."""
    assert side.raw is not None
    assert side.graph is not None
    notes = side.notes
    points: tuple[CapturePoint, ...] = ()
    try:
        every = side.subject.session.capture_points()
        points = tuple(point for point in every if point.kept) or every  # reading others changes the computation
    except (UnsupportedAbility, NotImplementedError):
        notes = (*notes, _cannot_capture(side))
    except ZoolensError as error:
        notes = (*notes, f"{side.label}: {error.message}")
    tensors = quantised_tensors(side.job.asset.format, side.job.paths)
    if not points and not tensors:
        return replace(side, notes=notes)
    found = observable(side.raw, side.graph, points, side.real_inputs(side.feeds(index)), tensors, known)
    readable = replace(side, points=found.points, graph=with_grids(side.graph, found.grids), notes=notes)
    return _without_integers(readable, index) if tensors else readable


def with_borrowed_graph(side: Side, other: Side, index: int, memory: int) -> Side:
    """The side held against the graph of the other one, since its own cannot be read. Tensors are aligned by their
    order and shapes, which a runtime that computes another network would not bear. The side as it is where too few
    fit."""
    assert other.graph is not None
    try:
        points = side.subject.session.capture_points()
        shown, left_out = captured_within(side, side.feeds(index), points, memory)
        found = in_order(other.graph, points, shown, other.real_inputs(other.feeds(index)))
    except (UnsupportedAbility, NotImplementedError):
        return replace(side, notes=(*side.notes, _cannot_capture(side)))
    except ZoolensError as error:
        return replace(side, notes=(*side.notes, f"{side.label}: its layers were not compared. {error.message}"))
    if left_out:
        note = (
            f"{side.label}: {left_out} of the {len(points)} tensors that it shows were not read, since all of them "
            "together exceed the memory budget; --memory raises it."
        )
        side = replace(side, notes=(*side.notes, note))
    learned = [node for node in other.graph.nodes if node.parameters]
    if len(found) < _FITTING * len(learned):
        note = (
            f"{side.label}: only {len(found)} of its tensors have the shape of a layer of {other.label}, which has "
            f"{len(learned)} layers with weights: the two are networks of different structure."
        )
        return replace(side, notes=(*side.notes, note), foreign=True)
    note = (
        f"{side.label}: its graph cannot be read, so that it is held against the graph of {other.label}, tensor by "
        "tensor in order, shape and value."
    )
    return replace(side, graph=other.graph, raw=other.raw, borrowed=True, points=found, notes=(*side.notes, note))


def captured_within(
    side: Side, feeds: Feeds, points: Sequence[CapturePoint], memory: int
) -> tuple[dict[str, Array], int]:
    """What a few points at a time show, until the budget is spent; and how many points were left out."""
    shown: dict[str, Array] = {}
    for start in range(0, len(points), _TOGETHER):
        if sum(array.nbytes for array in shown.values()) * _COPIES > memory:
            return shown, len(points) - start
        names = tuple(point.name for point in points[start : start + _TOGETHER])
        shown |= side.subject.session.capture(side.batched(feeds), names).tensors
    return shown, 0


def _without_integers(side: Side, index: int) -> Side:
    """Without points that give integers of which nobody knows what real numbers they stand for."""
    feeds = side.feeds(index)
    dark = [node for node, observed in side.points.items() if observed.grid is None and side.is_stored(feeds, node)]
    return replace(side, points={node: point for node, point in side.points.items() if node not in dark})


def _cannot_capture(side: Side) -> str:
    able = ", ".join(_capturing()) or "none yet"
    return (
        f"{side.label}: {side.job.runtime.full_name} does not show the tensors inside a model, so that its layers are "
        f"not compared; these runtimes do: {able}."
    )


def _capturing() -> list[str]:
    names = []
    for name in plugins.names(plugins.RUNTIMES):
        try:
            kind = plugins.load(plugins.RUNTIMES, name)
        except ZoolensError:
            continue
        if "capture" not in kind.cannot:
            names.append(name)
    return names


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
    found: set[str] = set()
    while asked:
        node = graph.by_name[asked.pop()]
        found |= {node.name} if node.op == "input" else set()
        asked += node.inputs if node.op in _PASSING else ()
    return found


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
