"""Two traces side by side: which layers make the difference, by how much, and what computes them on either side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from zoolens.base.errors import ZoolensError
from zoolens.base.present.figures import NOTHING, figure
from zoolens.base.present.results import Result, frame
from zoolens.base.present.tables import Column, Table
from zoolens.base.statistics.intervals import Interval, median_difference
from zoolens.base.store.json_columns import json_value
from zoolens.base.store.records import Run
from zoolens.base.store.store import Store
from zoolens.findings.tracing.alignment import AlignedLayers, Group, align_layers
from zoolens.findings.tracing.families import only_moves
from zoolens.findings.tracing.report import median_words, share_words, short_name
from zoolens.findings.tracing.spans import Level
from zoolens.findings.tracing.stored import SUMS_UP, Trace, load_trace
from zoolens.findings.tracing.trace_coverage import layer_coverage
from zoolens.findings.tracing.trace_layers import ObservedCalls, Samples, Timing, TracedLayer, timing

TOP: Final = 10


@dataclass(frozen=True)
class LayerDifference:
    """What one group of operators takes on both sides, in seconds; None: this side has no layer for it. `layers_a` and
    `layers_b`: the layers that compute it."""

    name: str
    nodes: tuple[str, ...]
    a: Timing | None
    b: Timing | None
    difference: float
    interval: Interval
    computed_a: str
    computed_b: str
    layers_a: tuple[TracedLayer, ...] = ()
    layers_b: tuple[TracedLayer, ...] = ()

    @property
    def sure(self) -> bool:
        """Whether the interval tells which side is slower."""
        return not self.interval.contains(0.0)


@dataclass(frozen=True, repr=False)
class TraceComparison(Result):
    """`call` is of the calls without a profiler, and `profiled` of those in which the layers were timed. `differences`
    come with the largest first. `rest`: what the profiled calls differ by beyond them, in no layer."""

    a: Trace
    b: Trace
    by: str
    reason: str
    call: LayerDifference
    profiled: LayerDifference
    differences: tuple[LayerDifference, ...]
    rest: float

    def frame(self) -> Any:
        """Returns a pandas DataFrame with a row for each group of operators, the largest difference first; seconds."""
        rows = [
            {
                "layer": one.name,
                "a": None if one.a is None else one.a.median,
                "b": None if one.b is None else one.b.median,
                "difference": one.difference,
                "low": one.interval.low,
                "high": one.interval.high,
                "sure": one.sure,
            }
            for one in self.differences
        ]
        return frame(rows, "TraceComparison.frame")

    @property
    def layers(self) -> float:
        """What all differences of layers sum to, in seconds."""
        return sum(row.difference for row in self.differences)

    @property
    def explained(self) -> bool:
        """Whether the layers explain why one side is slower: the calls are known to differ, the profilers change that
        difference by no more than half of it, and so little of it is in no layer."""
        if not self.call.sure or not self.profiled.difference:
            return False
        like_unprofiled = 0.5 <= self.profiled.difference / self.call.difference <= 1.5
        return like_unprofiled and abs(self.rest / self.profiled.difference) <= 0.5


def compare_traces(
    a: Trace | Run | str,
    b: Trace | Run | str,
    *,
    store: Store | str | Path | None = None,
    aligned: AlignedLayers | None = None,
) -> TraceComparison:
    """Align two traces by layer, and say which layers make the difference. Traces are given as they are, or as
    `load_trace` takes them. `aligned`: their layers side by side, where that is known already. ZoolensError where one
    of them has no layers."""
    left, right = (given if isinstance(given, Trace) else load_trace(given, store=store) for given in (a, b))
    for trace in (left, right):
        if trace.layer is None or not trace.layers:
            raise ZoolensError(
                f"The trace of {trace.title} has no layers.",
                hint=trace.missing.get(Level.LAYER) or "Trace it again with --level layer.",
            )
    assert left.layer is not None  # as was just checked
    assert right.layer is not None
    aligned = aligned or align_layers(left, right)
    differences = sorted(_differences(aligned, left.layer, right.layer), key=lambda row: -abs(row.difference))
    assert left.unlayered is not None  # a trace with layers has calls beside them
    assert right.unlayered is not None
    profiled = _call(left.layer.calls, right.layer.calls)
    return TraceComparison(
        left,
        right,
        aligned.by,
        aligned.reason,
        _call(left.unlayered, right.unlayered),
        profiled,
        tuple(differences),
        profiled.difference - sum(row.difference for row in differences),
    )


def _differences(aligned: AlignedLayers, a: ObservedCalls, b: ObservedCalls) -> Iterator[LayerDifference]:
    for group in aligned.groups:
        yield _difference(_group_name(group), group.nodes_a or group.nodes_b, group.a, group.b, a, b)
    for kind in dict.fromkeys(layer.kind for layer in (*aligned.only_a, *aligned.only_b)):
        from_a, from_b = ([layer for layer in side if layer.kind == kind] for side in (aligned.only_a, aligned.only_b))
        name = f"{kind}: change of layout or type" if only_moves(kind) else f"{kind} of no known operator"
        yield _difference(name, (), from_a, from_b, a, b)


def _difference(
    name: str,
    nodes: Sequence[str],
    from_a: Sequence[TracedLayer],
    from_b: Sequence[TracedLayer],
    a: ObservedCalls,
    b: ObservedCalls,
) -> LayerDifference:
    samples_a, samples_b = _summed(from_a, a), _summed(from_b, b)
    timing_a = timing(samples_a, a.clean) if from_a else None
    timing_b = timing(samples_b, b.clean) if from_b else None
    medians = [0.0 if times is None else times.median for times in (timing_a, timing_b)]
    return LayerDifference(
        name,
        tuple(nodes),
        timing_a,
        timing_b,
        medians[1] - medians[0],
        median_difference(_used(samples_a, a, timing_a), _used(samples_b, b, timing_b)),
        _computed(from_a),
        _computed(from_b),
        tuple(from_a),
        tuple(from_b),
    )


def _call(left: Timing, right: Timing) -> LayerDifference:
    """The calls as a whole."""
    low = -np.inf if right.low is None or left.high is None else right.low - left.high
    high = np.inf if right.high is None or left.low is None else right.high - left.low
    return LayerDifference("predict", (), left, right, right.median - left.median, Interval(low, high), "", "")


def _summed(layers: Sequence[TracedLayer], observed: ObservedCalls) -> Samples:
    return np.asarray(np.nansum([np.zeros(len(observed.clean)), *(layer.samples for layer in layers)], axis=0))


def _used(samples: Samples, observed: ObservedCalls, times: Timing | None) -> Samples:
    """The repetitions that a side's median is of; all of them where the side has no layer and all samples are zero."""
    return samples if times is None or times.disturbed else samples[observed.clean]


def _group_name(group: Group) -> str:
    """The operators of A, and those of B where they are called otherwise: of the same file both name the same ones."""
    names = [_nodes_words(nodes) for nodes in (group.nodes_a, group.nodes_b) if nodes]
    same = set(group.nodes_a) & set(group.nodes_b) or len(names) == 1
    return names[0] if same else " ↔ ".join(names)


def _nodes_words(nodes: Sequence[str]) -> str:
    if len(nodes) <= 3:
        return " + ".join(short_name(node, 40) for node in nodes)
    return f"{short_name(nodes[0], 30)} … {short_name(nodes[-1], 30)} ({len(nodes)} operators)"


def _computed(layers: Sequence[TracedLayer]) -> str:
    """What computes some layers: kernel and precision, else the kind of operator."""
    words = [
        " ".join(dict.fromkeys(word for word in (layer.kernel or layer.kind, layer.precision) if word))
        for layer in layers
    ]
    counted = {word: words.count(word) for word in words}
    return " + ".join(word if count == 1 else f"{count} × {word}" for word, count in counted.items())


# --- in words


def sentences(comparison: TraceComparison) -> Iterator[str]:
    a, b, call = comparison.a, comparison.b, comparison.call
    assert call.a is not None
    assert call.b is not None
    slower = call.b.median / call.a.median if call.a.median else float("inf")
    ratio = f"it takes {slower:.2f} times as long" if slower >= 1 else f"it is {1 / slower:.2f} times as fast"
    yield (
        f"{b.title} takes {median_words(call.b)} where {a.title} takes {median_words(call.a)}: "
        f"{ratio if call.sure else 'the repetitions do not show which of them is slower'}."
    )
    yield from _other_settings(a, b)
    leading = [row for row in comparison.differences[:3] if row.sure and (row.difference > 0) == (call.difference > 0)]
    for row in leading:
        yield f"{row.name}: {_change(row, comparison.by)}."
    met = {
        "file": "Layers are matched by the operators of the file, joined where a runtime fuses them.",
        "graph": f"The files differ: layers are matched through the aligned graphs of both. {comparison.reason}",
        "kind": f"Layers are only matched by their kind: {comparison.reason}.",
    }
    yield met[comparison.by]
    for side, trace in (("A", a), ("B", b)):
        if trace.covered is not None and abs(trace.covered - 1) > SUMS_UP:
            yield f"In {side} ({trace.runtime}) the layers sum to {100 * trace.covered:.0f} % of their call."
    yield (
        f"The differences of all layers sum to {_signed(comparison.layers)}. The profiled calls differ by "
        f"{_signed(comparison.profiled.difference)}, so that {_signed(comparison.rest)} is in no layer; the calls "
        f"without a profiler differ by {_signed(call.difference)} {_bounds(call.interval)}."
    )
    if call.sure and not comparison.explained:
        yield (
            "So the profiled layers do not explain the difference: what the profilers cost, or the time in no layer, "
            "is larger. A larger batch or model shows more."
        )


def _other_settings(a: Trace, b: Trace) -> Iterator[str]:
    """What else differs between two traces and changes times, whatever the runtimes are."""
    for trace in (a, b):
        if trace.unlayered is not None and trace.unlayered.disturbed:
            yield f"Other processes disturbed the calls of {trace.title}: waiting for a core is in its times."
    machines = [trace.run.stack.identity.get("machine", {}) for trace in (a, b)]
    if machines[0] != machines[1]:
        yield "The two traces were made on different machines: differences are those of the machines, too."
    if a.batch != b.batch:
        yield f"A batch of {a.batch} is compared with a batch of {b.batch}."
    if a.threads != b.threads:
        words = [f"{trace.threads} threads" if trace.threads else "its own number of threads" for trace in (a, b)]
        yield f"The first ran with {words[0]}, the second with {words[1]}."
    if a.inputs != b.inputs:
        yield f"The inputs differ: {a.inputs} and {b.inputs}."


def _change(row: LayerDifference, by: str) -> str:
    before, after = map(median_words, (row.a, row.b))
    absent = "no matching operator" if by == "graph" else "no layer of its own"
    computed = [words or absent for words in (row.computed_a, row.computed_b)]
    how = f", {' → '.join(computed)}" if row.computed_a != row.computed_b else ""
    return f"{before} → {after} ({_signed(row.difference)} {_bounds(row.interval)}){how}"


def _signed(seconds: float) -> str:
    if not np.isfinite(seconds):
        return "+∞" if seconds > 0 else "−∞"
    return f"{'+' if seconds >= 0 else '−'}{figure(abs(seconds), 's')}"


def _bounds(interval: Interval) -> str:
    return f"[{_signed(interval.low)}, {_signed(interval.high)}]"


def comparison_table(comparison: TraceComparison, top: int | None = TOP) -> Table:
    columns = (
        Column("operators", keep=9),
        Column(f"A {comparison.a.runtime}", "number", keep=8),
        Column(f"B {comparison.b.runtime}", "number", keep=8),
        Column("difference [95 %]", "number", keep=9),
        Column("share", "number", keep=5),
        Column("computed by", folds=True, keep=6),
    )
    # Else a share would say nothing.
    whole = comparison.profiled.difference if comparison.explained else None
    rows = comparison.differences if top is None else comparison.differences[:top]
    cells: list[tuple[Any, ...]] = []
    for row in rows:
        mark = "" if row.sure else " (unclear)"
        same = row.computed_a == row.computed_b
        cells.append(
            (
                row.name,
                median_words(row.a),
                median_words(row.b),
                f"{_signed(row.difference)} {_bounds(row.interval)}{mark}",
                share_words(row.difference / whole if whole else None).replace("-", "−"),
                row.computed_a if same else f"{row.computed_a or NOTHING} → {row.computed_b or NOTHING}",
            )
        )
    if len(rows) < len(comparison.differences):
        left = comparison.differences[len(rows) :]
        more = sum(row.difference for row in left)
        share = share_words(more / whole if whole else None).replace("-", "−")
        cells.append((f"{len(left)} more", "", "", _signed(more), share, ""))
    share = share_words(comparison.rest / whole if whole else None).replace("-", "−")
    cells.append(("in no layer", "", "", _signed(comparison.rest), share, ""))
    return Table("comparison", columns, tuple(cells))


def comparison_as_data(comparison: TraceComparison) -> dict[str, Any]:
    return {
        "a": _side_data(comparison.a),
        "b": _side_data(comparison.b),
        "matched_by": comparison.by,
        "reason": comparison.reason or None,
        "predict": _row_data(comparison.call),
        "profiled": _row_data(comparison.profiled),
        "differences": [_row_data(row) for row in comparison.differences],
        "rest_seconds": comparison.rest,
        "explained": comparison.explained,
        "notes": list(sentences(comparison)),
    }


def _side_data(trace: Trace) -> dict[str, Any]:
    coverage = layer_coverage(trace).as_data()
    return {"run": trace.run.id, "title": trace.title, "layers_share": trace.covered, "coverage": coverage}


def _row_data(row: LayerDifference) -> dict[str, Any]:
    return {
        "name": row.name,
        "nodes": list(row.nodes),
        "a": None if row.a is None else row.a.as_data,
        "b": None if row.b is None else row.b.as_data,
        "difference_seconds": row.difference,
        "low": json_value(row.interval.low),
        "high": json_value(row.interval.high),
        "sure": row.sure,
        "computed_a": row.computed_a or None,
        "computed_b": row.computed_b or None,
    }
