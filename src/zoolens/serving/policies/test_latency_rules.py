"""Each rule of the policy `latency` by itself, one situation after the other. `make mutants` runs these.

No batch gains anything here, so that times can be added up by hand: n inputs take n × 10, n × 4 or n × 1 ms. Of the
50 ms that are promised a prediction may use 40.
"""

from dataclasses import replace

import pytest

from zoolens.serving.ladder import Ladder, LatencyProfile, Rung
from zoolens.serving.policies.base import Choice, Situation
from zoolens.serving.policies.latency import Latency
from zoolens.testing.serving_simulation import simulated_ladder

ALL = frozenset({0, 1, 2})
LADDER = simulated_ladder((0.010, 0.004, 0.001), batching=1.0)
CALM = Situation(
    now=0.0, wall=0.0, current=0, batch=1, waiting=1, oldest_wait=0.0, time_left=None, arrival_rate=0.0, loaded=ALL,
    allowed=ALL, max_batch=8,
)  # fmt: skip
STRICT = {"percentile": 99.99}  # no late answer is taken knowingly
QUEUE = {"waiting": 32, "batch": 8, "inputs_waiting": 32}  # 10 + 31 ms are too many, 4 + 31 are not


def policy(ladder=LADDER, **settings):
    made = Latency(ladder, {"target": 0.050, **settings})
    for rung, known in enumerate(ladder.rungs):
        made.served(rung, 1, known.profile.of(1))  # as its profile says
    return made


def choice(made, **changes):
    return made.choose(replace(CALM, **changes))


def rungs(made, *situations):
    return [choice(made, **changes).rung for changes in situations]


# --- what is predicted


def test_requests_that_come_during_a_batch_count():
    """In the 10 ms of the reference 32 more come, which the quickest rung answers in 32 ms; of rung 1 it is 4 + 12."""
    assert choice(policy(), arrival_rate=2_900.0).rung == 0
    told = choice(policy(), arrival_rate=3_250.0)
    why = "With 1 waiting, toys:model-0 would use 84% of the time left; toys:model-1 keeps 50 ms."
    assert told == Choice(1, why, (), 1)


def test_inputs_of_those_that_come_count_by_what_requests_have_of_late():
    made = policy()
    for place in range(60):
        choice(made, now=place * 1e-3, inputs_waiting=4, batch=4, max_batch=8)
    # 40 ms for four inputs of the reference would be just in time; 4 × 4 of rung 1 are, with 16 more behind them.
    assert choice(made, now=0.1, inputs_waiting=4, batch=4, arrival_rate=25.0).rung == 1
    assert choice(policy(), arrival_rate=100.0).rung == 0


def test_all_who_wait_count():
    assert choice(policy(), waiting=30, batch=8, inputs_waiting=30).rung == 0  # 10 + 29
    assert choice(policy(), **QUEUE).rung == 1  # 10 + 31, 4 + 31
    assert choice(policy(), waiting=38, batch=8, inputs_waiting=38).rung == 2  # 4 + 37, 1 + 37


def test_instances_share_what_waits():
    queue = {"waiting": 48, "batch": 8, "inputs_waiting": 48}
    assert choice(policy(), **queue, instances=2).rung == 0  # 10 + 47 / 2
    assert choice(policy(), **queue, instances=1).rung == 2
    assert choice(policy(), **queue, instances=1).reason == (
        "No loaded model would answer all who wait within 50 ms; toys:model-2 comes nearest."
    )


def test_instances_share_what_arrives():
    """140 requests/s of 10 ms keep one instance 140 % busy, two of them 70 %."""
    arriving = {"arrival_rate": 140.0, "waiting": 2, "current": 1}
    assert choice(policy(), **arriving, instances=1).rung == 1
    assert choice(policy(), **arriving, instances=2).rung == 0


def test_the_time_that_the_oldest_has_waited_is_gone():
    assert choice(policy(**STRICT), oldest_wait=0.037).rung == 0  # 10 of 13 ms
    assert choice(policy(**STRICT), oldest_wait=0.038).rung == 1  # 10 of 12
    late = choice(policy(**STRICT), oldest_wait=0.060)
    assert late.rung == 2
    assert late.reason == "No loaded model would answer all who wait within 50 ms; toys:model-2 comes nearest."


def test_the_next_in_line_has_waited_nearly_as_long():
    """Of ten the next one has waited nine tenths as long: 10 + 1 ms for what is left of its time."""
    assert choice(policy(**STRICT), waiting=10, batch=1, inputs_waiting=10, oldest_wait=0.036).rung == 0
    assert choice(policy(**STRICT), waiting=10, batch=1, inputs_waiting=10, oldest_wait=0.0395).rung == 1
    gone = choice(policy(**STRICT), waiting=10, batch=1, inputs_waiting=10, oldest_wait=0.2)
    assert (gone.rung, gone.batch) == (2, 1)


def test_a_margin_of_the_time_is_kept():
    assert choice(policy(margin=0.5), waiting=15, batch=8, inputs_waiting=15).rung == 0  # 10 + 14
    assert choice(policy(margin=0.5), waiting=17, batch=8, inputs_waiting=17).rung == 1  # 10 + 16


def test_a_rung_that_was_slower_than_its_profile_is_believed():
    made = policy(**STRICT)
    for _ in range(20):
        made.served(0, 1, 0.045)
    assert choice(made).rung == 1


# --- coming back


def test_it_stays_down_for_a_quarter_of_the_hold():
    assert rungs(policy(), QUEUE, {"now": 0.49}, {"now": 0.50}) == [1, 1, 0]
    assert rungs(policy(hold=8.0), QUEUE, {"now": 1.99}, {"now": 2.0}) == [1, 1, 0]


def test_each_failure_to_come_back_doubles_the_wait_up_to_eight_times_the_hold():
    made = policy(hold=1.0)
    now = 0.0
    for patience in (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 8.0):
        assert rungs(made, {**QUEUE, "now": now}) == [1], patience
        assert rungs(made, {"now": now + patience - 0.01}, {"now": now + patience + 0.01}) == [1, 0], patience
        now += patience + 0.02


def test_a_rise_that_lasted_makes_it_patient_no_longer():
    made = policy(hold=1.0)
    assert rungs(made, QUEUE, {"now": 0.26}, {**QUEUE, "now": 0.27}, {"now": 0.78}) == [1, 0, 1, 0]
    assert rungs(made, {**QUEUE, "now": 1.29}, {"now": 1.53}, {"now": 1.55}) == [1, 1, 0]  # 0.51 s after the rise


def test_a_better_rung_must_leave_headroom_of_its_time():
    """Three quarters of 40 ms: 10 + 19 are few enough, 10 + 21 are not."""
    down = {"now": -100.0, "current": 1}
    roomy = {"waiting": 20, "batch": 1, "inputs_waiting": 20}
    assert rungs(policy(), {**down, **QUEUE}, {"now": 1.0, **roomy}) == [1, 0]
    assert rungs(policy(), {**down, **QUEUE}, {"now": 1.0, "waiting": 22, "batch": 1, "inputs_waiting": 22}) == [1, 1]
    assert rungs(policy(headroom=0.5), {**down, **QUEUE}, {"now": 1.0, **roomy}) == [1, 1]


def test_a_better_rung_must_not_become_too_busy():
    """At 70 requests/s the reference is 70 % busy, at 80 it is 80 %."""
    assert choice(policy(), current=1, arrival_rate=70.0).rung == 0
    assert choice(policy(), current=1, arrival_rate=80.0).rung == 1
    assert choice(policy(headroom=0.6), current=1, arrival_rate=70.0).rung == 1
    assert choice(policy(), current=2, arrival_rate=80.0).rung == 1  # the best that may


def test_the_reason_of_coming_back_says_how_busy_it_will_be():
    told = choice(policy(), current=1, arrival_rate=70.0).reason
    assert told == "toys:model-0 would be 70% busy at 70 requests/s and keeps 50 ms."


def test_the_rate_is_the_average_of_the_hold():
    """A second of 200 and a second of 20 requests/s are 110 on average; when the first is forgotten, 20."""
    made = policy()
    assert rungs(made, {"current": 1, "arrival_rate": 200.0}) == [1]
    assert rungs(made, {"now": 1.0, "arrival_rate": 200.0}, {"now": 2.0, "arrival_rate": 20.0}) == [1, 1]
    assert rungs(made, {"now": 2.9, "arrival_rate": 20.0}) == [0]  # (0.1 × 200 + 1.9 × 20) / 2


def test_many_samples_of_the_rate_are_thinned_to_the_newest():
    made = policy()
    for place in range(1000):
        choice(made, now=place * 1e-3, arrival_rate=200.0, current=1)
    assert len(made._rates) <= 51
    assert choice(made, now=1.0, arrival_rate=200.0).rung == 1


def test_a_single_request_tries_a_rung_that_never_answered():
    """Its profile promises 100 ms, of which nothing is known."""
    slow = simulated_ladder((0.100, 0.004), batching=1.0)
    loaded = frozenset({0, 1})
    unknown = {"current": 1, "loaded": loaded, "allowed": loaded}
    fresh = Latency(slow, {"target": 0.050})
    assert choice(fresh, **unknown, waiting=2).rung == 1
    assert choice(fresh, **unknown).rung == 0
    fresh.served(0, 1, 0.100)
    assert choice(fresh, **unknown, now=100.0).rung == 1
    assert choice(policy(slow), **unknown).rung == 1  # it was observed


# --- late answers that the percentile allows


def test_some_late_answers_are_allowed_where_all_others_are_in_time():
    slow = simulated_ladder((0.045, 0.004), batching=1.0)
    both = {"loaded": frozenset({0, 1}), "allowed": frozenset({0, 1})}
    told = choice(policy(slow), **both)
    assert told.rung == 0
    assert told.reason == "toys:model-0 keeps 50 ms for all others."
    assert choice(policy(slow, percentile=99.9), **both).rung == 1  # a quarter of one in a thousand is less than 1/500
    assert choice(policy(slow), **both, waiting=2, inputs_waiting=2).rung == 1  # the second would be late, too


def test_late_answers_are_counted():
    slow = simulated_ladder((0.045, 0.044), batching=1.0)
    both = {"loaded": frozenset({0, 1}), "allowed": frozenset({0, 1})}
    made = policy(slow)
    reasons = [choice(made, **both, now=float(place)).reason for place in range(3)]
    assert [reason.endswith("for all others.") for reason in reasons] == [True, False, False]
    assert reasons[1] == "No loaded model would answer all who wait within 50 ms; toys:model-1 comes nearest."


# --- who may answer


def test_a_hurried_client_is_answered_by_a_quicker_rung_alone():
    made = policy()
    hurried = choice(made, time_left=0.006)
    assert hurried == Choice(1, "The client's own deadline leaves 6 ms.", (), 1)  # 4 of 6 ms
    assert choice(made, time_left=0.0125).rung == 0  # 10 of 12.5
    assert choice(made, time_left=0.0124).rung == 1
    assert choice(made, time_left=0.001).rung == 2  # nobody: the quickest
    assert choice(made, time_left=0.0).rung == 0  # too late for any
    assert choice(made).rung == 0


def test_a_pinned_request_changes_nothing_for_the_others():
    made = policy()
    assert choice(made).rung == 0
    pinned = choice(made, allowed=frozenset({2}))
    assert pinned == Choice(2, "The client pinned a model or set a minimum equivalence.", (), 1)
    assert choice(made).rung == 0
    assert choice(made, allowed=frozenset({1, 2})).rung == 1  # the better of both
    assert choice(made, allowed=frozenset({1, 2}), **{**QUEUE, "waiting": 38, "inputs_waiting": 38}).rung == 2
    assert choice(made, allowed=frozenset({0, 2}), **QUEUE).rung == 2
    assert choice(made).rung == 0  # what a restricted request needs is not remembered


def test_a_loaded_rung_answers_before_one_that_is_not():
    assert choice(policy(), loaded=frozenset({1, 2})).rung == 1
    assert choice(policy(), loaded=frozenset()).rung == 0
    assert choice(policy(), **QUEUE, loaded=frozenset({0, 2})).rung == 2


@pytest.mark.parametrize(
    ("current", "loaded", "preload"),
    [
        (0, {0}, (1, 2)),
        (1, {1}, (2, 0)),
        (2, {2}, (1,)),
        (0, {0, 1}, (2,)),
        (0, {0, 2}, (1,)),
        (0, {0, 1, 2}, ()),
    ],
)
def test_the_neighbours_and_the_quickest_are_preloaded_the_next_one_down_first(current, loaded, preload):
    assert choice(policy(), current=current, loaded=frozenset(loaded)).preload == preload


def test_the_quickest_for_a_burst_is_that_of_the_largest_batch():
    """Rung 1 is quickest for one input, rung 3 for eight."""
    times = ({1: 0.010, 8: 0.08}, {1: 0.001, 8: 0.07}, {1: 0.005, 8: 0.06}, {1: 0.004, 8: 0.004})
    made = policy(
        Ladder(tuple(Rung(f"m{place}", "fake", 1.0, 1.0, LatencyProfile(t)) for place, t in enumerate(times)))
    )
    every = frozenset(range(4))
    assert choice(made, loaded=frozenset({0}), allowed=every).preload == (1, 3)


def test_reasons():
    assert choice(policy()).reason == "toys:model-0 keeps 50 ms."
    assert Latency(LADDER, {"target": 1.5}).choose(CALM).reason == "toys:model-0 keeps 1.5 s."
    late = choice(policy(**STRICT), current=2, oldest_wait=0.060, loaded=frozenset({2}))
    assert late.reason == "No loaded model would answer all who wait within 50 ms; none is quicker."
    gone = choice(policy(**STRICT), oldest_wait=0.050)
    assert gone.reason == "No loaded model would answer all who wait within 50 ms; toys:model-2 comes nearest."
