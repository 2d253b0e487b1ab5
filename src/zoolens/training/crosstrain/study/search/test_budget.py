import pytest

from zoolens.base.errors import ZoolensError
from zoolens.training.crosstrain.study.search.budget import Budget, duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("9m", 540), ("9 min", 540), ("1.5h", 5400), ("200ms", 0.2), ("1h30m", 5400), ("2d", 172800)],
)
def test_durations_are_read(text, seconds):
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "90", "m", "-5s", "5 weeks", "1e3s", "nan s", "0s", "9999999d", "5s5", "٣s"])
def test_other_words_are_no_duration(text):
    with pytest.raises(ZoolensError, match="duration"):
        parse_duration(text)


def test_durations_are_told():
    told = [duration(seconds) for seconds in (0.24, 42, 59.7, 540, 571, 5400, 7200)]
    assert told == ["0.24 s", "42 s", "1 min", "9 min", "9 min 31 s", "1 h 30 min", "2 h"]


def test_a_trial_that_would_not_fit_is_not_begun():
    budget = Budget(seconds=100)
    assert budget.refusal(79, [20, 20], running=0) is None
    assert "1 min 21 s of the slice of 1 min 40 s are used" in budget.refusal(81, [10, 30], running=0)
    assert budget.refusal(99, [], running=0) is None  # nothing is known of how long it takes
    assert "are used." in budget.refusal(100, [], running=0)


def test_a_slice_that_no_trial_fits_says_so():
    assert "longer than the whole slice" in Budget(seconds=10).refusal(0, [700], running=0)


def test_device_time_counts_all_calls_and_what_runs_now():
    budget = Budget(device_seconds=100)
    assert budget.refusal(1e6, [30, 30], running=0) is None
    assert "device time" in budget.refusal(0, [30, 30], running=1)


@pytest.mark.parametrize("given", [{"trials": 0}, {"seconds": -1.0}, {"device_seconds": float("nan")}])
def test_a_budget_of_nothing_is_refused(given):
    with pytest.raises(ZoolensError, match="allows nothing"):
        Budget(**given)
