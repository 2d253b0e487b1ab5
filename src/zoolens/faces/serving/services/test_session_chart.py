import json
from itertools import pairwise

import pytest

from zoolens.base.present.charts import for_file
from zoolens.base.store.records import DatasetRecord, ModelRecord, StackRecord
from zoolens.base.store.store import open_store
from zoolens.faces.serving.services.events import (
    COUNTED_EVERY,
    AnswerCounts,
    EventKind,
    ObjectiveCounts,
    ServiceEvent,
    Session,
    counted_again_after,
)
from zoolens.faces.serving.services.session_chart import session_chart, session_course

SECOND = 10**9
BEGUN = 1_700_000_000 * SECOND


@pytest.fixture
def run(tmp_path):
    with open_store(tmp_path / "store.sqlite") as store:
        model = ModelRecord("m", "service:s", "service", {})
        return store.begin_run(model, DatasetRecord("d", "requests", 0), StackRecord("s", "zoolens", {}, {}))


def at(seconds):
    return BEGUN + int(seconds * SECOND)


def served(run, answers=(), events=(), objectives=()):
    begun = (ServiceEvent(EventKind.START, "It begins.", time=BEGUN),)
    return Session("s", run, (*begun, *events), tuple(answers), (), tuple(objectives))


def total(course):
    return sum(sum(part.requests.values()) for part in course.stretches)


def test_an_even_load_looks_even_whatever_the_length_of_a_stretch(run):
    course = session_course(served(run, [AnswerCounts("m@1", "fake", 200, 200, time=at(2 * i)) for i in range(1, 400)]))
    rates = [part.requests["m in fake"] / (part.end - part.start) for part in course.stretches[:-1]]
    assert rates == [pytest.approx(100)] * len(rates)
    assert total(course) == pytest.approx(399 * 200)


def test_a_session_with_one_count_is_one_bar(run):
    """In a session of half a minute that was counted once, nobody knows when in it the requests came."""
    switch = ServiceEvent(EventKind.SWITCH, "the queue is long", "m", "n", 40, time=at(1))
    course = session_course(served(run, [AnswerCounts("m@1", "fake", 330, 330, time=at(33))], [switch]))
    (stretch,) = course.stretches
    assert stretch.end - stretch.start == pytest.approx(32, abs=2)
    assert total(course) == pytest.approx(330)


def test_an_even_load_looks_even_while_counts_become_rarer(run):
    moments = [0.0]
    while moments[-1] < 1800:
        moments.append(moments[-1] + counted_again_after(moments[-1]))
    counts = [
        AnswerCounts("m@1", "fake", round(1000 * (end - begin)), 1, time=at(end))
        for begin, end in pairwise(moments)
    ]  # fmt: skip
    stretches = session_course(served(run, counts)).stretches
    rates = [each.requests["m in fake"] / (each.end - each.start) for each in stretches]
    assert moments[1:4] == [2, 4, 6]
    assert moments[-1] - moments[-2] == COUNTED_EVERY
    assert rates[1:-1] == [pytest.approx(1000, rel=0.02)] * (len(rates) - 2)


def test_a_pause_is_a_pause(run):
    busy = [*range(2, 21, 2), *range(102, 121, 2)]
    course = session_course(served(run, [AnswerCounts("m@1", "fake", 10, 10, time=at(second)) for second in busy]))
    quiet = [part for part in course.stretches if part.start >= 24 and part.end <= 98]
    assert quiet
    assert all(not part.requests for part in quiet)
    assert total(course) == pytest.approx(200)


@pytest.mark.parametrize(
    ("counted", "quiet"),
    [
        ([780], (0, 715)),  # a single count after 13 idle minutes
        ([30, 1200], (60, 1135)),  # two, with a pause that nobody may take for the usual time between counts
        ([60, 120, 1800], (130, 1735)),
        ([5, 10, 15, 900], (20, 890)),  # of a replica, which counts more often
    ],
)
def test_no_count_is_spread_over_more_than_the_time_that_it_can_stand_for(run, counted, quiet):
    course = session_course(served(run, [AnswerCounts("m@1", "fake", 40, 40, time=at(second)) for second in counted]))
    silent = [part for part in course.stretches if part.start >= quiet[0] and part.end <= quiet[1]]
    assert silent
    assert all(not part.requests for part in silent)
    assert total(course) == pytest.approx(40 * len(counted))


def test_switches_are_marked_with_their_reasons(run):
    switch = ServiceEvent(EventKind.SWITCH, "the queue is long", "small", "large", 40, time=at(3))
    answers = [AnswerCounts("large", "fake", 5, 5, time=at(2)), AnswerCounts("small", "fake", 9, 9, time=at(4))]
    course = session_course(served(run, answers, [switch]))
    assert course.models == ("large in fake", "small in fake")
    assert [event.at for event in course.switches] == [3]
    chart = session_chart(course)
    band, rates, queue = chart.spec["vconcat"]
    assert [(row["x"], row["text"]) for row in band["data"]["values"]] == [(3, "small")]
    assert band["data"]["values"][0]["model"] == "small in fake"
    assert rates["layer"][0]["data"]["values"] == [{"x": 3, "words": "large → small: the queue is long"}]
    assert queue["layer"][0]["data"]["values"][0]["y"] == 40


def test_the_share_in_time_counts_refused_requests_as_late(run):
    kept = [ObjectiveCounts(80, 80, 20, 0.02, 99, time=at(second)) for second in (2, 4, 6)]
    course = session_course(served(run, objectives=kept))
    assert sum(part.refused for part in course.stretches) == pytest.approx(60)
    shares = session_chart(course).spec["vconcat"][1]["layer"][2]["data"]["values"]
    assert {round(row["y"], 6) for row in shares} == {80}


@pytest.mark.parametrize("answers", [(), (AnswerCounts("m", "fake", 3, 3, time=BEGUN),)])
def test_an_empty_session_and_one_of_a_moment_are_drawn(run, answers):
    course = session_course(served(run, answers))
    assert total(course) == sum(row.requests for row in answers)
    json.dumps(for_file(session_chart(course)), allow_nan=False)
    json.dumps(for_file(session_chart(session_course(Session("s", run, (), (), ())))), allow_nan=False)
