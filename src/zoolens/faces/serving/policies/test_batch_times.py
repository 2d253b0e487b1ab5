"""How long batches take: the profile, and what was observed. `make mutants` runs these."""

import pytest

from zoolens.faces.serving.contracts.ladder import Ladder, LatencyProfile, Rung
from zoolens.faces.serving.policies.batch_times import BatchTimes
from zoolens.testing.serving_simulation import simulated_ladder

LADDER = simulated_ladder((0.010, 0.004), batching=1.0)


def profiled(*profiles):
    return BatchTimes(Ladder(tuple(Rung("m", "fake", 1.0, 1.0, LatencyProfile(times)) for times in profiles)))


def test_before_anything_was_observed_the_profile_holds():
    times = BatchTimes(LADDER)
    assert times.now == 0.0
    assert [times.seconds(0, size) for size in (1, 2, 3)] == pytest.approx([0.010, 0.020, 0.030])
    assert times.seconds(1, 2) == times.profiled(1, 2) == pytest.approx(0.008)
    assert not times.is_observed(0)
    times.observe(0, 1, 0.010)
    assert (times.is_observed(0), times.is_observed(1)) == (True, False)


def test_a_slower_batch_weighs_three_tenths_and_a_faster_one_a_tenth():
    times = BatchTimes(LADDER)
    times.observe(0, 2, 0.040)  # twice as slow
    assert times.slowness(0) == pytest.approx(1.3)
    times.observe(0, 1, 0.010)
    assert times.slowness(0) == pytest.approx(1.3 - 0.1 * 0.3)
    assert times.seconds(0, 1) == pytest.approx(0.0127)
    assert times.slowness(1) == 1.0


def test_one_hiccup_counts_as_four_times_as_slow():
    times = BatchTimes(LADDER)
    times.observe(0, 1, 10.0)
    assert times.slowness(0) == pytest.approx(1 + 0.3 * 3)
    times.observe(0, 1, 10.0)
    assert times.slowness(0) == pytest.approx(1.9 + 0.3 * 3 * 1.9)


def test_a_first_batch_that_is_faster_shows_that_the_profile_is_of_a_slower_machine():
    times = BatchTimes(LADDER)
    times.observe(0, 1, 0.005)
    assert times.slowness(0) == pytest.approx(0.5)
    times.observe(0, 1, 0.0025)  # later ones are believed by a tenth
    assert times.slowness(0) == pytest.approx(0.5 - 0.1 * 0.25)
    times.now = 1e6
    assert times.slowness(0) == pytest.approx(0.5 - 0.02 * 0.25)
    times.observe(1, 1, 0.004)
    assert times.slowness(1) == 1.0
    times.observe(1, 1, 0.002)
    assert times.slowness(1) == pytest.approx(0.95)


def test_a_hiccup_of_a_fast_rung_counts_from_its_profile():
    times = BatchTimes(LADDER)
    times.observe(0, 1, 0.001)
    times.observe(0, 1, 0.100)
    assert times.slowness(0) == pytest.approx(0.1 + 0.3 * (4.0 - 0.1))


def test_a_deviation_is_halved_in_four_seconds_in_which_nobody_asks():
    times = BatchTimes(LADDER)
    times.now = 10.0
    times.observe(0, 1, 0.020)
    usual, late = 1.02, 1.3
    assert times.slowness(0) == pytest.approx(late)
    times.now = 14.0
    assert times.slowness(0) == pytest.approx(usual + (late - usual) / 2)
    times.now = 18.0
    assert times.slowness(0) == pytest.approx(usual + (late - usual) / 4)
    times.now = 9.0  # a clock that goes back makes nothing worse
    assert times.slowness(0) == pytest.approx(late)
    times.now = 14.0
    times.observe(0, 1, 0.010)  # what is left of it is what the next one corrects
    known = usual + (late - usual) / 2
    assert times.slowness(0) == pytest.approx(known - 0.1 * (known - 1))


def test_a_profile_of_no_time_divides_nothing_by_nought():
    times = profiled({1: 0.0})
    times.observe(0, 1, 1e-9)
    assert times.slowness(0) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("seconds", "best"),
    [
        ({1: 0.010, 2: 0.012, 4: 0.016, 8: 0.024}, 8),
        ({1: 0.010, 2: 0.012, 4: 0.016, 8: 0.031}, 4),  # eight save less than a tenth of each
        ({1: 0.010, 2: 0.012, 4: 0.030, 8: 0.080}, 2),
        ({1: 0.010, 2: 0.020, 4: 0.040, 8: 0.080}, 1),
    ],
)
def test_the_smallest_batch_that_is_nearly_the_best_is_taken(seconds, best):
    assert profiled(seconds).best_size(0, 1, 8) == best
    assert profiled(seconds).best_size(0, 1, 8, within=0.080) == best


def test_the_best_size_fits_into_the_time():
    times = profiled({1: 0.010, 2: 0.012, 4: 0.016, 8: 0.024})
    assert [times.best_size(0, 1, 8, within) for within in (0.025, 0.017, 0.013, 0.011, 0.001)] == [8, 4, 2, 1, 1]
    assert times.best_size(0, 4, 8, 0.001) == 4  # no batch is smaller than a request
    times.observe(0, 1, 0.020)  # 1.3 times as slow
    assert [times.best_size(0, 1, 8, within) for within in (0.032, 0.031, 0.021, 0.020)] == [8, 4, 4, 2]


def test_sizes_are_doubled_up_to_the_largest():
    assert profiled({1: 0.010, 2: 0.012, 4: 0.016, 6: 0.017}).best_size(0, 1, 6) == 6
    assert profiled({1: 0.010, 3: 0.012, 6: 0.013, 8: 0.1}).best_size(0, 3, 8) == 6
    assert profiled({1: 0.010, 4: 0.012, 8: 0.1}).best_size(0, 4, 4) == 4
    assert profiled({1: 0.010, 4: 0.012, 8: 0.013}).best_size(0, 4, 8) == 8


def test_draining_takes_whole_batches_by_all_instances():
    times = profiled({1: 0.010, 2: 0.012, 4: 0.016, 8: 0.024})
    assert times.drained(0, 0, 1, 8, 1) == 0.0
    assert times.drained(0, -3, 1, 8, 1) == 0.0
    assert times.drained(0, 1, 1, 8, 1) == pytest.approx(0.010)
    assert times.drained(0, 8, 1, 8, 1) == pytest.approx(0.024)
    assert times.drained(0, 9, 1, 8, 1) == pytest.approx(0.048)
    assert times.drained(0, 16, 1, 8, 2) == pytest.approx(0.024)
    assert times.drained(0, 17, 1, 8, 2) == pytest.approx(0.048)
    assert times.drained(0, 3, 4, 8, 1) == pytest.approx(0.016)  # a request of four inputs is one batch
    assert times.drained(0, 4, 4, 2, 1) == pytest.approx(0.016)


def test_a_first_batch_that_is_slower_proves_little():
    times = BatchTimes(LADDER)
    times.observe(0, 1, 0.015)
    assert times.slowness(0) == pytest.approx(1.15)


def test_sizes_at_the_limit():
    """A batch that takes exactly the time fits, and one that saves exactly a tenth is not worth the wait."""
    times = profiled({1: 0.010, 2: 0.012, 4: 0.016, 8: 0.024})
    assert times.best_size(0, 1, 8, within=0.016) == 4
    assert profiled({1: 10.0, 2: 18.0}).best_size(0, 1, 2) == 1


def test_a_profile_is_asked_once_for_each_size():
    """Policies ask before each batch."""
    asked = []

    class Counted(LatencyProfile):
        def of(self, batch):
            asked.append(batch)
            return super().of(batch)

    times = BatchTimes(Ladder((Rung("m", "fake", 1.0, 1.0, Counted({1: 0.010, 8: 0.024})),)))
    for _ in range(3):
        times.best_size(0, 1, 4)
        times.seconds(0, 2)
    assert sorted(asked) == [1, 2, 4]
