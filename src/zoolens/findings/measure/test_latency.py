import time

import numpy as np
import pyarrow.parquet as pq
import pytest

from zoolens.base.present.figures import with_interval
from zoolens.base.store.records import Observation, is_disturbed
from zoolens.findings.measure.latency import LatencySamples, LatencySettings, latency_observations, measure_latency
from zoolens.inventory.runtimes.timing.interference import ThreadWatch, Waiting, clean_samples, waiting_between


def spin(seconds):
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def test_waiting_is_what_happened_between_two_readings():
    readings = [[b"100 5 1\n", b"50 0 7\n"], [b"200 9 1\n", b"60 1 8\n"], [b"300 9 1\n", b"70 1 8\n"]]
    waiting = waiting_between(readings)
    assert waiting.delay_ns.tolist() == [5, 0]
    assert waiting.switches.tolist() == [1, 0]


def test_a_sample_is_clean_if_it_did_not_wait():
    elapsed = np.array([1_000_000, 1_000_000, 1_000, 100_000_000])
    waiting = Waiting(np.array([0, 2_000_000, 4_000, 900_000]), np.zeros(4, np.int64))
    assert clean_samples(elapsed, waiting).tolist() == [True, False, True, True]


def test_the_busy_thread_is_found_where_the_kernel_tells():
    watch = ThreadWatch()
    watch.find_busy(lambda: spin(0.002))
    if watch.available:
        assert len(watch.read()) >= 1
    watch.close()
    assert watch.read() == []


class Steady:
    """Calls of 1 ms, more or less, that nothing disturbs."""

    watched = True

    def sample(self, wanted, seconds):
        nothing = np.zeros(wanted, np.int64)
        return 1_000_000 + np.arange(wanted) % 7 * 1000, Waiting(nothing, nothing)

    def close(self):
        pass


def test_it_stops_when_the_median_is_known():
    settings = LatencySettings(precision=0.5, max_seconds=3600, warmup_seconds=0)
    samples = measure_latency(lambda: None, settings, repeat=lambda calls, seconds: Steady())
    assert samples.stopped_by == "precision"
    assert len(samples) < 5000


def test_a_call_takes_as_long_as_it_does():
    samples = measure_latency(lambda: spin(0.0005), LatencySettings(min_samples=5, max_samples=20, warmup_seconds=0))
    assert samples.elapsed_ns.min() >= 500_000


def test_it_stops_at_the_limits():
    by_time = measure_latency(
        lambda: spin(0.001), LatencySettings(precision=0, max_seconds=0.2, warmup_seconds=0, max_samples=10**6)
    )
    assert by_time.stopped_by == "time"
    by_count = measure_latency(
        lambda: None, LatencySettings(precision=0, min_samples=10, max_samples=130, warmup_seconds=0)
    )
    assert (by_count.stopped_by, len(by_count)) == ("samples", 130)


def test_figures_are_the_same_from_samples_read_back(tmp_path):
    samples = measure_latency(lambda: spin(0.0002), LatencySettings(max_seconds=0.3, warmup_seconds=0))
    pq.write_table(samples.table(4), tmp_path / "samples.parquet")
    again = LatencySamples.from_table(pq.read_table(tmp_path / "samples.parquet"))
    assert list(latency_observations(again, 4)) == list(latency_observations(samples, 4))


def test_raw_and_clean_figures_are_both_given():
    elapsed = np.full(100, 1_000_000)
    elapsed[:10] = 50_000_000
    delay = np.zeros(100, np.int64)
    delay[:10] = 49_000_000
    waiting = Waiting(delay, np.ones(100, np.int64))
    samples = LatencySamples(elapsed, waiting, clean_samples(elapsed, waiting), watched=True)
    found = {(one.metric, one.scope): one.value for one in latency_observations(samples, 1)}
    assert found[("latency_p99", "batch=1")] == 0.001
    assert found[("latency_p99", "batch=1,raw")] == 0.05
    assert found[("clean_share", "batch=1")] == 0.9


def disturbed(clean, count=100):
    times = np.arange(1, count + 1, dtype=np.int64) * 1_000_000
    nothing = np.zeros(count, np.int64)
    flags = np.arange(count) < clean
    return LatencySamples(times, Waiting(nothing, nothing), flags, watched=True)


@pytest.mark.parametrize(("clean", "marked"), [(0, True), (19, True), (20, False)])
def test_a_clean_figure_that_is_the_raw_one_is_marked(clean, marked):
    found = {(one.metric, one.scope): one for one in latency_observations(disturbed(clean), 1)}
    for metric in ("latency_p50", "latency_p99", "throughput"):
        assert is_disturbed(found[metric, "batch=1"]) is marked
        assert not is_disturbed(found[metric, "batch=1,raw"])
    assert with_interval(found["latency_p50", "batch=1"]).count("(disturbed)") == marked


def test_what_older_versions_said_in_words_is_marked_too():
    note = {"note": "fewer than 20 undisturbed samples: the clean figures are the raw ones"}
    assert is_disturbed(Observation("latency_p50", 1.0, scope="batch=1", details=note))
    assert not is_disturbed(Observation("latency_p50", 1.0, scope="batch=1,raw", details=note))


class DisturbedAtFirst:
    """Calls of 1 ms, the first 60 of which waited for a core all that time."""

    watched = True

    def __init__(self):
        self.taken = 0

    def sample(self, wanted, seconds):
        waits = np.where(np.arange(self.taken, self.taken + wanted) < 60, 1_000_000, 0)
        self.taken += wanted
        return np.full(wanted, 1_000_000), Waiting(waits, np.ones(wanted, np.int64))

    def close(self):
        pass


def test_measuring_goes_on_until_there_are_enough_clean_samples():
    settings = LatencySettings(precision=0, min_samples=10, max_samples=30, max_seconds=60)
    samples = measure_latency(lambda: None, settings, repeat=lambda calls, seconds: DisturbedAtFirst())
    assert len(samples) > 60
    assert int(samples.clean.sum()) >= 20
