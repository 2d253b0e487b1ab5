"""`diverge`: two sides on the same dataset, from their answers down to the layer where they diverge and the cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from zoolens.base.engine.executors.current_executor import current_executor
from zoolens.base.errors import ModelError, ZoolensError
from zoolens.base.numerics.deviation import deviation_of_finite, first_beyond
from zoolens.base.progress import Progress, Silent
from zoolens.base.store.store import Store
from zoolens.findings.divergence.adding_up import adding_up
from zoolens.findings.divergence.alignment import Aligned, NodePair, aligned
from zoolens.findings.divergence.answer_causes import ASSUMED_FLOOR, causes_from_answers, random_causes, token_causes
from zoolens.findings.divergence.divergence_answers import AnswerPairs, comparable, compare_answers, compared_kind
from zoolens.findings.divergence.divergence_causes import Cause, Kind, label_of
from zoolens.findings.divergence.divergence_coverage import OTHER_TOKENS, layers_understood, not_compared
from zoolens.findings.divergence.diverging_elsewhere import Comparison, compare_elsewhere, compare_here
from zoolens.findings.divergence.examined import Exact, ExaminedInput
from zoolens.findings.divergence.file_causes import causes_of_files, not_finite_in_files
from zoolens.findings.divergence.file_tensors import FileTensors, compared_tensors, tensors_of
from zoolens.findings.divergence.holes import holes_of
from zoolens.findings.divergence.inspection import InspectedLayer, inspect, worst_layer
from zoolens.findings.divergence.named_sides import name_sides
from zoolens.findings.divergence.named_tensors import tensors_of_one_name
from zoolens.findings.divergence.points import alike
from zoolens.findings.divergence.remarks import said_of, said_of_answers
from zoolens.findings.divergence.result import Divergence, LayerFacts, SideSummary, is_beyond
from zoolens.findings.divergence.runtime_causes import causes_of_runtime
from zoolens.findings.divergence.side_graphs import same_files, with_borrowed_graph, with_graph, with_points
from zoolens.findings.divergence.sides import Side, open_side
from zoolens.findings.divergence.trunk import trunk_of
from zoolens.findings.graph.ir.model import Graph
from zoolens.findings.measure.jobs import Job
from zoolens.findings.measure.named_runs import NamedRun, run_text
from zoolens.inventory.datasets.dataset import Dataset
from zoolens.inventory.datasets.opening import Data, absolute_spec, named_data, open_dataset

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
    a: NamedRun,
    b: NamedRun,
    data: Data | None = None,
    *,
    limit: int | None = None,
    seed: int | None = None,
    examined: int = EXAMINED,
    memory: int = MEMORY,
    store: Store | str | Path | None = None,
    allow_code: bool = False,
    progress: Progress | None = None,
) -> Divergence:
    """Compare two environments on the same inputs: MODEL@RUNTIME:options each, or stored runs with their datasets.

    All inputs are answered by both; `examined` of them, the worst, are looked at layer by layer, with at most `memory`
    bytes for the tensors that are compared at a time (the models themselves come on top).
    """
    asked = Comparison((run_text(a), run_text(b)), named_data(data, limit, seed), examined, memory, allow_code)
    executor = current_executor()
    if executor.elsewhere:
        return compare_elsewhere(executor, asked, store, progress or Silent())
    return _compared(asked, store, progress or Silent())


def diverge_here(job: Mapping[str, Any]) -> dict[str, Any]:
    """Runs on the node: a comparison that another machine asks for."""
    return compare_here(job, _compared)


def _compared(asked: Comparison, store: Store | str | Path | None, progress: Progress) -> Divergence:
    named = name_sides(
        asked.names, asked.data, store, entries=asked.entries, allow_code=asked.allow_code, progress=progress
    )
    inputs = named.inputs
    with closing(open_dataset(inputs.data, limit=inputs.limit, seed=inputs.seed)) as dataset:
        notes = [*named.version_notes(), *named.dataset_notes(dataset)]
        result = diverge_jobs(*named.jobs, dataset, examined=asked.examined, memory=asked.memory, progress=progress)
        fingerprint = dataset.fingerprint()
    origin = replace(inputs, data=absolute_spec(inputs.data))
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


@dataclass(frozen=True)
class _Asked:
    """What every step of a comparison needs besides the two sides."""

    dataset: Dataset
    answers: AnswerPairs
    chosen: Sequence[int]  # inputs to examine, the worst first
    memory: int
    progress: Progress


def _diverge(a: Side, b: Side, dataset: Dataset, count: int, memory: int, progress: Progress) -> Divergence:
    answers = compare_answers(a, b, dataset, progress)
    asked = _Asked(dataset, answers, _worst(answers, count), memory, progress)
    random = random_causes((a, b), asked.chosen[0])
    if random:
        # No proof holds for a side that answers differently each time, so nothing else is looked for.
        return replace(_by_answers(a, b, asked), causes=random)
    if answers.other_shapes:
        return _by_tokens(a, b, asked)
    a, b = _with_graphs(a, b, asked)
    result = _explained(a, b, asked)
    result = _with_tensors(result, _file_tensors(a, b))
    farthest_first = sorted(answers.others, key=lambda output: -output.relative_error)
    for other in farthest_first[:_OTHER_OUTPUTS]:
        if is_beyond(result.relative_error, result.floor) or not other.relative_error:
            break
        watched_a = replace(a, focus=other.a)
        watched_b = replace(b, focus=other.b)
        again = _explained(watched_a, watched_b, replace(asked, chosen=[other.worst]))
        if is_beyond(other.relative_error, again.floor):
            result = replace(again, output=other, tensors=result.tensors)
    return result


def _file_tensors(a: Side, b: Side) -> FileTensors | None:
    """The constants of two files beside each other; None where it is one file, or where one cannot be read."""
    if same_files(a.job, b.job):
        return None
    ours = tensors_of(a)
    theirs = tensors_of(b)
    if ours is None or theirs is None:
        return None
    return compared_tensors(ours, theirs)


def _with_tensors(result: Divergence, tensors: FileTensors | None) -> Divergence:
    """The result with the constants of both files; where nothing else explains the difference, they are suspected."""
    result = replace(result, tensors=tensors)
    if tensors is None or not tensors.changed:
        return result
    unexplained = result.causes and all(cause.kind is Kind.UNEXPLAINED for cause in result.causes)
    inside = result.causes == (_INSIDE,)
    # With a measured floor the files were computed exactly, and changed constants did not explain the answers.
    exonerated = result.measured_floor and not inside
    if not unexplained or exonerated:
        return result
    words = next(iter(tensors.sentences)).rstrip(".")
    why = "they move layers inside and no examined answer" if inside else "what they do to the answers was not computed"
    return replace(result, causes=(Cause(Kind.WEIGHTS, words, withdrawn=(why,)),))


def _explained(a: Side, b: Side, asked: _Asked) -> Divergence:
    """Return the difference of the watched output, examined layer by layer on the chosen inputs."""
    if a.graph is None or b.graph is None:
        return _by_answers(a, b, asked)
    examined = [_examine(a, b, index) for index in asked.chosen]
    try:
        graphs = aligned(a.graph, b.graph)
        a, b, graphs = _with_points(a, b, graphs, asked.chosen[0])
        examined = _fitting(a, b, examined)
        examined = _inspected(a, b, graphs, examined, asked)
        exact = {example.index: Exact.of(a, b, example, compared_kind(a, b)) for example in examined}
    except ZoolensError as error:
        return _by_answers(a.noting(f"The layers could not be compared: {error.message}"), b, asked)
    worst = examined[0]
    exact_worst = exact[worst.index]
    layers = _worst_layers(examined, graphs, a.raw)
    floor = exact_worst.floor_between(a, b)
    borrowed = a.borrowed or b.borrowed
    # Where graphs differ, or one is not known, which layers stand beside each other is a guess: answers outweigh it.
    certain = graphs.same_structure and not borrowed
    guessed = not certain and not is_beyond(asked.answers.relative_error, floor)
    whole = not borrowed and exact_worst.scores is None
    result = Divergence(
        a=_facts(a),
        b=_facts(b),
        data=asked.dataset.name,
        answers=asked.answers,
        floor=floor,
        measured_floor=True,
        layers=layers,
        first=None if guessed else _first(layers),
        parts=exact_worst.parts(a, b, worst) if whole else None,
        causes=(),
        examined=tuple(example.index for example in examined),
        notes=(*a.notes, *b.notes),
        memory=asked.memory,
        understood=layers_understood(a, b),
    )
    difference = _watched_difference(a, b, worst)
    differs = result.differs or (a.focus is not None and is_beyond(difference, floor))
    causes, remarks = _causes(a, b, graphs, examined, exact, differs)
    notes = [*result.notes, *said_of(examined), *remarks]
    notes += not_finite_in_files((a, b), examined, exact)
    notes += said_of_answers(asked.answers, floor)
    return replace(result, causes=adding_up(causes, difference, floor), notes=tuple(notes))


def _watched_difference(a: Side, b: Side, examined: ExaminedInput) -> float:
    """Return the relative difference of the watched outputs on one input."""
    kind = compared_kind(a, b)
    ours, theirs = (comparable(side, answer, kind) for side, answer in zip((a, b), examined.answers, strict=True))
    return deviation_of_finite(theirs, ours).error


def _with_graphs(a: Side, b: Side, asked: _Asked) -> tuple[Side, Side]:
    """Return both sides with their graphs; one that cannot be read is held against the other's if that fits."""
    index = asked.chosen[0]
    a = with_graph(a, a.feeds(index))
    b = with_graph(b, b.feeds(index), a)
    if asked.answers.compared != "raw outputs":
        return a, b
    if a.graph is None and b.graph is not None:
        a = with_borrowed_graph(a, b, index, asked.memory)
    elif b.graph is None and a.graph is not None:
        b = with_borrowed_graph(b, a, index, asked.memory)
    return a, b


def _with_points(a: Side, b: Side, graphs: Aligned, index: int) -> tuple[Side, Side, Aligned]:
    """Both sides with the tensors that they show, found in the graphs as they were aligned."""
    a = replace(a, graph=graphs.a)
    b = replace(b, graph=graphs.b)
    shared = graphs.a is graphs.b
    known = None
    owner = b if a.borrowed else a
    if shared and a.raw is b.raw and owner.raw is not None:
        known = alike(owner.raw, graphs.a, owner.real_inputs(owner.feeds(index)))
    a = a if a.borrowed else with_points(a, index, known)
    b = b if b.borrowed else with_points(b, index, known)
    if shared:  # one object, by which it is known that both have the same graph
        graph = b.graph if a.borrowed else a.graph
        a = replace(a, graph=graph)
        b = replace(b, graph=graph)
    assert a.graph is not None
    assert b.graph is not None
    return a, b, replace(graphs, a=a.graph, b=b.graph)


def _first(layers: Sequence[LayerFacts]) -> LayerFacts | None:
    both = [(fact, fact.layer.between) for fact in layers]
    return first_beyond((fact, between, fact.layer.floor) for fact, between in both if between is not None)


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
    of_runtimes = [*causes_of_runtime(a, 0, examined, exact), *causes_of_runtime(b, 1, examined, exact)]
    if differs:
        moved = is_beyond(_watched_difference(a, b, worst), exact[worst.index].floor_between(a, b))
        nothing_found = _UNEXPLAINED if moved else _INSIDE
        return tuple([*files, *of_runtimes] or [nothing_found]), []
    if files or not of_runtimes:
        return tuple(files), []
    words = "; ".join(cause.words for cause in of_runtimes)
    if len({cause.side for cause in of_runtimes}) > 1:
        return (), [f"The two agree within rounding, but neither computes exactly what its file says: {words}."]
    return (), [f"One side does not compute what its file says, which moves no answer beyond rounding: {words}."]


def _by_answers(a: Side, b: Side, asked: _Asked) -> Divergence:
    """Return the comparison of answers alone, where layers cannot be compared."""
    worst = asked.chosen[0]
    layers = tensors_of_one_name(a, b, worst, asked.memory, ASSUMED_FLOOR)
    compared = f"{len(layers)} tensors that both show under one name are compared, and not layers."
    notes = [compared if layers else "Only answers are compared, not layers.", *a.notes, *b.notes]
    notes += said_of_answers(asked.answers, ASSUMED_FLOOR)
    result = Divergence(
        a=_facts(a),
        b=_facts(b),
        data=asked.dataset.name,
        answers=asked.answers,
        floor=ASSUMED_FLOOR,
        measured_floor=False,
        layers=layers,
        first=_first(layers),
        parts=None,
        causes=(),
        examined=(worst,),
        notes=tuple(notes),
        memory=asked.memory,
        understood=not_compared(a, b),
    )
    examined = _examine(a, b, worst)
    differs = result.differs or (a.focus is not None and _watched_difference(a, b, examined) > ASSUMED_FLOOR)
    return replace(result, causes=tuple(causes_from_answers(a, b, [examined], ASSUMED_FLOOR))) if differs else result


def _by_tokens(a: Side, b: Side, asked: _Asked) -> Divergence:
    """Return the comparison of two sides that read a text as different counts of tokens: no layer of one stands beside
    one of the other."""
    other = asked.answers.first_of_other_shape
    causes = token_causes(a, b, _examine(a, b, other), ASSUMED_FLOOR)
    return replace(_by_answers(a, b, replace(asked, chosen=[other])), causes=causes, understood=OTHER_TOKENS)


def _worst(answers: AnswerPairs, count: int) -> list[int]:
    """Return the inputs to examine: the one whose answers differ most, then flipped ones, then the others."""
    worst, *others = sorted(answers.rows, key=lambda row: (-row.deviation.error, row.index))
    flipped_first = sorted(others, key=lambda row: not row.flips)
    ordered = [worst, *flipped_first]
    return [row.index for row in ordered[: max(1, count)]]


def _examine(a: Side, b: Side, index: int) -> ExaminedInput:
    feeds_a = a.feeds(index)
    feeds_b = b.feeds(index)
    answers = a.answer(feeds_a), b.answer(feeds_b)
    return ExaminedInput(index, (feeds_a, feeds_b), answers)


def _inspected(
    a: Side, b: Side, graphs: Aligned, examined: Sequence[ExaminedInput], asked: _Asked
) -> list[ExaminedInput]:
    pairs = [pair for pair in graphs.pairs if pair.a in a.points or pair.b in b.points]
    if not pairs:
        return list(examined)
    asked.progress.begin("layers", "comparing", len(examined))
    inspected = []
    try:
        for example in examined:
            inspection = inspect(example.view(a, 0), example.view(b, 1), pairs, asked.memory)
            inspected.append(replace(example, inspection=inspection))
            asked.progress.advance(1)
    finally:
        asked.progress.end()
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
        if example.inspection is None:
            continue
        for layer in example.inspection.layers:
            by_pair.setdefault(layer.pair, []).append(layer)
    trunk = trunk_of(graphs.a)
    facts = []
    for pair, layers in by_pair.items():
        worst = worst_layer(layers)
        # Where structures differ, which values stand beside each other is a guess.
        known = worst if graphs.same_structure else replace(worst, files=None)
        facts.append(LayerFacts(label_of(graphs.a, pair.a), known, pair.a in trunk))
    if not holes_of(graphs.a) or raw is None:
        return tuple(facts)
    place = {node.name: number for number, node in enumerate(raw.nodes)}  # what goes into a hole stands before it
    return tuple(sorted(facts, key=lambda fact: place.get(fact.layer.pair.a, len(place))))


def _facts(side: Side) -> SideSummary:
    runtime = side.job.runtime
    return SideSummary(side.title, runtime.full_name, side.job.stack.version, side.precision, len(side.points))
