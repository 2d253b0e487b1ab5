"""How much of a call its layers explain, in sentences that say only what was measured.

Three times are known: the call without a profiler, the call with it, and the sum of the layers in the calls with it.
The difference of the first two is what the profiler costs. Where layers sum to more than the call takes without a
profiler, at least that much of their times is the profiler's, because layers that run one after another cannot take
longer than the call they are in. What a framework does in the time in no layer, nobody measures.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from zoolens.present.figures import figure
from zoolens.tracing.layers import ObservedCalls, Timing
from zoolens.tracing.spans import Level
from zoolens.tracing.stored import SUMS_UP, Trace

UNEVEN: Final = 0.1  # by so much may the sum of medians differ from the median of sums before it is said


def coverage_sentences(trace: Trace) -> Iterator[str]:
    """What the layers sum to, where the rest of the call is, and what the profiler adds."""
    observed, alone = trace.layer, trace.unlayered
    if trace.covered is None or observed is None or observed.total is None or alone is None:
        return
    total = observed.total
    yield (
        f"The layers sum to {_words(total)}, {100 * trace.covered:.1f} % of the {_words(alone)} that the model takes "
        "without a profiler."
    )
    if observed.overlap:
        yield "Layers ran at the same time, so that their sum is more than the time in which they ran."
    elif abs(trace.covered - 1) > SUMS_UP:
        yield from _apart(trace, observed, total, alone)
    yield from _uneven(observed, total)


def _apart(trace: Trace, observed: ObservedCalls, total: Timing, alone: Timing) -> Iterator[str]:
    if alone.disturbed or observed.calls.disturbed:
        yield (
            f"The difference of {figure(abs(alone.median - total.median), 's')} says little: other processes disturbed "
            "these calls, and waiting for a core is in their times. Trace it again with --fresh on a quieter machine."
        )
    elif total.low is None or total.high is None or alone.low is None or alone.high is None:
        yield "So few repetitions do not tell whether that difference is more than chance."
    elif total.low <= alone.high and alone.low <= total.high:
        yield "That difference is within what the repetitions vary by."
    elif total.median < alone.median:
        yield f"{figure(alone.median - total.median, 's')} of the call is in no layer. {_where(trace, observed)}"
    else:
        yield _too_much(trace, observed, total, alone)


def _where(trace: Trace, observed: ObservedCalls) -> str:
    if not observed.gaps:
        return f"Where in the call, and what happens then, is not known: {trace.runtime} tells durations only."
    parts = ", ".join(f"{figure(gap.median, 's')} {name}" for name, gap in observed.gaps.items())
    return f"The profiled call takes {_words(observed.calls)}: {parts}. The profiler's own work is in these times."


def _too_much(trace: Trace, observed: ObservedCalls, total: Timing, alone: Timing) -> str:
    calls, more = observed.calls, figure(total.median - alone.median, "s")
    if total.median > (1 + SUMS_UP) * calls.median:
        return (
            f"That is also more than the {_words(calls)} of the profiled call: layers ran at the same time, or the "
            f"time of one is also in that of another. {trace.runtime} does not tell which."
        )
    once = "" if observed.gaps else f", unless layers ran at the same time, which {trace.runtime} does not tell"
    each = (calls.median - alone.median) / len(observed.layers)
    return (
        f"The profiled call takes {_words(calls)}, so that at least {more} of the layers' times is the profiler's"
        f"{once}. On average the profiler takes {figure(each, 's')} for each of {len(observed.layers)} layers: times "
        "and shares of layers that take not much longer say little."
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
