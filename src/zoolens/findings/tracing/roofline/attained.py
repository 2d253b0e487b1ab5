"""Each layer of a trace against the peaks of the machine: what it attained, what bounds it, how long it must take.

Operations and bytes are counted on the canonical graph by the rules of `graph.cost`. A layer reads what comes into it
and its weights once, and writes what others use: what stays inside a fused layer is not moved. Bytes come from where
the whole model fits: a small one from a cache, a large one from main memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.engine.machine import describe_machine
from zoolens.base.errors import ZoolensError
from zoolens.base.present.figures import NOTHING, figure
from zoolens.base.store.records import fingerprint
from zoolens.base.store.store import Store
from zoolens.base.verdicts import at_least
from zoolens.findings.graph.cost.cost import cost
from zoolens.findings.graph.ir.model import Node
from zoolens.findings.graph.ir.vocabulary import LEAVES, VIEWS
from zoolens.findings.measure.lock import accelerator_identity
from zoolens.findings.tracing.alignment import JoinedNames, innermost_layers
from zoolens.findings.tracing.families import family, only_moves
from zoolens.findings.tracing.operators import TracedGraph, traced_graph
from zoolens.findings.tracing.report import short_name
from zoolens.findings.tracing.roofline.peaks import Peaks, machine_peaks
from zoolens.findings.tracing.spans import Level
from zoolens.findings.tracing.stored import SUMS_UP, Trace
from zoolens.findings.tracing.trace_layers import TracedLayer, timing

WIDTHS: Final[Mapping[str, int]] = {
    "float64": 8, "float32": 4, "tf32": 4, "bfloat16": 2, "float16": 2, "int8": 1, "uint8": 1,
}  # fmt: skip
BEYOND: Final = 1.05  # efficiency from which on a layer is said to beat the peaks
MOST_SAVED: Final = 5.1  # times fewer operations than counted, in F(6×6, 3×3), the largest variant of Winograd in use
_NOT_MOVED: Final = VIEWS | LEAVES


@dataclass(frozen=True)
class RoofLayer:
    """One layer, or several that compute one node of the graph together, against the peaks."""

    layer: TracedLayer
    precision: str
    flops: int
    moved_bytes: int
    best: float  # the seconds that it takes at least
    bound: str  # "compute" or "memory", whichever takes longer; "nothing" for a mere view of a value
    assumed: bool = False  # the framework does not report the precision: float32 was assumed

    @property
    def seconds(self) -> float:
        return self.layer.timing.median

    @property
    def flops_per_second(self) -> float:
        return self.flops / self.seconds if self.seconds else 0.0

    @property
    def bytes_per_second(self) -> float:
        return self.moved_bytes / self.seconds if self.seconds else 0.0

    @property
    def intensity(self) -> float:
        return self.flops / self.moved_bytes if self.moved_bytes else 0.0

    @property
    def efficiency(self) -> float | None:
        """The best time as a share of the measured one; None where nothing has to be done."""
        return self.best / self.seconds if self.seconds and self.best else None

    @property
    def absurd(self) -> bool:
        """Whether no kernel can be so quick: what was counted for this layer, or its time, must be wrong."""
        return (self.efficiency or 0) > MOST_SAVED


@dataclass(frozen=True)
class Roofline:
    """The roofline of a trace: the least time of its layers beside the measured time."""

    trace: Trace
    peaks: Peaks
    layers: tuple[RoofLayer, ...]
    uncounted: tuple[TracedLayer, ...]  # layers whose operations and bytes are unknown
    working_set: int  # bytes of weights and activations, which decide the cache level
    bandwidth: float  # bytes per second at that level
    best: float  # sum over all operators of the graph
    measured: float  # the call without a profiler
    unknown: Mapping[str, int]  # operators of the graph that could not be counted

    @property
    def efficiency(self) -> float | None:
        return self.best / self.measured if self.measured else None


def roofline(trace: Trace, *, store: Store | str | Path | None = None, peaks: Peaks | None = None) -> Roofline:
    """Hold a trace against the peaks of the machine that it was made on, which must be this one. ZoolensError where
    that is another machine, the trace has no layers, or no graph of the model can be read."""
    if trace.layer is None or trace.unlayered is None:
        reason = trace.missing.get(Level.LAYER)
        raise ZoolensError(
            f"The trace of {trace.title} has no layers.", hint=reason or "Trace it again with --level layer."
        )
    if peaks is None:
        check_machine(trace)
    known = peaks or _peaks(trace, store)
    traced = traced_graph(trace)
    counted = _Counted(traced, trace.batch)
    bandwidth = known.bytes_per_second(counted.working_set)
    known_layers: list[TracedLayer] = []
    uncounted: list[TracedLayer] = []
    for layer in innermost_layers(trace):
        (known_layers if counted.nodes(layer.nodes) else uncounted).append(layer)
    layers = [
        _against(layer, counted, trace, known, bandwidth)
        for layer in _joined(known_layers, counted, known, trace.layer.clean)
    ]
    covered = {name for layer in layers for name in counted.nodes(layer.layer.nodes)}
    rest = [node.name for node in traced.graph.nodes if node.name not in covered]
    precision = _precision(trace.run.precision)
    beside = _best(*counted.cost(rest, WIDTHS[precision]), precision, known, bandwidth)[0]
    return Roofline(
        trace,
        known,
        tuple(layers),
        tuple(uncounted),
        counted.working_set,
        bandwidth,
        sum(layer.best for layer in layers) + beside,
        trace.unlayered.median,
        counted.unknown,
    )


def _peaks(trace: Trace, store: Store | str | Path | None) -> Peaks:
    return machine_peaks(threads=peak_threads(trace), device=trace.device, store=store)


def peak_threads(trace: Trace) -> int | None:
    """Returns with how many threads the peaks are measured that a trace is held against; None: one for each core."""
    return trace.threads if trace.device == "cpu" else None


def check_machine(trace: Trace) -> None:
    """ZoolensError where a trace was made on another machine than this one."""
    machine = describe_machine()
    here: dict[str, Any] = {"cpu": machine.cpu, "flags": fingerprint(machine.flags)[:12], "cores": machine.cores}
    there = trace.run.stack.identity.get("machine", {})
    if trace.device != "cpu":
        here = {"name": accelerator_identity(trace.device).get("name")}
        there = trace.run.stack.identity.get("accelerator", {})
    if any(there.get(name) != value for name, value in here.items()):
        raise ZoolensError(
            f"The trace of {trace.title} was made on another machine, whose peaks are not known here.",
            hint="Trace the model here, or ask for the roofline there.",
        )


def _joined(
    layers: Sequence[TracedLayer], counted: _Counted, peaks: Peaks, clean: NDArray[np.bool_]
) -> Iterator[TracedLayer]:
    """Layers that compute one node of the graph together as one: its operations must not be counted for each."""
    joined = JoinedNames()
    for layer in layers:
        joined.join(counted.nodes(layer.nodes))
    groups: dict[str, list[TracedLayer]] = {}
    for layer in layers:
        groups.setdefault(joined.root(counted.nodes(layer.nodes)[0]), []).append(layer)
    for group in groups.values():
        yield group[0] if len(group) == 1 else _as_one(group, peaks, clean)


def _as_one(layers: Sequence[TracedLayer], peaks: Peaks, clean: NDArray[np.bool_]) -> TracedLayer:
    """Some layers as one. It is of the kind and precision of the one whose precision is multiplied fastest here, and
    among those of the longest: a normalisation in float32 may take longer than the convolution in TF32 before it."""
    samples = np.nansum([layer.samples for layer in layers], axis=0)
    main = max(layers, key=lambda layer: (peaks.flops.get(_precision(layer.precision), 0.0), layer.timing.median))
    names = [short_name(layer.name, 30) for layer in layers]
    return replace(
        main,
        name=" + ".join(names) if len(names) <= 3 else f"{names[0]} … {names[-1]} ({len(names)} layers)",
        samples=samples,
        timing=timing(samples, clean),
        nodes=tuple(dict.fromkeys(node for layer in layers for node in layer.nodes)),
        started=min(layer.started for layer in layers),
        children=(),
    )


def _against(layer: TracedLayer, counted: _Counted, trace: Trace, peaks: Peaks, bandwidth: float) -> RoofLayer:
    reported = layer.precision or trace.run.precision
    precision = _precision(reported)
    flops, moved = counted.cost(counted.nodes(layer.nodes), WIDTHS[precision])
    best, bound = _best(flops, moved, precision, peaks, bandwidth)
    return RoofLayer(layer, precision, flops, moved, best, bound, reported not in WIDTHS)


def _precision(reported: str | None) -> str:
    """The precision whose peak is used; float32 where a framework does not report it, or reports several."""
    return {"uint8": "int8"}.get(reported or "", reported) if reported in WIDTHS else "float32"  # type: ignore[return-value]


def _best(flops: int, moved: int, precision: str, peaks: Peaks, bandwidth: float) -> tuple[float, str]:
    speed = peaks.flops.get(precision) or peaks.flops.get("float32")
    computing = flops / speed if speed else 0.0
    moving = moved / bandwidth
    bound = "compute" if computing > moving else "memory" if moving else "nothing"
    return max(computing, moving), bound


class _Counted:
    """Operations and bytes of parts of a graph, for a batch. A file may be made for another batch than 1."""

    def __init__(self, traced: TracedGraph, batch: int) -> None:
        self._graph, self.nodes = traced.graph, traced.nodes
        whole = cost(self._graph)
        self._flops = {layer.name: layer.flops for layer in whole.layers}
        inputs = self._graph.inputs
        self._times = batch / (inputs[0].shape[0] if inputs and inputs[0].shape else 1)
        self.unknown = whole.unknown
        self.working_set = whole.parameter_bytes + round(whole.activation_bytes * self._times)

    def cost(self, names: Collection[str], width: int) -> tuple[int, int]:
        """Operations, and the bytes that are moved in and out of these nodes together."""
        inside = set(names)
        nodes = [node for node in self._graph.nodes if node.name in inside and node.op not in _NOT_MOVED]
        flops = round(self._times * sum(self._flops[node.name] for node in nodes))
        weights = sum(tensor.size for node in nodes for tensor in node.parameters)
        values = {name for node in nodes for name in node.inputs if name not in inside}
        values |= {node.name for node in nodes if self._leaves(node, inside)}
        numbers = weights + round(self._times * sum(prod(self._graph.by_name[name].shape) for name in values))
        return flops, width * numbers

    def _leaves(self, node: Node, inside: Collection[str]) -> bool:
        users = self._graph.consumers[node.name]
        return node.name in self._graph.outputs or any(user.name not in inside for user in users)


def _layers_words(count: int) -> str:
    return f"{count} layer{'' if count == 1 else 's'}"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _beyond(roofline: Roofline) -> Iterator[str]:
    """Layers that are quicker than the peaks allow, and which reasons for that are possible."""
    beyond = [layer for layer in roofline.layers if (layer.efficiency or 0) > BEYOND]
    if beyond:
        share = sum(layer.seconds for layer in beyond) / sum(layer.seconds for layer in roofline.layers)
        possible = [
            "the kernels need fewer operations than are counted (Winograd)" if _maybe_winograd(beyond) else "",
            "data were in a nearer cache" if any(layer.bound == "memory" for layer in beyond) else "",
            "the peaks are too low",
        ]
        yield (
            f"{_layers_words(len(beyond))} with {100 * share:.0f} % of the layers' time {_are(len(beyond))} quicker "
            "than these peaks allow, so that the best time is too long and the share too high. Possible reasons: "
            f"{', '.join(filter(None, possible))}; which of them is not known."
        )
    for layer in (layer for layer in beyond if layer.absurd):
        yield (
            f"{short_name(layer.layer.name)} is {layer.efficiency or 0:.1f} times as quick as the peaks allow, which "
            "no known algorithm explains: its operators or its time were attributed wrongly. Its "
            "efficiency is not known."
        )


def _uncounted(roofline: Roofline) -> Iterator[str]:
    """Layers without operators of the graph: those that only change layouts, and those that are not understood."""
    moving = [layer for layer in roofline.uncounted if only_moves(layer.kind)]
    if moving:
        kinds = ", ".join(dict.fromkeys(layer.kind for layer in moving))
        only = "only brings" if len(moving) == 1 else "only bring"
        yield (
            f"{_layers_words(len(moving))} of {_seconds_of(moving)} {only} values into another layout, shape or type "
            f"({kinds}): nothing is counted for that."
        )
    unknown = [layer for layer in roofline.uncounted if not only_moves(layer.kind)]
    if unknown:
        words = f"{_layers_words(len(unknown))} of {_seconds_of(unknown)}"
        yield f"{words} of which no operator of the graph is known {_are(len(unknown))} not counted."


def _seconds_of(layers: Sequence[TracedLayer]) -> str:
    return figure(sum(layer.timing.median for layer in layers), "s")


def _maybe_winograd(layers: Sequence[RoofLayer]) -> bool:
    """Whether one of these layers is a convolution in floating point that computing bounds: Winograd's algorithm saves
    operations there."""
    return any(
        family(layer.layer.kind) == "convolution" and layer.bound == "compute" and layer.precision != "int8"
        for layer in layers
    )


def sentences(roofline: Roofline) -> Iterator[str]:
    trace, share = roofline.trace, roofline.efficiency
    words = NOTHING if share is None else f"{100 * share:.1f} %"
    device = "this machine" if roofline.peaks.device == "cpu" else roofline.peaks.cpu
    whole = not roofline.unknown
    yield (
        f"At the measured peaks {device} takes {at_least(figure(roofline.best, 's'), whole=whole)} for a batch of "
        f"{trace.batch}. {trace.runtime} takes {figure(roofline.measured, 's')}: it runs at "
        f"{at_least(words, whole=whole)} of what is possible."
    )
    yield (
        f"Weights and activations have {figure(roofline.working_set, 'B')}, which {device} moves at "
        f"{roofline.bandwidth / 1e9:,.1f} GB/s."
    )
    yield from _beyond(roofline)
    if trace.profiler is not None and trace.profiler.sure and trace.profiler.share > SUMS_UP:
        yield "The times of layers hold a share of the profiler's, so that their efficiencies are too low."
    if assumed := sum(layer.assumed for layer in roofline.layers):
        words = _layers_words(assumed)
        yield f"{trace.runtime} does not report the precision of {words}, which {_are(assumed)} compared with float32."
    yield from _uncounted(roofline)
    if roofline.unknown:
        yield f"Not counted, because their cost is not known: {', '.join(roofline.unknown)}."
    if roofline.peaks.disturbed:
        yield "Some peaks were measured while other processes were busy: `zoolens machine peaks --fresh` repeats them."
