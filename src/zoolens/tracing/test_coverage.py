from dataclasses import replace

import numpy as np
import pytest

from zoolens.runtimes.observing import OperatorTime, Profile
from zoolens.tracing.coverage import coverage_sentences
from zoolens.tracing.layers import observed_calls_of, timing
from zoolens.tracing.spans import Level, SpanColumns, add_profiles
from zoolens.tracing.stored import Overhead, Trace
from zoolens.tracing.test_comparison import A
from zoolens.tracing.tracecontext import new_context

MS = 1_000_000
REPEATS = 20


def words(operators, *, call, alone, clean=True, repeats=REPEATS):
    """What is said of calls that take `call` milliseconds with a profiler and `alone` without."""
    columns = SpanColumns(new_context(), Level.LAYER)
    profiles = [Profile(0, round(call * MS), tuple(operators(repeat))) for repeat in range(repeats)]
    add_profiles(columns, profiles, [clean] * repeats)
    observed = observed_calls_of(columns.table(), Level.LAYER)
    unprofiled = timing(np.full(repeats, alone / 1e3), np.full(repeats, clean))
    trace = Trace(A.run, 1, "", layer=observed, overheads=(Overhead(Level.LAYER, observed.calls, unprofiled),))
    return " ".join(coverage_sentences(trace))


def layers(*milliseconds, starts=True):
    def operators(_):
        begun = 1.0
        for place, duration in enumerate(milliseconds):
            yield OperatorTime(f"{place}", "Conv", round(duration * MS), round(begun * MS) if starts else None)
            begun += duration

    return operators


def test_layers_that_sum_to_the_call_need_no_explanation():
    assert words(layers(4, 5.9), call=10, alone=10) == (
        "The layers sum to 9.90 ms, 99.0 % of the 10 ms that the model takes without a profiler."
    )


def test_time_in_no_layer_is_told_by_where_it_was_measured():
    text = words(layers(4, 2), call=10, alone=9)
    assert "3 ms of the call is in no layer." in text
    assert "The profiled call takes 10 ms: 1 ms before the first layer, 0 µs between layers, 3 ms after" in text


def test_what_is_in_no_layer_is_not_guessed_where_starts_are_not_told():
    text = words(layers(4, 2, starts=False), call=10, alone=9)
    assert "Where in the call, and what happens then, is not known: a tells durations only." in text


def test_the_profilers_share_of_the_layers_is_computed_from_calls_with_and_without_it():
    text = words(layers(4, 4), call=10, alone=6)
    assert "The profiled call takes 10 ms, so that at least 2 ms of the layers' times is the profiler's. " in text
    assert "On average the profiler takes 2 ms for each of 2 layers" in text


def test_layers_without_starts_may_have_run_at_the_same_time():
    assert "unless layers ran at the same time, which a does not tell" in words(
        layers(4, 4, starts=False), call=10, alone=6
    )
    assert "also more than the 10 ms of the profiled call" in words(layers(8, 8, starts=False), call=10, alone=9)


def test_layers_that_ran_at_the_same_time_are_said():
    def together(_):
        return OperatorTime("a", "Conv", 6 * MS, 0), OperatorTime("b", "Conv", 6 * MS, 0)

    assert "Layers ran at the same time" in words(together, call=7, alone=7)


@pytest.mark.parametrize(
    ("about", "expected"),
    [({"clean": False}, "says little"), ({"repeats": 3}, "So few repetitions do not tell")],
)
def test_a_difference_that_was_not_measured_well_is_not_explained(about, expected):
    text = words(layers(4, 2), call=10, alone=9, **about)
    assert expected in text
    assert "in no layer" not in text


def test_layers_that_are_slow_in_turns_are_said():
    def in_turns(repeat):
        slow = repeat % 3
        begun = 0
        for place in range(3):
            duration = (7 if place == slow else 1) * MS
            yield OperatorTime(f"{place}", "Conv", duration, begun)
            begun += duration

    text = words(in_turns, call=9, alone=9)
    assert "The medians of the layers sum to 3 ms, and the median of their sums is 9 ms" in text


def test_a_trace_without_layers_says_nothing():
    assert list(coverage_sentences(replace(A, layer=None))) == []
