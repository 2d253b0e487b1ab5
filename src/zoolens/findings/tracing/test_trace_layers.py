from dataclasses import replace

import numpy as np
import pytest

from zoolens.base.present.figures import NOTHING
from zoolens.findings.tracing.report import median_words, timing_words
from zoolens.findings.tracing.spans import Level, SpanColumns, add_profiles
from zoolens.findings.tracing.trace_context import new_context
from zoolens.findings.tracing.trace_layers import Timing, flat, observed_calls_of, timing
from zoolens.inventory.runtimes.observing import OperatorTime, Profile

MS = 1_000_000


def observed(profiles, clean=None):
    columns = SpanColumns(new_context(), Level.LAYER)
    add_profiles(columns, profiles, clean or [True] * len(profiles))
    return observed_calls_of(columns.table(), Level.LAYER)


def profile(start, *operators, duration=10 * MS):
    return Profile(start, duration, operators)


def test_the_median_is_of_clean_repetitions_and_the_raw_one_of_all():
    samples = np.array([1.0, 1.1, 1.2] * 3 + [9.0] * 8)
    clean = np.array([True] * 9 + [False] * 8)
    times = timing(samples, clean)
    assert (times.median, times.n, times.disturbed) == (1.1, 9, False)
    assert times.raw == 1.2
    assert times.low <= times.median <= times.high


def test_too_few_clean_repetitions_are_said_and_all_count():
    times = timing(np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), np.array([True, False, False, False, False, False]))
    assert (times.n, times.disturbed) == (6, True)


def test_namesakes_are_told_apart_by_their_place():
    profiles = [
        profile(
            start, OperatorTime("conv", "Conv", 2 * MS, start), OperatorTime("conv", "Conv", 4 * MS, start + 2 * MS)
        )
        for start in range(0, 100 * MS, 10 * MS)
    ]
    first, second = observed(profiles).layers
    assert (first.timing.median, second.timing.median) == pytest.approx((2e-3, 4e-3))
    assert second.started == pytest.approx(2e-3)


def test_the_sum_is_of_the_outermost_layers_only():
    block = (OperatorTime("block", "Module", 6 * MS, 0), OperatorTime("conv", "Conv", 5 * MS, 0, "layer", 0))
    found = observed([profile(0, *block, OperatorTime("head", "Gemm", 2 * MS, 6 * MS))] * 6)
    assert found.total.median == pytest.approx(8e-3)
    assert [layer.name for layer in found.layers] == ["block", "head"]
    assert [layer.name for layer in flat(found.layers)] == ["block", "conv", "head"]


def test_time_in_no_layer_is_named_by_where_it_is():
    operators = (OperatorTime("a", "Conv", 3 * MS, 1 * MS), OperatorTime("b", "Conv", 2 * MS, 6 * MS))
    gaps = observed([profile(0, *operators)] * 6).gaps
    assert {name: round(gap.median * 1e3, 6) for name, gap in gaps.items()} == {
        "before the first layer": 1,
        "between layers": 2,
        "after the last layer": 2,
    }


def test_nothing_is_said_of_gaps_where_starts_are_not_known():
    assert observed([profile(0, OperatorTime("a", "Conv", 3 * MS))] * 6).gaps == {}


def test_layers_that_run_at_once_are_noticed():
    together = (OperatorTime("a", "Conv", 6 * MS, 0), OperatorTime("b", "Conv", 6 * MS, 0))
    assert observed([profile(0, *together)] * 6).overlap
    behind = (OperatorTime("a", "Conv", 5 * MS, 0), OperatorTime("b", "Conv", 5 * MS, 5 * MS))
    assert not observed([profile(0, *behind)] * 6).overlap


def test_a_layer_that_runs_only_sometimes_counts_as_nothing_elsewhere():
    always, sometimes = OperatorTime("a", "Conv", 2 * MS, 0), OperatorTime("b", "If", 4 * MS, 2 * MS)
    found = observed([profile(0, always, sometimes), profile(0, always), profile(0, always)])
    layer = found.layers[1]
    assert (layer.timing.n, layer.timing.median) == (1, pytest.approx(4e-3))
    assert found.total.median == pytest.approx(2e-3)


def test_the_kernel_is_the_one_of_most_repetitions():
    kernels = ["copy", *["convolution"] * 4]
    profiles = [profile(0, OperatorTime("a", "Conv", 2 * MS, 0, kernel=kernel)) for kernel in kernels]
    assert observed(profiles).layers[0].kernel == "convolution"


def test_nothing_is_said_of_gaps_where_layers_lie_outside_of_their_call():
    assert observed([profile(0, OperatorTime("a", "Conv", 5 * MS, 8 * MS))] * 6).gaps == {}


def test_a_disturbed_time_is_marked_on_cards_and_in_cells():
    quiet = Timing(0.002, 0.0019, 0.0021, 30, 0.002)
    assert median_words(quiet) == "2 ms"
    assert median_words(replace(quiet, disturbed=True)) == "2 ms (disturbed)"
    assert median_words(None) == NOTHING


def test_equal_ends_of_a_median_are_an_interval_of_clock_ticks():
    ticks = Timing(0.00004, 0.00004, 0.00004, 10, 0.00004)
    assert timing_words(ticks) == "40 µs [40, 40]"
    assert timing_words(replace(ticks, disturbed=True)) == "40 µs (disturbed) [40, 40]"
