"""The segments that two networks have in common.

Both networks are cut into chains of single-entry, single-exit steps (`single_entry_exit`). Each step has a symbol for
all that it computes (`segment_symbols`), and common segments are common runs of symbols, found with a suffix automaton:
the longest one first, then the longest on either side of it. So segments do not overlap, and they do not cross: what
lies before a segment in A is never paired with what lies behind its partner in B. Greedy is not always the largest
cover, but it is quick, and the same on every call.

First come steps whose weights are equal too, then those of the same structure in the gaps that are left, then the same
inside steps that found no partner (one path of a residual block whose other path differs). Last come stretches of the
longest chain between two places where both networks have the same shapes but compute something else in between, such
as stage 3 of ResNet-50 and of ResNet-101. Those may overlap the segments before them, and are listed after them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, groupby, pairwise

from zoolens.base.numerics.sequence_alignment import best_pairs
from zoolens.findings.graph.ir.model import Graph, Shape
from zoolens.findings.graph.segments.segment import Common, Kind, Segment
from zoolens.findings.graph.segments.segment_symbols import Labels, Symbols, paired
from zoolens.findings.graph.segments.single_entry_exit import chains, homes, joined
from zoolens.findings.graph.segments.suffix_automaton import CommonRun, SuffixAutomaton
from zoolens.findings.graph.segments.weight_distance import WeightDistance, weight_distance

Line = list[Segment | None]  # the steps of one or more chains; None between two chains, where no run passes
Worth = Callable[[int, int], tuple[int, ...]]  # of a stretch of a line
Box = tuple[int, int, int, int]  # a stretch of either line: from and to in A, from and to in B


def common_segments(a: Graph, b: Graph, *, least: int = 2) -> tuple[Common, ...]:
    """What could stand in for each other, in order of computation in `a`; "same interface" ones come last.

    `least`: the fewest nodes that a segment has. Distances are known where both graphs carry weights.
    """
    symbols = Symbols()
    search = _Search(_Side(a, symbols), _Side(b, symbols), least)
    segments = sorted(search.runs(), key=lambda common: search.a.place[common.a.exit])
    return (*segments, *search.interfaces())


class _Side:
    """One of the two graphs: its chains by the step they lie in, and the labels of all steps."""

    def __init__(self, graph: Graph, symbols: Symbols) -> None:
        self.graph = graph
        self.place = {node.name: number for number, node in enumerate(graph.nodes)}
        self.inside = homes(chains(graph))
        steps = (step for held in self.inside.values() for chain in held for step in chain.steps)
        self.labels: dict[str, Labels] = {step.exit: symbols.of(graph, step) for step in steps}

    def line(self, exits: Sequence[str]) -> Line:
        """The chains that lie directly inside these steps, one after the other; of "" the outermost."""
        steps: Line = []
        for chain in (chain for exit_ in exits for chain in self.inside.get(exit_, ())):
            steps += [*chain.steps, None]
        return steps

    def trunk(self) -> Sequence[Segment]:
        return max((chain.steps for chain in self.inside.get("", ())), key=_nodes, default=())

    def numbers(self, line: Line, *, exact: bool, gap: int) -> list[int]:
        """The symbols of steps; between chains stand numbers that come once, counted from `gap` down in twos."""
        labels = [self.labels[step.exit] if step else None for step in line]
        return [
            gap - 2 * place if label is None else label.exact if exact else label.structure
            for place, label in enumerate(labels)
        ]

    def worth(self, line: Line, *, exact: bool) -> Worth:
        """What a stretch of a line is worth: its nodes, then its parameters. Where only weights count: its nodes that
        have some, then all."""
        sizes = [self._sizes(step, exact=exact) if step else (0, 0) for step in line]
        sums = [list(accumulate(values, initial=0)) for values in zip(*sizes, strict=True)]
        return lambda start, stop: tuple(total[stop] - total[start] for total in sums)

    def _sizes(self, step: Segment, *, exact: bool) -> tuple[int, int]:
        nodes = step.of(self.graph)
        if exact:
            return sum(1 for node in nodes if node.parameters), len(nodes)
        return len(nodes), sum(node.learned for node in nodes)

    def segment(self, line: Line, start: int, stop: int) -> Segment:
        return joined([step for step in line[start:stop] if step], self.place)


class _Search:
    def __init__(self, a: _Side, b: _Side, least: int) -> None:
        self.a, self.b, self.least = a, b, max(1, least)
        self.weighted = bool(a.graph.weights) and bool(b.graph.weights)

    # --- equal symbols

    def runs(self) -> Iterator[Common]:
        """Common segments of the outermost chains, and inside steps that found no partner there."""
        open_ = [(self.a.line([""]), self.b.line([""]))]
        while open_:
            line_a, line_b = open_.pop()
            if not line_a or not line_b:
                continue
            runs = self._matched(line_a, line_b)
            for run in _merged(runs):
                yield from self._by_kind(line_a, line_b, run)
            for a0, a1, b0, b1 in _gaps(runs, (0, len(line_a), 0, len(line_b))):
                open_.append((self.a.line(_exits(line_a[a0:a1])), self.b.line(_exits(line_b[b0:b1]))))

    def _matched(self, line_a: Line, line_b: Line) -> list[CommonRun]:
        """Steps with equal weights, then steps of equal structure between those, in order."""
        box = (0, len(line_a), 0, len(line_b))
        runs = self._tiled(line_a, line_b, [box], exact=True) if self.weighted else []
        runs += self._tiled(line_a, line_b, _gaps(sorted(runs, key=_place), box), exact=False)
        return sorted(runs, key=_place)

    def _tiled(self, line_a: Line, line_b: Line, boxes: Sequence[Box], *, exact: bool) -> list[CommonRun]:
        """The best run in each box, then the best before and behind it, until none is worth it."""
        ours = self.a.numbers(line_a, exact=exact, gap=-1)
        theirs = self.b.numbers(line_b, exact=exact, gap=-2)
        worth = self.b.worth(line_b, exact=exact)
        least = 1 if exact else self.least
        runs = []
        open_ = list(boxes)
        while open_:
            a0, a1, b0, b1 = open_.pop()
            best = SuffixAutomaton(ours[a0:a1]).best(theirs[b0:b1], _shifted(worth, b0))
            if best is None or worth(b0 + best.b, b0 + best.b + best.length)[0] < least:
                continue
            run = CommonRun(a0 + best.a, b0 + best.b, best.length)
            runs.append(run)
            open_ += _gaps([run], (a0, a1, b0, b1))
        return runs

    def _by_kind(self, line_a: Line, line_b: Line, run: CommonRun) -> Iterator[Common]:
        """A run, cut where its weights cease to be equal or near."""
        distances = [self._alike(line_a[run.a + i], line_b[run.b + i]) for i in range(run.length)]
        start = 0
        kinds = _kinds(distances, weighted=self.weighted)
        for place in range(run.length):
            if kinds[place] is not None and self._is_opaque(line_a[run.a + place]):
                kinds[place] = "not known"
        for kind, group in groupby(kinds):
            stop = start + len(list(group))
            if kind is not None:
                ours = self.a.segment(line_a, run.a + start, run.a + stop)
                theirs = self.b.segment(line_b, run.b + start, run.b + stop)
                total = sum((step for step in distances[start:stop] if step), WeightDistance(known=self.weighted))
                distance = None if kind == "not known" else total.distance
                if len(ours) >= self.least or kind == "not known":
                    yield Common(ours, theirs, kind, distance)
            start = stop

    def _is_opaque(self, step: Segment | None) -> bool:
        return step is not None and any(node.op == "unknown" for node in step.of(self.a.graph))

    def _alike(self, ours: Segment | None, theirs: Segment | None) -> WeightDistance | None:
        """The distance of two steps' weights; None where two steps of one symbol turn out not to be the same graph."""
        if ours is None or theirs is None:
            return None
        a = self.a
        b = self.b
        pairs = paired((a.graph, ours, a.labels[ours.exit]), (b.graph, theirs, b.labels[theirs.exit]))
        if pairs is None:
            return None
        return weight_distance(a.graph, b.graph, pairs, weighted=self.weighted)

    # --- equal shapes

    def interfaces(self) -> Iterator[Common]:
        """Stretches of both trunks between shapes that both have in that order, where what is between differs."""
        trunk_a = self.a.trunk()
        trunk_b = self.b.trunk()
        for (a0, b0), (a1, b1) in pairwise(_common(_turns(self.a.graph, trunk_a), _turns(self.b.graph, trunk_b))):
            ours = trunk_a[a0:a1]
            theirs = trunk_b[b0:b1]
            whole = len(ours) == len(trunk_a) and len(theirs) == len(trunk_b)  # that would be the other network itself
            if not whole and self._differ(ours, theirs) and min(_nodes(ours), _nodes(theirs)) >= self.least:
                yield Common(joined(ours, self.a.place), joined(theirs, self.b.place), "same interface")

    def _differ(self, ours: Sequence[Segment], theirs: Sequence[Segment]) -> bool:
        mine = [self.a.labels[step.exit].structure for step in ours]
        return mine != [self.b.labels[step.exit].structure for step in theirs]


def _nodes(steps: Sequence[Segment]) -> int:
    return sum(map(len, steps))


def _exits(line: Line) -> list[str]:
    return [step.exit for step in line if step]


def _place(run: CommonRun) -> int:
    return run.a


def _shifted(worth: Worth, by: int) -> Worth:
    return lambda start, stop: worth(by + start, by + stop)


def _gaps(runs: Sequence[CommonRun], box: Box) -> list[Box]:
    """What is left of a box before, between and behind runs, where something is left on both sides."""
    a, a_end, b, b_end = box
    boxes = []
    for run in (*runs, CommonRun(a_end, b_end, 0)):
        if a < run.a and b < run.b:
            boxes.append((a, run.a, b, run.b))
        a = run.a + run.length
        b = run.b + run.length
    return boxes


def _merged(runs: Sequence[CommonRun]) -> list[CommonRun]:
    """Runs that touch on both sides as one."""
    merged: list[CommonRun] = []
    for run in runs:
        last = merged[-1] if merged else None
        if last and (last.a + last.length, last.b + last.length) == (run.a, run.b):
            merged[-1] = CommonRun(last.a, last.b, last.length + run.length)
        else:
            merged.append(run)
    return merged


def _kinds(distances: Sequence[WeightDistance | None], *, weighted: bool) -> list[Kind | None]:
    """The kind of every step. One without parameters has that of the step before it, else that of the next one."""
    plain: Kind = "equal weights" if weighted else "same structure"
    own: list[Kind | None] = [step.kind if step and step.parameters else None for step in distances]
    forwards = range(1, len(own))
    backwards = range(len(own) - 2, -1, -1)
    for place in (*forwards, *backwards):
        before = own[place - 1] if place else None
        after = own[place + 1] if place + 1 < len(own) else None
        own[place] = own[place] or before or after
    return [(kind or plain) if step else None for kind, step in zip(own, distances, strict=True)]


def _turns(graph: Graph, trunk: Sequence[Segment]) -> list[tuple[Shape, int]]:
    """The shapes along a trunk, each with the last place it has before it changes; places lie between steps."""
    values = [*(step.entry for step in trunk[:1]), *(step.exit for step in trunk)]
    turns: list[tuple[Shape, int]] = []
    for place, value in enumerate(values):
        shape = graph.by_name[value].shape
        if turns and turns[-1][0] == shape:
            turns.pop()
        turns.append((shape, place))
    return turns


def _common(turns_a: Sequence[tuple[Shape, int]], turns_b: Sequence[tuple[Shape, int]]) -> list[tuple[int, int]]:
    """Places of the longest sequence of shapes that both have in the same order."""

    def same_shape(ours: tuple[Shape, int], theirs: tuple[Shape, int]) -> float:
        return float(ours[0] == theirs[0])

    pairs = best_pairs(turns_a, turns_b, same_shape)
    return [(ours[1], theirs[1]) for ours, theirs in pairs if ours and theirs]
