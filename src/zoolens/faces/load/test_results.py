import json
import math

import numpy as np
import pytest

from zoolens.faces.load.exchanges import Exchanges, Outcome, outcome_of_code, outcome_of_status
from zoolens.faces.load.results import as_data, summarise


def run_of(latency, *, gap=0.01, outcomes=None, late=0.0):
    exchanges = Exchanges(len(latency))
    exchanges.intended[:] = np.arange(len(latency)) * gap
    exchanges.sent[:] = exchanges.intended + late
    for row, seconds in enumerate(latency):
        exchanges.finish(row, exchanges.intended[row] + seconds, outcomes[row] if outcomes else Outcome.ANSWERED)
    return exchanges


def summary(exchanges, **settings):
    return summarise(exchanges, **{"loop": "open", "seconds": len(exchanges) * 0.01, **settings})


def percentile(results, name):
    return next(row for row in results.percentiles if row.name == name)


def test_percentiles_are_those_of_numpy_and_lie_in_their_intervals():
    latency = np.random.default_rng(0).exponential(0.02, 4000)
    results = summary(run_of(latency))
    for name, q in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
        row = percentile(results, name)
        assert row.answered == pytest.approx(np.quantile(latency, q))
        assert row.low <= row.answered <= row.high
        assert row.asked == row.answered  # where every request was answered, both columns are about the same ones
    assert percentile(results, "max").answered == pytest.approx(latency.max())
    assert results.offered_rate == pytest.approx(100)


def test_a_server_that_sheds_does_not_look_quick():
    outcomes = [Outcome.ANSWERED if row % 10 == 0 else Outcome.SHED for row in range(1000)]
    results = summary(run_of([0.001] * 1000, outcomes=outcomes), deadline=0.05)
    assert percentile(results, "p99").answered == pytest.approx(0.001)
    assert percentile(results, "p50").asked == math.inf
    assert results.goodput.value == pytest.approx(0.1)
    assert results.outcomes == {Outcome.ANSWERED: 100, Outcome.SHED: 900}
    assert results.answered_rate == pytest.approx(10, rel=0.01)
    assert as_data(results)["latency_seconds"]["p50"]["all_requests"] is None


def test_latency_counts_from_the_intended_time_though_the_request_was_sent_late():
    exchanges = run_of([0.5] * 300, late=0.4)
    assert exchanges.latency == pytest.approx(0.5)
    results = summary(exchanges)
    assert not results.valid
    assert "late" in results.invalid[0]
    assert results.driver_late_p99 == pytest.approx(0.4)


def test_a_little_lateness_of_the_driver_is_allowed():
    assert summary(run_of([0.1] * 300, late=0.004)).valid  # 5 % of the median are 5 ms
    assert not summary(run_of([0.01] * 300, late=0.004)).valid


def test_a_run_that_waited_for_connections_is_invalid():
    exchanges = run_of([0.5] * 300)
    exchanges.held[:10] = True
    assert "free connection" in summary(exchanges).invalid[0]
    assert summary(exchanges, loop="closed").valid


def test_latencies_that_move_together_have_no_interval_where_they_do_so_all_the_time():
    random = np.random.default_rng(1)
    values = random.exponential(0.02, 4000)
    together = np.sort(values)  # the same values, each beside its like
    apart, moving = (percentile(summary(run_of(latency)), "p90") for latency in (values, together))
    assert apart.low < apart.answered < apart.high
    assert (moving.low, moving.high) == (None, None)


def test_so_few_requests_have_no_interval():
    row = percentile(summary(run_of([0.01] * 30)), "p99")
    assert row.high is None


def test_accuracy_counts_inputs_and_not_how_often_they_were_sent():
    few, many = run_of([0.01] * 2000), run_of([0.01] * 2000)
    for exchanges, inputs in ((few, 20), (many, 2000)):
        exchanges.input[:] = np.arange(2000) % inputs
        exchanges.correct[:] = exchanges.input % 5 > 0
    narrow, wide = summary(many).accuracy, summary(few).accuracy
    assert narrow.value == wide.value == pytest.approx(0.8)
    assert wide.interval.high - wide.interval.low > 4 * (narrow.interval.high - narrow.interval.low)


def test_accuracy_is_of_answered_requests_with_labels_alone():
    exchanges = run_of([0.01] * 4, outcomes=[Outcome.ANSWERED] * 3 + [Outcome.SHED])
    assert summary(exchanges).accuracy is None
    exchanges.input[:] = range(4)
    exchanges.correct[:] = [1, 0, -1, 1]
    accuracy = summary(exchanges).accuracy
    assert (accuracy.count, accuracy.total) == (1, 2)


def test_accuracy_of_answers_that_are_all_right_is_not_called_certain():
    exchanges = run_of([0.01] * 100)
    exchanges.input[:], exchanges.correct[:] = range(100), 1
    interval = summary(exchanges).accuracy.interval
    assert interval.high == 1
    assert interval.low < 0.97


def test_answers_are_told_apart_by_model_and_switches_are_placed_in_time():
    exchanges = run_of([0.02] * 90)
    for row in range(90):
        exchanges.answered_by(row, "large" if row < 30 or row >= 60 else "small")
    results = summary(exchanges)
    assert [(row.model, row.count) for row in results.models] == [("large", 60), ("small", 30)]
    assert results.switches == pytest.approx([0.32, 0.62])


def test_a_run_without_any_answer_has_a_summary():
    results = summary(run_of([0.1] * 10, outcomes=[Outcome.DISCONNECTED] * 10), deadline=1.0)
    assert math.isnan(percentile(results, "p50").answered)
    assert results.goodput.value == 0
    json.dumps(as_data(results), allow_nan=False)


def test_only_the_first_words_of_each_failure_are_kept():
    exchanges = run_of([0.1] * 2)
    exchanges.finish(0, 1.0, Outcome.SHED, "The queue is full.")
    exchanges.finish(1, 1.0, Outcome.SHED, "The queue is still full.")
    assert summary(exchanges).reasons == {Outcome.SHED: "The queue is full."}


@pytest.mark.parametrize(
    ("status", "code", "outcome"),
    [
        (200, "OK", None),
        (429, "RESOURCE_EXHAUSTED", Outcome.SHED),
        (503, "UNAVAILABLE", Outcome.UNAVAILABLE),
        (504, "DEADLINE_EXCEEDED", Outcome.TOO_LATE),
        (404, "NOT_FOUND", Outcome.REFUSED),
        (400, "INVALID_ARGUMENT", Outcome.REFUSED),
        (500, "INTERNAL", Outcome.FAILED),
        (302, "UNKNOWN", Outcome.FAILED),
    ],
)
def test_codes_of_both_transports_mean_the_same(status, code, outcome):
    if outcome is None:
        assert outcome_of_status(status) is Outcome.ANSWERED
    else:
        assert outcome_of_status(status) is outcome_of_code(code) is outcome


def test_exchanges_become_a_series_of_a_store():
    exchanges = run_of([0.5, 0.25])
    exchanges.answered_by(0, "net")
    exchanges.started_ns = 10**18
    table = exchanges.table().to_pylist()
    assert table[1]["time"] == 10**18 + 10_000_000
    assert [row["model"] for row in table] == ["net", None]
    assert table[0]["outcome"] == "answered"
    assert table[0]["correct"] is None
