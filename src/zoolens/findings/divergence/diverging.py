"""`diverge`: two sides on the same data, from their answers down to the layer where they part and the cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Final

from zoolens.base.errors import ModelError, ZoolensError
from zoolens.base.numerics.deviation import deviation_of_finite, first_beyond
from zoolens.base.progress import Progress, Silent
from zoolens.base.store.records import Run
from zoolens.base.store.store import Store, borrowed_store
from zoolens.base.verdicts import Coverage, Gap
from zoolens.findings.comparisons.origins import DataOrigin
from zoolens.findings.comparisons.reproduce import job_of_run
from zoolens.findings.divergence.adding_up import adding_up
from zoolens.findings.divergence.alignment import Aligned, NodePair, aligned
from zoolens.findings.divergence.answer_causes import ASSUMED_FLOOR, causes_from_answers, random_causes
from zoolens.findings.divergence.divergence_answers import AnswerPairs, comparable, compare_answers, compared_kind
from zoolens.findings.divergence.divergence_causes import Cause, Kind, label_of
from zoolens.findings.divergence.divergence_coverage import layers_understood
from zoolens.findings.divergence.examined import Exact, ExaminedInput
from zoolens.findings.divergence.file_causes import causes_of_files, not_finite_in_files
from zoolens.findings.divergence.file_tensors import FileTensors, compared_tensors, tensors_of
from zoolens.findings.divergence.holes import holes_of
from zoolens.findings.divergence.inspection import InspectedLayer, inspect, worst_layer
from zoolens.findings.divergence.named_tensors import tensors_of_one_name
from zoolens.findings.divergence.points import alike
from zoolens.findings.divergence.remarks import said_of, said_of_answers
from zoolens.findings.divergence.result import Divergence, LayerFacts, SideSummary, is_beyond
from zoolens.findings.divergence.runtime_causes import causes_of_runtime
from zoolens.findings.divergence.side_graphs import same_files, with_borrowed_graph, with_graph, with_points
from zoolens.findings.divergence.side_names import job_named, parse_side
from zoolens.findings.divergence.sides import Side, open_side
from zoolens.findings.graph.model import Graph
from zoolens.findings.measure.jobs import Job
from zoolens.inventory.catalog.names import is_run
from zoolens.inventory.datasets.dataset import Dataset
from zoolens.inventory.datasets.opening import absolute_spec, open_dataset

MEMORY: Final = 1 << 30  # bytes for the tensors that are compared
EXAMINED: Final = 4  # inputs that are looked at layer by layer
_UNEXPLAINED: Final = Cause(Kind.UNEXPLAINED, "No layer by itself, no file and no input explains the difference")
_INSIDE: Final = Cause(
    Kind.UNEXPLAINED,
    "Layers inside differ, which moves no output as a whole beyond rounding, so that no cause was looked for",
    "Layers inside differ, which moves no output as a whole beyond rounding, so that no cause was looked for",
)
_OTHER_OUTPUTS: Final = 3  # beside the main one, that are looked at layer by layer where the main one agrees


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
    jobs, spec, chosen, runs = _jobs((a, b), data, (limit, seed), store, allow_code, watcher)
    notes = [note for place, run in runs.items() if (note := _other_stack("AB"[place], run, jobs[place]))]
    with closing(open_dataset(spec, limit=chosen[0], seed=chosen[1])) as dataset:
        notes += _other_data(runs, dataset, (data, limit, seed))
        result = diverge_jobs(jobs[0], jobs[1], dataset, examined=examined, memory=memory, progress=watcher)
        fingerprint = dataset.fingerprint()
    origin = DataOrigin(absolute_spec(spec), *chosen)
    return replace(result, notes=(*notes, *result.notes), origin=origin, fingerprint=fingerprint)


def diverge_jobs(
    a: Job,
    b: Job,
    dataset: Dataset,
    *,
    examined: int = EXAMINED,
    memory: int = MEMORY,
    progress: Progress | None = None,
) -> Divergence:
    """Return where and why two jobs diverge on an open dataset."""
    if not len(dataset):
        raise ZoolensError(f"{dataset.name} has no inputs to compare answers on.", hint="Name other data.")
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
) -> tuple[list[Job], str, tuple[int | None, int | None], dict[int, Run]]:
    """The jobs of both sides, the data they run on (named, or those of a stored run), and the runs by place."""
    runs: dict[int, Run] = {}
    if any(is_run(name) and not Path(name).exists() for name in names):
        with borrowed_store(store, must_exist=True) as opened:
            runs = {
                place: opened.measured_run(name)
                for place, name in enumerate(names)
                if is_run(name) and not Path(name).exists()
            }
    jobs = [
        job_of_run(runs[place], allow_code=allow_code)
        if place in runs
        else job_named(parse_side(name), allow_code=allow_code, progress=progress)
        for place, name in enumerate(names)
    ]
    if data is not None:
        return jobs, data, chosen, runs
    origins = [run.origin for run in runs.values() if run.origin.get("data")]
    if not origins:
        raise ZoolensError("No dataset given.", hint="Add --data; only stored runs bring their data along.")
    if len({run.dataset.fingerprint for run in runs.values()}) > 1:
        raise ZoolensError("The two runs were made on different data.", hint="Name the data with --data.")
    origin = origins[0]
    own = (chosen[0] or origin["limit"], chosen[1] if chosen[1] is not None else origin["seed"])
    return jobs, origin["data"], own, runs


def _other_data(runs: Mapping[int, Run], dataset: Dataset, asked: tuple[object, ...]) -> list[str]:
    """What is to be said where data that a stored run brought along have changed since."""
    changed = [
        run for run in runs.values() if asked == (None, None, None) and run.dataset.fingerprint != dataset.fingerprint()
    ]
    return [f"The data have changed since run {run.id[:8]} was made: the comparison is of today's." for run in changed]


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
    random = random_causes((a, b), chosen[0])
    if random:
        return replace(_by_answers(a, b, dataset, answers, chosen, memory), causes=random)
    a, b = _with_graphs(a, b, answers, chosen[0], memory)
    result = _explained(a, b, dataset, answers, chosen, memory, progress)
    result = _with_tensors(result, _file_tensors(a, b))
    for other in sorted(answers.others, key=lambda output: -output.relative_error)[:_OTHER_OUTPUTS]:
        if is_beyond(result.relative_error, result.floor) or not other.relative_error:
            break
        watched = replace(a, focus=other.a), replace(b, focus=other.b)
        again = _explained(*watched, dataset, answers, [other.worst], memory, progress)
        if is_beyond(other.relative_error, again.floor):
            result = replace(again, output=other, tensors=result.tensors)
    return result


def _file_tensors(a: Side, b: Side) -> FileTensors | None:
    """The constants of two files beside each other; None where it is one file, or where one cannot be read."""
    if same_files(a.job, b.job):
        return None
    ours, theirs = tensors_of(a), tensors_of(b)
    return None if ours is None or theirs is None else compared_tensors(ours, theirs)


def _with_tensors(result: Divergence, tensors: FileTensors | None) -> Divergence:
    """The result with the constants of both files; where nothing else explains the difference, they are suspected."""
    result = replace(result, tensors=tensors)
    unexplained = result.causes and all(cause.kind is Kind.UNEXPLAINED for cause in result.causes)
    inside = result.causes == (_INSIDE,)
    if tensors is None or not tensors.changed or not unexplained or (result.measured_floor and not inside):
        return result
    words = next(iter(tensors.sentences)).rstrip(".")
    why = "they move layers inside and no examined answer" if inside else "what they do to the answers was not computed"
    return replace(result, causes=(Cause(Kind.WEIGHTS, words, withdrawn=(why,)),))


def _explained(
    a: Side, b: Side, dataset: Dataset, answers: AnswerPairs, chosen: list[int], memory: int, progress: Progress
) -> Divergence:
    """The difference of the watched output, looked at layer by layer on the chosen inputs."""
    if a.graph is None or b.graph is None:
        return _by_answers(a, b, dataset, answers, chosen, memory)
    examined = [_examine(a, b, index) for index in chosen]
    try:
        graphs = aligned(a.graph, b.graph)
        a, b, graphs = _with_points(a, b, graphs, chosen[0])
        examined = _fitting(a, b, examined)
        examined = _inspected(a, b, graphs, examined, memory, progress)
        exact = {example.index: Exact.of(a, b, example, compared_kind(a, b)) for example in examined}
    except ZoolensError as error:
        a = replace(a, notes=(*a.notes, f"The layers could not be compared: {error.message}"))
        return _by_answers(a, b, dataset, answers, chosen, memory)
    worst = examined[0]  # the input whose answers are farthest apart
    layers = _worst_layers(examined, graphs, a.raw)
    floor = exact[worst.index].floor_between(a, b)
    # Where graphs differ, or one is not known, which layers stand beside each other is a guess: answers outweigh it.
    alike = graphs.same_structure and not a.borrowed and not b.borrowed
    guessed = not alike and not is_beyond(answers.relative_error, floor)
    whole = not a.borrowed and not b.borrowed and exact[worst.index].scores is None
    parts = exact[worst.index].parts(a, b, worst) if whole else None
    result = Divergence(
        _facts(a), _facts(b), dataset.name, answers, floor, True, layers,
        None if guessed else _first(layers), parts, (), tuple(example.index for example in examined),
        (*a.notes, *b.notes), memory, layers_understood(a, b),
    )  # fmt: skip
    differs = result.differs or (a.focus is not None and is_beyond(_apart(a, b, worst), result.floor))
    causes, remarks = _causes(a, b, graphs, examined, exact, differs)
    causes = adding_up(causes, _apart(a, b, worst), result.floor)
    notes = (*said_of(examined), *remarks, *not_finite_in_files((a, b), examined, exact))
    notes = (*notes, *said_of_answers(answers, result.floor))
    return replace(result, causes=causes, notes=(*result.notes, *notes))


def _apart(a: Side, b: Side, examined: ExaminedInput) -> float:
    """How far the watched outputs of both are apart on one input."""
    kind = compared_kind(a, b)
    values = [comparable(side, answer, kind) for side, answer in zip((a, b), examined.answers, strict=True)]
    return deviation_of_finite(values[1], values[0]).error


def _with_graphs(a: Side, b: Side, answers: AnswerPairs, index: int, memory: int) -> tuple[Side, Side]:
    """Both sides with their graphs; where one cannot be read, it is held against the other's if that fits."""
    a = with_graph(a, a.feeds(index))
    b = with_graph(b, b.feeds(index), a)
    if answers.compared == "raw outputs" and a.graph is None and b.graph is not None:
        a = with_borrowed_graph(a, b, index, memory)
    elif answers.compared == "raw outputs" and b.graph is None and a.graph is not None:
        b = with_borrowed_graph(b, a, index, memory)
    return a, b


def _with_points(a: Side, b: Side, graphs: Aligned, index: int) -> tuple[Side, Side, Aligned]:
    """Both sides with the tensors that they show, found in the graphs as they were aligned."""
    a, b = replace(a, graph=graphs.a), replace(b, graph=graphs.b)
    shared = graphs.a is graphs.b
    known = None
    owner = b if a.borrowed else a
    if shared and a.raw is b.raw and owner.raw is not None:
        known = alike(owner.raw, graphs.a, owner.real_inputs(owner.feeds(index)))
    a = a if a.borrowed else with_points(a, index, known)
    b = b if b.borrowed else with_points(b, index, known)
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
    a: Side, b: Side, graphs: Aligned, examined: Sequence[ExaminedInput], exact: Mapping[int, Exact], differs: bool
) -> tuple[tuple[Cause, ...], list[str]]:
    """Why the two differ, and what is to be said where they do not but one or both do not what their files say."""
    worst = examined[0]
    borrowed = a.borrowed or b.borrowed
    if borrowed and differs:
        tried = causes_from_answers(a, b, examined, exact[worst.index].floor_between(a, b))
        proved = tuple(cause for cause in tried if cause.proved)
        if proved:
            return proved, []
    files = [] if borrowed else causes_of_files(a, b, graphs, examined, exact)
    of_runtimes = [
        cause for place, side in enumerate((a, b)) for cause in causes_of_runtime(side, place, examined, exact)
    ]
    if differs:
        moved = is_beyond(_apart(a, b, worst), exact[worst.index].floor_between(a, b))
        return tuple([*files, *of_runtimes] or [_UNEXPLAINED if moved else _INSIDE]), []
    if files or not of_runtimes:
        return tuple(files), []
    words = "; ".join(cause.words for cause in of_runtimes)
    if len({cause.side for cause in of_runtimes}) > 1:
        return (), [f"The two agree within rounding, but neither computes exactly what its file says: {words}."]
    return (), [f"One side does not compute what its file says, which moves no answer beyond rounding: {words}."]


def _by_answers(
    a: Side, b: Side, dataset: Dataset, answers: AnswerPairs, chosen: Sequence[int], memory: int
) -> Divergence:
    """The comparison of answers alone, where layers cannot be compared."""
    layers = tensors_of_one_name(a, b, chosen[0], memory, ASSUMED_FLOOR)
    compared = f"{len(layers)} tensors that both show under one name are compared, and not layers."
    notes = (compared if layers else "Only answers are compared, not layers.", *a.notes, *b.notes)
    notes = (*notes, *said_of_answers(answers, ASSUMED_FLOOR))
    result = Divergence(
        _facts(a), _facts(b), dataset.name, answers, ASSUMED_FLOOR, False, layers, _first(layers), None, (),
        tuple(chosen[:1]), notes,
        memory, Coverage((), _not_compared(a, b)),
    )  # fmt: skip
    examined = [_examine(a, b, chosen[0])]
    differs = result.differs or (a.focus is not None and _apart(a, b, examined[0]) > ASSUMED_FLOOR)
    return replace(result, causes=tuple(causes_from_answers(a, b, examined, ASSUMED_FLOOR))) if differs else result


def _not_compared(a: Side, b: Side) -> tuple[Gap, ...]:
    """Why layers were not compared."""
    gaps = layers_understood(a, b).gaps
    return gaps or (Gap("layers, which could not be compared", remedy="See the notes above."),)


def _worst(answers: AnswerPairs, count: int) -> list[int]:
    """The inputs to look at: the one on which the answers are farthest apart, then flipped ones, then the others."""
    apart = sorted(answers.rows, key=lambda row: (-row.deviation.error, row.index))
    ordered = [apart[0], *sorted(apart[1:], key=lambda row: not row.flips)]
    return [row.index for row in ordered[: max(1, count)]]


def _examine(a: Side, b: Side, index: int) -> ExaminedInput:
    feeds = a.feeds(index), b.feeds(index)
    return ExaminedInput(index, feeds, (a.answer(feeds[0]), b.answer(feeds[1])))


def _inspected(
    a: Side,
    b: Side,
    graphs: Aligned,
    examined: Sequence[ExaminedInput],
    memory: int,
    progress: Progress,
) -> list[ExaminedInput]:
    pairs = [pair for pair in graphs.pairs if pair.a in a.points or pair.b in b.points]
    if not pairs:
        return list(examined)
    progress.begin("layers", "comparing", len(examined))
    inspected = []
    try:
        for example in examined:
            inspected.append(
                replace(example, inspection=inspect(example.view(a, 0), example.view(b, 1), pairs, memory))
            )
            progress.advance(1)
    finally:
        progress.end()
    return inspected


def _fitting(a: Side, b: Side, examined: Sequence[ExaminedInput]) -> list[ExaminedInput]:
    """The worst input and the others for whose extents the graphs were read, such as sentences of one length."""
    fitting = [examined[0].with_inputs(a, b)]
    for example in examined[1:]:
        try:
            fitting.append(example.with_inputs(a, b))
        except ModelError:  # of another shape
            continue
    return fitting


def _worst_layers(examined: Sequence[ExaminedInput], graphs: Aligned, raw: Graph | None) -> tuple[LayerFacts, ...]:
    by_pair: dict[NodePair, list[InspectedLayer]] = {}
    for example in examined:
        for layer in example.inspection.layers if example.inspection is not None else ():
            by_pair.setdefault(layer.pair, []).append(layer)
    facts = [LayerFacts(_label(graphs, pair), worst_layer(layers)) for pair, layers in by_pair.items()]
    if not holes_of(graphs.a) or raw is None:
        return tuple(facts)
    place = {node.name: number for number, node in enumerate(raw.nodes)}  # what goes into a hole stands before it
    return tuple(sorted(facts, key=lambda fact: place.get(fact.layer.pair.a, len(place))))


def _label(graphs: Aligned, pair: NodePair) -> str:
    return label_of(graphs.a, pair.a)


def _facts(side: Side) -> SideSummary:
    runtime = side.job.runtime
    return SideSummary(side.title, runtime.full_name, side.job.stack.version, side.precision, len(side.points))
