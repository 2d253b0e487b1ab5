from dataclasses import replace

import numpy as np
import pytest

from zoolens.findings.tracing.report import levels_table, sentences
from zoolens.findings.tracing.spans import Level, SpanColumns, add_profiles
from zoolens.findings.tracing.stored import Overhead, Trace
from zoolens.findings.tracing.test_comparison import A
from zoolens.findings.tracing.trace_context import new_context
from zoolens.findings.tracing.trace_coverage import coverage_sentences, layer_coverage
from zoolens.findings.tracing.trace_layers import observed_calls_of, timing
from zoolens.inventory.runtimes.observing import OperatorTime, Profile

MS = 1_000_000
REPEATS = 20


def words(operators, *, call, alone, clean=True, repeats=REPEATS, run=None, cores=None):
    """What is said of calls that take `call` milliseconds with a profiler and `alone` without."""
    columns = SpanColumns(new_context(), Level.LAYER)
    inside = None if run is None else round(run * MS)
    profiles = [Profile(0, round(call * MS), tuple(operators(repeat)), run=inside) for repeat in range(repeats)]
    add_profiles(columns, profiles, [clean] * repeats)
    observed = observed_calls_of(columns.table(), Level.LAYER)
    unprofiled = timing(np.full(repeats, alone / 1e3), np.full(repeats, clean))
    stack = replace(A.run.stack, identity={"machine": {"cores": cores}})
    overheads = (Overhead(Level.LAYER, observed.calls, unprofiled),)
    trace = Trace(replace(A.run, stack=stack), 1, "", layer=observed, overheads=overheads)
    return " ".join(coverage_sentences(trace))


def layers(*milliseconds, starts=True):
    def operators(_):
        begun = 1.0 if sum(milliseconds) < 9 else 0.1
        for place, duration in enumerate(milliseconds):
            yield OperatorTime(f"{place}", "Conv", round(duration * MS), round(begun * MS) if starts else None)
            begun += duration

    return operators


def test_layers_that_sum_to_the_call_need_no_explanation():
    said = "The layers sum to 9.90 ms, 99.0 % of the profiled call, which takes 10 ms (the call of median time)."
    assert words(layers(4, 5.9), call=10, alone=10) == said
    assert words(layers(4, 5.9, starts=False), call=10, alone=10) == said


@pytest.mark.parametrize("alone", [5, 9, 10, 54])
def test_time_in_no_layer_is_that_of_the_call_in_which_the_layers_were_timed(alone):
    text = words(layers(4, 2), call=10, alone=alone)
    assert "60.0 % of the profiled call, which takes 10 ms (the call of median time). 4 ms of it is in no layer" in text
    assert "in no layer: 1 ms before the first layer, 0 µs between layers, 3 ms after the last layer." in text
    assert "copies of inputs and outputs, Python or the profiler's own work is not known: a does not report it." in text


def test_slower_calls_without_a_profiler_are_a_remark_and_no_time_in_no_layer():
    """The profiled call took 33.7 ms and its layers 33.2; the calls beside it were disturbed and took 53.8."""
    text = words(layers(20, 13.2), call=33.7, alone=53.8)
    assert "98.5 % of the profiled call" in text
    assert "in no layer" not in text
    assert "were quicker than those without a profiler beside them (33.7 ms and 53.8 ms)" in text
    assert "what the profiler adds is not known" in text


@pytest.mark.parametrize("starts", [True, False])
def test_the_frameworks_own_clock_divides_the_time_in_no_layer(starts):
    text = words(layers(4, 2, starts=starts), call=10, alone=10, run=9)
    assert "4 ms of it is in no layer" in text
    assert "By a's own clock 1 ms of that is before and after its run" in text
    assert "The other 3 ms is inside its run" in text


def test_what_is_in_no_layer_is_not_placed_where_starts_are_not_told():
    text = words(layers(4, 2, starts=False), call=10, alone=9)
    assert "4 ms of it is in no layer. Which part of that is its scheduling" in text


def test_what_the_profiler_adds_is_computed_from_calls_with_and_without_it():
    text = words(layers(4, 4), call=10, alone=6)
    assert "The profiler adds 67 %: the call takes 6 ms without a profiler and 10 ms with it. That is 2 ms for" in text
    assert "profiler adds" not in words(layers(4, 4), call=10, alone=9.9)


def test_layers_without_starts_may_have_run_at_the_same_time():
    text = words(layers(8, 8, starts=False), call=10, alone=9)
    assert "160.0 % of the profiled call" in text
    assert "That is more than the call: layers ran at the same time, or the time of one is also in that of" in text
    assert "How much of the call is in no layer is not known" in text


@pytest.mark.parametrize(("cores", "waiting"), [(2, True), (4, False), (None, False)])
def test_layers_that_ran_at_the_same_time_are_told_by_number(cores, waiting):
    def together(_):
        return tuple(OperatorTime(f"{place}", "Conv", 6 * MS, 0) for place in range(4))

    text = words(together, call=7, alone=7, cores=cores)
    assert "342.9 % of the profiled call" in text
    assert "at least one of them in 6 ms of the call, and on average 4.0 at once" in text
    assert "1 ms of it is in no layer: 0 µs before the first layer" in text
    assert ("This machine has 2 cores, so that 12 ms of the sum at least is waiting" in text) == waiting


@pytest.mark.parametrize(
    ("about", "expected"),
    [({"clean": False}, "because other processes disturbed the calls"), ({"repeats": 3}, "from so few repetitions")],
)
def test_what_the_profiler_adds_is_not_guessed(about, expected):
    text = words(layers(4, 2), call=10, alone=9, **about)
    assert "What the profiler adds is not known" in text
    assert expected in text


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


def test_the_parts_of_the_call_that_is_told_add_up():
    """Medians of parts over many calls would not: here every other call takes three times as long, in no layer."""
    profiles = [
        Profile(0, (30 if repeat % 2 else 10) * MS, (OperatorTime("a", "Conv", (4 + repeat % 2) * MS, MS),))
        for repeat in range(21)
    ]
    columns = SpanColumns(new_context(), Level.LAYER)
    add_profiles(columns, profiles, [True] * len(profiles))
    call = observed_calls_of(columns.table(), Level.LAYER).median
    assert call.seconds == pytest.approx(call.layers + call.rest)
    assert call.rest == pytest.approx(sum(call.gaps.values()))


def test_a_trace_without_layers_says_nothing():
    assert list(coverage_sentences(replace(A, layer=None))) == []


def traced(*operators):
    columns = SpanColumns(new_context(), Level.LAYER)
    add_profiles(columns, [Profile(0, 10 * MS, operators)] * 5, [True] * 5)
    return Trace(A.run, 1, "", layer=observed_calls_of(columns.table(), Level.LAYER))


def test_changes_of_layout_are_understood_and_operators_of_unknown_nodes_are_not():
    known = OperatorTime("conv", "Conv", MS, 0, nodes=("conv",))
    moves = OperatorTime("ReorderOutput of relu", "ReorderOutput", MS, MS)
    found = layer_coverage(traced(known, moves))
    assert (found.whole, found.text) == (True, "Understood: 2 of 2 layers.")
    strange = [OperatorTime(f"s{place}", "Strange", MS, (2 + place) * MS) for place in range(3)]
    found = layer_coverage(traced(known, moves, *strange))
    assert not found.whole
    assert found.text == (
        "Understood: 2 of 5 layers. Not understood: 3 × Strange: which operators of the file it computes."
    )
    inside = OperatorTime("inner", "Conv", MS, 0, "layer", 0, nodes=("conv",))
    assert layer_coverage(traced(OperatorTime("block", "Module", MS, 0), inside)).whole


def test_observing_that_seems_to_make_calls_quicker_is_not_known_in_the_table_too():
    quicker = timing(np.full(20, 0.005), np.full(20, True))
    slower = timing(np.full(20, 0.010), np.full(20, True))
    made = traced(OperatorTime("conv", "Conv", MS, 0, nodes=("conv",)))
    trace = replace(
        made,
        request=quicker,
        overheads=(Overhead(Level.PIPELINE, quicker, slower), Overhead(Level.LAYER, slower, quicker)),
    )
    cells = {row[0]: row[3] for row in levels_table(trace).rows}
    assert cells["pipeline"] == "not known"
    assert cells["layer"].startswith("+100.0 %")
    assert (
        "What observing the level pipeline adds is not known: the observed calls took 5 ms and the others 10 ms."
        in (list(sentences(trace)))
    )
