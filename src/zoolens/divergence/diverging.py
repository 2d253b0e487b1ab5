"""`diverge`: two sides on the same data, from their answers down to the layer where they part and the cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from zoolens.catalog.names import is_run
from zoolens.datasets.base import Dataset
from zoolens.datasets.opening import open_dataset
from zoolens.divergence.alignment import Aligned, Pair, aligned
from zoolens.divergence.answer_causes import causes_from_answers
from zoolens.divergence.answers import Answers, compare_answers
from zoolens.divergence.causes import Cause, Kind, Parts
from zoolens.divergence.examined import Exact, Examined
from zoolens.divergence.file_causes import causes_of_files
from zoolens.divergence.inspection import Layer, inspect
from zoolens.divergence.runtime_causes import causes_of_runtime
from zoolens.divergence.sides import (
    Side,
    job_named,
    job_stored,
    open_side,
    parse_side,
    with_borrowed_graph,
    with_graph,
    with_points,
)
from zoolens.errors import ZoolensError
from zoolens.measure.jobs import Job
from zoolens.numerics.deviation import first_beyond
from zoolens.progress import Progress, Silent
from zoolens.store.records import Run
from zoolens.store.store import Store, borrowed_store

MEMORY: Final = 1 << 30  # bytes for the tensors that are compared
EXAMINED: Final = 4  # inputs that are looked at layer by layer
_UNEXPLAINED: Final = Cause(Kind.UNEXPLAINED, "No layer by itself, no file and no input explains the difference")
_OUTPUT_FLOOR: Final = 1e-5  # relative, of answers whose graph cannot be computed, so that no floor is measured


@dataclass(frozen=True)
class SideFacts:
    """What one side is, for a report."""

    title: str
    runtime: str
    version: str | None
    precision: str
    layers: int  # values inside the model that can be read and found in its graph


@dataclass(frozen=True)
class LayerFacts:
    """One layer over all examined inputs: the deviations of the input on which it is farthest beyond its floor."""

    label: str
    layer: Layer


@dataclass(frozen=True)
class Divergence:
    """Where and why two sides part. `layers` are in order of computation; `first` is the first of them beyond its
    floor. `floor`: what rounding may do to an answer. `parts`: the three parts of the difference on the worst input."""

    a: SideFacts
    b: SideFacts
    data: str
    answers: Answers
    floor: float
    measured_floor: bool
    layers: tuple[LayerFacts, ...]
    first: LayerFacts | None
    parts: Parts | None
    causes: tuple[Cause, ...]
    examined: tuple[int, ...]
    notes: tuple[str, ...]
    memory: int

    @property
    def differs(self) -> bool:
        """Whether the two are farther apart than rounding explains."""
        return self.first is not None or self.answers.relative_error > self.floor


def diverge(
    a: str,
    b: str,
    data: str | None = None,
    *,
    limit: int | None = None,
    seed: int | None = None,
    examined: int = EXAMINED,
    memory: int = MEMORY,
    store: Store | str | Path | None = None,
    allow_code: bool = False,
    progress: Progress | None = None,
) -> Divergence:
    """Compare two stacks on the same inputs: MODEL@RUNTIME:options each, or stored runs, which bring their data along.

    All inputs are answered by both; `examined` of them, the worst, are looked at layer by layer, with at most `memory`
    bytes for the tensors that are compared at a time (the models themselves come on top).
    """
    watcher = progress or Silent()
    jobs, spec, chosen, notes = _jobs((a, b), data, (limit, seed), store, allow_code, watcher)
    with closing(open_dataset(spec, limit=chosen[0], seed=chosen[1])) as dataset:
        found = diverge_jobs(jobs[0], jobs[1], dataset, examined=examined, memory=memory, progress=watcher)
    return replace(found, notes=(*notes, *found.notes))


def diverge_jobs(
    a: Job,
    b: Job,
    dataset: Dataset,
    *,
    examined: int = EXAMINED,
    memory: int = MEMORY,
    progress: Progress | None = None,
) -> Divergence:
    """The same for two jobs on an open dataset."""
    with ExitStack() as stack:
        sides = []
        for label, job in zip("AB", (a, b), strict=True):
            sides.append(open_side(label, job, dataset))
            stack.callback(sides[-1].close)
        return _diverge(sides[0], sides[1], dataset, examined, memory, progress or Silent())


def _jobs(
    names: tuple[str, str],
    data: str | None,
    chosen: tuple[int | None, int | None],
    store: Store | str | Path | None,
    allow_code: bool,
    progress: Progress,
) -> tuple[list[Job], str, tuple[int | None, int | None], list[str]]:
    """The jobs of both sides, the data they run on (named, or those of a stored run), and what to say of the runs."""
    runs: dict[int, Run] = {}
    if any(is_run(name) and not Path(name).exists() for name in names):
        with borrowed_store(store, must_exist=True) as opened:
            runs = {
                place: opened.measured_run(name)
                for place, name in enumerate(names)
                if is_run(name) and not Path(name).exists()
            }
    jobs = [
        job_stored(runs[place], allow_code=allow_code)
        if place in runs
        else job_named(parse_side(name), allow_code=allow_code, progress=progress)
        for place, name in enumerate(names)
    ]
    notes = [note for place, run in runs.items() if (note := _other_stack("AB"[place], run, jobs[place]))]
    if data is not None:
        return jobs, data, chosen, notes
    origins = [run.origin for run in runs.values() if run.origin.get("data")]
    if not origins:
        raise ZoolensError("No data are named.", hint="Add --data; only stored runs bring their data along.")
    if len({run.dataset.fingerprint for run in runs.values()}) > 1:
        raise ZoolensError("The two runs were made on different data.", hint="Name the data with --data.")
    origin = origins[0]
    own = (chosen[0] or origin["limit"], chosen[1] if chosen[1] is not None else origin["seed"])
    return jobs, origin["data"], own, notes


def _other_stack(label: str, run: Run, job: Job) -> str | None:
    """What is to be said where a stored run was made with other versions than are here: they are not compared."""
    if run.stack.version == job.stack.version:
        return None
    return (
        f"{label}: run {run.id[:8]} was made with {run.stack.runtime} {run.stack.version}, and {job.stack.version} is "
        "what computes here; name the old one as MODEL@RUNTIME:env=PACKAGES."
    )


def _diverge(a: Side, b: Side, dataset: Dataset, count: int, memory: int, progress: Progress) -> Divergence:
    answers = compare_answers(a, b, dataset, progress)
    chosen = _worst(answers, count)
    a, b = _with_graphs(a, b, answers, chosen[0])
    examined = [_examine(a, b, index) for index in chosen]
    if a.graph is None or b.graph is None:
        return _by_answers(a, b, dataset, answers, examined, memory)
    try:
        graphs = aligned(a.graph, b.graph)
        a, b, graphs = _with_points(a, b, graphs, chosen[0])
        examined = [one.with_inputs(a, b) for one in examined]
        examined = _inspected(a, b, graphs, examined, memory, progress)
        exact = {one.index: Exact.of(a, b, one) for one in examined}
    except ZoolensError as error:
        a = replace(a, notes=(*a.notes, f"The layers could not be compared: {error.message}"))
        return _by_answers(a, b, dataset, answers, examined, memory)
    worst = examined[0]  # the input whose answers are farthest apart
    floor = exact[worst.index].floor_between(a, b)
    layers = _worst_layers(examined, graphs)
    first = _first(layers)
    differs = first is not None or answers.relative_error > floor
    causes, said = _causes(a, b, graphs, examined, exact, differs)
    parts = None if a.borrowed or b.borrowed else exact[worst.index].parts(a, b, worst)
    notes = (*a.notes, *b.notes, *_said_of(examined), *said, *_said_of_answers(answers))
    return Divergence(
        _facts(a), _facts(b), dataset.name, answers, floor, True, layers, first, parts, causes, tuple(chosen), notes,
        memory,
    )  # fmt: skip


def _with_graphs(a: Side, b: Side, answers: Answers, index: int) -> tuple[Side, Side]:
    """Both sides with their graphs; where one cannot be read, it is held against the other's if that fits."""
    a = with_graph(a)
    b = with_graph(b, a)
    if answers.compared == "raw outputs" and a.graph is None and b.graph is not None:
        a = with_borrowed_graph(a, b, index)
    elif answers.compared == "raw outputs" and b.graph is None and a.graph is not None:
        b = with_borrowed_graph(b, a, index)
    return a, b


def _with_points(a: Side, b: Side, graphs: Aligned, index: int) -> tuple[Side, Side, Aligned]:
    """Both sides with the tensors that they show, found in the graphs as they were aligned."""
    a, b = replace(a, graph=graphs.a), replace(b, graph=graphs.b)
    shared = graphs.a is graphs.b
    a = a if a.borrowed else with_points(a, index)
    b = b if b.borrowed else with_points(b, index)
    if shared:  # one object, by which it is known that both have the same graph
        graph = b.graph if a.borrowed else a.graph
        a, b = replace(a, graph=graph), replace(b, graph=graph)
    assert a.graph is not None
    assert b.graph is not None
    return a, b, replace(graphs, a=a.graph, b=b.graph)


def _first(layers: Sequence[LayerFacts]) -> LayerFacts | None:
    measured = [(fact, fact.layer.between, fact.layer.floor) for fact in layers]
    return first_beyond((fact, between, floor) for fact, between, floor in measured if between is not None)


def _causes(
    a: Side, b: Side, graphs: Aligned, examined: Sequence[Examined], exact: Mapping[int, Exact], differs: bool
) -> tuple[tuple[Cause, ...], list[str]]:
    """Why the two differ, and what is to be said where they do not but neither does what its file says."""
    worst = examined[0]
    borrowed = a.borrowed or b.borrowed
    if borrowed and differs:
        tried = causes_from_answers(a, b, examined, exact[worst.index].floor_between(a, b))
        proved = tuple(cause for cause in tried if cause.proved)
        if proved:
            return proved, []
    found = [cause for place, side in enumerate((a, b)) for cause in causes_of_runtime(side, place, examined, exact)]
    if differs:
        files = [] if borrowed else causes_of_files(a, b, graphs, exact[worst.index])
        return tuple([*files, *found] or [_UNEXPLAINED]), []
    words = "; ".join(cause.words for cause in found)
    return (), [f"The two agree, and both are off what their files say exactly: {words}."] if found else []


def _by_answers(
    a: Side, b: Side, dataset: Dataset, answers: Answers, examined: Sequence[Examined], memory: int
) -> Divergence:
    """The comparison of answers alone, where layers cannot be compared."""
    differs = answers.relative_error > _OUTPUT_FLOOR
    causes = causes_from_answers(a, b, examined, _OUTPUT_FLOOR) if differs else []
    notes = ("Only answers are compared, not layers.", *a.notes, *b.notes, *_said_of_answers(answers))
    return Divergence(
        _facts(a), _facts(b), dataset.name, answers, _OUTPUT_FLOOR, False, (), None, None, tuple(causes),
        tuple(one.index for one in examined), notes, memory,
    )  # fmt: skip


def _worst(answers: Answers, count: int) -> list[int]:
    """The inputs to look at: the one on which the answers are farthest apart, then flipped ones, then the others."""
    apart = sorted(answers.rows, key=lambda row: (-row.deviation.error, row.index))
    ordered = [apart[0], *sorted(apart[1:], key=lambda row: not row.flips)]
    return [row.index for row in ordered[: max(1, count)]]


def _examine(a: Side, b: Side, index: int) -> Examined:
    feeds = a.feeds(index), b.feeds(index)
    return Examined(index, feeds, (a.answer(feeds[0]), b.answer(feeds[1])))


def _inspected(
    a: Side,
    b: Side,
    graphs: Aligned,
    examined: Sequence[Examined],
    memory: int,
    progress: Progress,
) -> list[Examined]:
    pairs = [pair for pair in graphs.pairs if pair.a in a.points or pair.b in b.points]
    if not pairs:
        return list(examined)
    progress.begin("layers", "comparing", len(examined))
    inspected = []
    try:
        for one in examined:
            inspected.append(replace(one, inspection=inspect(one.view(a, 0), one.view(b, 1), pairs, memory)))
            progress.advance(1)
    finally:
        progress.end()
    return inspected


def _said_of(examined: Sequence[Examined]) -> list[str]:
    said = []
    if not any(one.inspection for one in examined):
        said.append("No tensor inside the models can be read: only answers and files are compared.")
    for label in ("A", "B"):
        moved = max((one.inspection.observed.get(label, 0.0) for one in examined if one.inspection), default=0.0)
        if moved:
            said.append(
                f"Observing {label} changes how it computes: its answers move by up to {moved:.1e} while tensors "
                "are read, so that what is said of its layers holds for the observed copy."
            )
    skipped = sorted({name for one in examined if one.inspection for name in one.inspection.skipped})
    if skipped:
        said.append(
            f"{len(skipped)} tensors are larger than the memory budget and were not compared: "
            f"{', '.join(skipped[:3])}{', …' if len(skipped) > 3 else ''}; --memory raises it."
        )
    return said


def _said_of_answers(answers: Answers) -> list[str]:
    count = sum(row.not_finite for row in answers.rows)
    return [f"{count:,} inputs are answered by both with numbers that are not finite."] if count else []


def _worst_layers(examined: Sequence[Examined], graphs: Aligned) -> tuple[LayerFacts, ...]:
    by_pair: dict[Pair, list[Layer]] = {}
    for one in examined:
        for layer in one.inspection.layers if one.inspection is not None else ():
            by_pair.setdefault(layer.pair, []).append(layer)
    return tuple(LayerFacts(_label(graphs, pair), max(layers, key=_beyond)) for pair, layers in by_pair.items())


def _beyond(layer: Layer) -> float:
    """How many floors the farthest of what is measured at a layer is beyond."""
    measured = [(layer.between, layer.floor)]
    measured += [(side.local, side.local_floor) for side in layer.sides if side is not None]
    return max((moved.error / floor for moved, floor in measured if moved is not None), default=0.0)


def _label(graphs: Aligned, pair: Pair) -> str:
    node = graphs.a.by_name[pair.a]
    return f"{node.source or node.name} ({node.op})"


def _facts(side: Side) -> SideFacts:
    runtime = side.job.runtime
    return SideFacts(side.title, runtime.full_name, side.job.stack.version, side.precision, len(side.points))
