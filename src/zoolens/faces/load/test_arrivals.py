import numpy as np
import pytest
from scipy import stats

from zoolens.base.errors import ZoolensError
from zoolens.faces.load.arrivals import MOST_REQUESTS, burst, constant, poisson, read_stored_trace, read_trace, replay


def test_constant_arrivals_are_evenly_spaced():
    arrivals = constant(50, 2)
    assert len(arrivals) == 100
    assert arrivals.rate == 50
    assert np.diff(arrivals.times) == pytest.approx(0.02)
    assert arrivals.times[-1] < arrivals.duration


def test_poisson_gaps_are_exponential_and_repeatable():
    arrivals = poisson(200, 50, seed=3)
    assert arrivals.rate == pytest.approx(200, rel=0.05)
    assert stats.kstest(np.diff(arrivals.times), "expon", (0, 1 / 200)).pvalue > 0.01
    assert np.array_equal(arrivals.times, poisson(200, 50, seed=3).times)
    assert not np.array_equal(arrivals.times[:100], poisson(200, 50, seed=4).times[:100])


def test_a_burst_has_its_rate_in_its_window_and_the_usual_one_outside():
    times = burst(100, 60, factor=3, start=20, length=10, seed=1).times
    within = ((times >= 20) & (times < 30)).sum()
    assert within / 10 == pytest.approx(300, rel=0.1)
    assert (len(times) - within) / 50 == pytest.approx(100, rel=0.1)
    assert (np.diff(times) >= 0).all()
    assert times[-1] < 60


@pytest.mark.parametrize("wrong", [{"start": 50, "length": 20}, {"start": -1}, {"factor": 0}, {"length": 0}])
def test_a_burst_that_cannot_be_is_refused(wrong):
    with pytest.raises(ZoolensError, match="burst"):
        burst(10, 60, **wrong)


@pytest.mark.parametrize(("rate", "duration"), [(0, 1), (-1, 1), (float("nan"), 1), (1, 0), (1, 1e9), (1e9, 1e5)])
def test_loads_that_make_no_sense_are_refused(rate, duration):
    for pattern in (constant, poisson):
        with pytest.raises(ZoolensError):
            pattern(rate, duration)


def test_a_load_without_a_request_is_refused():
    with pytest.raises(ZoolensError, match="No request"):
        constant(0.1, 1)


def test_a_replay_begins_at_zero_whatever_the_clock_was():
    arrivals = replay([1_700_000_010.0, 1_700_000_000.0, 1_700_000_005.0], speed=5)
    assert arrivals.times == pytest.approx([0, 1, 2])
    assert arrivals.rate == pytest.approx(1)
    assert "5 times as fast" in arrivals.pattern


def test_a_replay_ends_at_its_duration():
    assert len(replay(np.arange(100.0), duration=10)) == 10
    assert len(replay([7.0])) == 1


def test_a_trace_in_another_unit_is_noticed_instead_of_replayed_for_years():
    with pytest.raises(ZoolensError, match="days"):
        replay([0.0, 2e9])


@pytest.mark.parametrize("wrong", [[], [float("nan")], [float("inf"), 1.0]])
def test_a_trace_without_times_is_refused(wrong):
    with pytest.raises(ZoolensError, match="no usable times"):
        replay(wrong)


@pytest.mark.parametrize(
    ("text", "settings", "times"),
    [
        ("0\n1.5\n3\n", {}, [0, 1.5, 3]),
        ("client,time\na,2\nb,4\n", {}, [2, 4]),
        ("sent,other\n100,1\n250,2\n", {"unit": "ms"}, [0.1, 0.25]),
        ("other,Sent\n1,100\n2,250\n", {"column": "sent"}, [100, 250]),
        ("timestamp\n2026-01-01T00:00:00+00:00\n2026-01-01T00:00:01.5+00:00\n", {}, [1767225600, 1767225601.5]),
    ],
)
def test_traces_are_read_from_csv(tmp_path, text, settings, times):
    (tmp_path / "trace.csv").write_text(text)
    assert read_trace(tmp_path / "trace.csv", **settings) == pytest.approx(times)


@pytest.mark.parametrize(
    ("text", "settings", "message"),
    [
        ("time\n1\nx\n", {}, "Row 3"),
        ("time\n1\nnan\n", {}, "Row 3"),
        ("a,time\n1\n", {}, "Row 2"),
        ("", {}, "empty"),
        ("time\n1\n", {"column": "when"}, "no column 'when'"),
        ("time\n1\n", {"unit": "weeks"}, "unit"),
    ],
)
def test_a_wrong_trace_is_explained(tmp_path, text, settings, message):
    (tmp_path / "trace.csv").write_text(text)
    with pytest.raises(ZoolensError, match=message):
        read_trace(tmp_path / "trace.csv", **settings)


def test_a_missing_trace_is_explained(tmp_path):
    with pytest.raises(ZoolensError, match="cannot be read"):
        read_trace(tmp_path / "none.csv")


def test_too_many_requests_are_refused_before_they_are_drawn():
    with pytest.raises(ZoolensError, match="requests"):
        poisson(MOST_REQUESTS, 2)


def test_a_stored_series_keeps_its_microseconds(tmp_path):
    import pyarrow as pa

    from zoolens.base.store.series import append_series
    from zoolens.base.store.store import open_store
    from zoolens.testing.store_records import dataset_record, model_record, stack_record

    with open_store(tmp_path / "s.db") as store:
        run = store.begin_run(model_record(), dataset_record(), stack_record())
        start = 1_790_000_000_000_000_000
        append_series(store, run.id, "requests", pa.table({"time": pa.array([start + 1500, start], pa.int64())}))
        assert read_stored_trace(store, run.id, "requests") == pytest.approx([0, 1.5e-6], abs=1e-12)
