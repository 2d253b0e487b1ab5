"""How much of a call its layers explain, in sentences that say only what was measured.

The sum of the layers is compared with the calls in which they were timed, never with other calls: between two runs the
machine may have changed by more than what is looked for. What the profiler costs is the one thing that needs both kinds
of calls, and is said only where they tell it. What a framework does in the time in no layer is named as far as its own
clock or the places of the layers tell it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from zoolens.base.present.figures import figure
from zoolens.base.verdicts import Coverage, Gap, Tally
from zoolens.findings.tracing.families import only_moves
from zoolens.findings.tracing.spans import Level
from zoolens.findings.tracing.stored import SUMS_UP, Overhead, Trace
from zoolens.findings.tracing.trace_layers import MedianCall, ObservedCalls, Timing

UNEVEN: Final = 0.1  # by so much may the sum of medians differ from the median of sums before it is said
QUICKER: Final = 0.02  # by so much may observed calls be quicker than others before it is remarked upon


def layer_coverage(trace: Trace) -> Coverage:
    """How many layers are known to compute which operators of the file, or to compute none."""
    layers = trace.layers
    unknown = Counter(layer.kind for layer in layers if not layer.knows_nodes and not only_moves(layer.kind))
    gaps = tuple(Gap(f"{kind}: which operators of the file it computes", count) for kind, count in unknown.items())
    return Coverage((Tally("layers", len(layers) - unknown.total(), len(layers)),) if layers else (), gaps)


def coverage_sentences(trace: Trace) -> Iterator[str]:
    """What the layers sum to, where the rest of the call is, and what the profiler adds."""
    observed = trace.layer
    if observed is None or observed.total is None or observed.median is None:
        return
    call = observed.median
    yield (
        f"The layers sum to {figure(call.layers, 's')}, {100 * call.share:.1f} % of the profiled call, which takes "
        f"{figure(call.seconds, 's')} (the call of median time)."
    )
    yield from _together(trace, observed, call)
    yield from _in_no_layer(trace, observed, call)
    if trace.profiler is not None:
        yield from _profiler(trace.profiler, len(observed.layers))
    yield from _uneven(observed, observed.total)


def _together(trace: Trace, observed: ObservedCalls, call: MedianCall) -> Iterator[str]:
    """What is known of layers that sum to more than the time in which they ran."""
    if observed.overlap and call.busy:
        at_once = call.layers / call.busy
        yield (
            f"Layers ran at the same time: at least one of them in {figure(call.busy, 's')} of the call, and on "
            f"average {at_once:.1f} at once. A share of a layer is one of their sum, not of the call."
        )
        if trace.cores is not None and at_once > trace.cores and trace.device == "cpu":
            idle = call.layers - trace.cores * call.busy
            yield (
                f"This machine has {trace.cores} cores, so that {figure(idle, 's')} of the sum at least is waiting, "
                "for a core or for another layer, and no computing. In which layers is not known."
            )
    elif observed.overlap:
        yield "Layers ran at the same time, so that their sum is more than the time in which they ran."
    elif call.share > 1 + SUMS_UP:
        yield (
            "That is more than the call: layers ran at the same time, or the time of one is also in that of another. "
            f"{trace.runtime} does not report which."
        )


def _in_no_layer(trace: Trace, observed: ObservedCalls, call: MedianCall) -> Iterator[str]:
    if call.rest is None:
        yield f"How much of the call is in no layer is not known: {trace.runtime} does not report when layers ran."
        return
    if call.rest <= SUMS_UP * call.seconds:
        return
    parts = ", ".join(f"{figure(seconds, 's')} {name}" for name, seconds in call.gaps.items())
    yield f"{figure(call.rest, 's')} of it is in no layer{f': {parts}' if parts else ''}."
    if call.run is None:
        work = "its scheduling, copies of inputs and outputs, Python or the profiler's own work"
        yield f"Which part of that is {work} is not known: {trace.runtime} does not report it."
        return
    outside = min(max(call.seconds - call.run, 0.0), call.rest)
    waiting = ", waiting for a core" if observed.calls.disturbed else ""
    yield (
        f"By {trace.runtime}'s own clock {figure(outside, 's')} of that is before and after its run: handing over "
        f"inputs and outputs between Python and the framework. The other {figure(call.rest - outside, 's')} is inside "
        f"its run: scheduling between layers{waiting} and the profiler's own work, which it does not separate."
    )


def _profiler(overhead: Overhead, layers: int) -> Iterator[str]:
    """What the profiler adds to a call, where the calls with and without it tell that."""
    observed, alone = overhead.observed, overhead.unobserved
    calls = f"the call takes {_words(alone)} without a profiler and {_words(observed)} with it"
    if overhead.share < -QUICKER:
        yield (
            f"The profiled calls were quicker than those without a profiler beside them ({_words(observed)} and "
            f"{_words(alone)}). A profiler cannot cause that: machine load changed during the measurement, and what "
            "the profiler adds is not known."
        )
    elif observed.disturbed or alone.disturbed:
        yield f"What the profiler adds is not known, because other processes disturbed the calls: {calls}."
    elif overhead.interval is None:
        yield f"What the profiler adds is not known from so few repetitions: {calls}."
    elif overhead.sure and overhead.share > SUMS_UP:
        each = (observed.median - alone.median) / max(layers, 1)
        yield (
            f"The profiler adds {100 * overhead.share:.0f} %: {calls}. That is {figure(each, 's')} for each of "
            f"{layers} layers on average: times and shares of layers that take not much longer say little."
        )


def _uneven(observed: ObservedCalls, total: Timing) -> Iterator[str]:
    layers = [layer for layer in observed.layers if layer.level == Level.LAYER] or observed.layers
    medians = sum(layer.timing.median for layer in layers)
    if total.median and abs(medians / total.median - 1) > UNEVEN:
        yield (
            f"The medians of the layers sum to {figure(medians, 's')}, and the median of their sums is "
            f"{_words(total)}: different layers were slow in different repetitions. Shares are of the former."
        )


def _words(timing: Timing) -> str:
    return figure(timing.median, "s")
