"""Each rule of the policy `latency` by itself, one situation after the other. `make mutants` runs these.

No batch gains anything here, so that times can be added up by hand: n inputs take n × 10, n × 4 or n × 1 ms. Of the
50 ms that are promised a prediction may use 40.
"""

from dataclasses import replace

import pytest

from zoolens.base.errors import ZoolensError
from zoolens.faces.serving.contracts.ladder import Ladder, LatencyProfile, Rung
from zoolens.faces.serving.policies.latency import Latency
from zoolens.faces.serving.policies.policy import Choice, Situation
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
    """In the 10 ms of the reference 32 more come, which the quickest tier answers in 32 ms; of tier 1 it is 4 + 12."""
    assert choice(policy(), arrival_rate=2_900.0).rung == 0
    told = choice(policy(), arrival_rate=3_250.0)
    why = "With 1 waiting, toys:model-0 would use 84 % of the time left; toys:model-1 keeps 50 ms."
    assert told == Choice(1, why, (), 1)


def test_inputs_of_those_that_come_count_by_what_requests_have_of_late():
    made = policy()
    for place in range(60):
        choice(made, now=place * 1e-3, inputs_waiting=4, batch=4, max_batch=8)
    # 40 ms for four inputs of the reference would be just in time; 4 × 4 of tier 1 are, with 16 more behind them.
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


def test_a_quickest_rung_that_is_hardly_quicker_is_too_slow_for_the_next_in_line():
    """10 + 9 ms, where nine tenths of what the oldest has waited are gone; five instances share the others."""
    near = simulated_ladder((0.010, 0.009), batching=1.0)
    both = frozenset({0, 1})
    line = {"waiting": 10, "inputs_waiting": 10, "instances": 5, "loaded": both, "allowed": both}
    assert choice(policy(near, **STRICT), **line, oldest_wait=0.028).rung == 0  # 19 of 24.8
    assert choice(policy(near, **STRICT), **line, oldest_wait=0.030).rung == 1  # 19 of 23, 18 of 23
    coming = {"arrival_rate": 150.0, "oldest_wait": 0.027, "loaded": both, "allowed": both}
    assert choice(policy(near, **STRICT), **coming).rung == 0  # who comes meanwhile has not waited yet


GAIN = {1: 0.010, 2: 0.012, 4: 0.016, 8: 0.024, 16: 0.036, 32: 0.060}
GAINING = Ladder(
    (
        Rung("gains", "fake", 1.0, 1.0, LatencyProfile(GAIN)),
        Rung("cheap", "fake", 0.9, 0.9, LatencyProfile({1: 0.001, 32: 0.032})),
    )
)
BOTH = {"loaded": frozenset({0, 1}), "allowed": frozenset({0, 1})}


def test_a_batch_is_as_large_as_the_time_that_is_left_allows():
    alone = Ladder(GAINING.rungs[:1])
    only = {"loaded": frozenset({0}), "allowed": frozenset({0})}
    eight = {**only, "waiting": 8, "batch": 8, "inputs_waiting": 8}
    assert choice(policy(alone), **eight).batch == 8
    assert choice(policy(alone), **eight, oldest_wait=0.029).batch == 4  # 0.8 × 21 ms
    assert choice(policy(alone), **only).batch == 1
    assert choice(policy(alone), **only, oldest_wait=0.060).batch == 1


def test_those_behind_are_answered_in_batches_of_the_largest_size():
    """Four more by one after the other take 40 ms, in pairs they would take 24."""
    alone = Ladder(GAINING.rungs[:1])
    line = {"loaded": frozenset({0}), "allowed": frozenset({0}), "waiting": 5, "inputs_waiting": 5}
    assert choice(policy(alone), **line, max_batch=1).reason.startswith("No loaded model")
    assert choice(policy(alone), **line, max_batch=2).reason == "gains keeps 50 ms."


def test_how_busy_a_rung_becomes_is_counted_in_batches_that_keep_the_promise():
    """Batches of 32 would take 60 ms; in those of 16 an input takes 2.25 ms."""
    back = {**BOTH, "current": 1, "max_batch": 32}
    assert choice(policy(GAINING), **back, arrival_rate=320.0).rung == 0
    assert choice(policy(GAINING), **back, arrival_rate=350.0).rung == 1


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
    assert told == "toys:model-0 would be 70 % busy at 70 requests/s and keeps 50 ms."


@pytest.mark.parametrize("start", [0.0, 1000.0])
def test_the_rate_is_the_average_of_the_hold(start):
    """A second of 200 and a second of 20 requests/s are 110 on average; when the first is forgotten, 20."""
    made = policy()
    samples = ((0.0, 200.0), (1.0, 200.0), (2.0, 20.0), (2.9, 20.0))  # in the end (0.1 × 200 + 1.9 × 20) / 2
    given = [{"current": 1, "now": start + at, "arrival_rate": rate} for at, rate in samples]
    assert rungs(made, *given) == [1, 1, 1, 0]
    exact = policy()
    choice(exact, now=start, current=1, arrival_rate=200.0)
    told = choice(exact, now=start + 2.0, arrival_rate=40.0)
    assert told.reason == "toys:model-0 would be 40 % busy at 40 requests/s and keeps 50 ms."


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


def test_a_better_rung_is_as_busy_as_requests_have_inputs():
    """40 requests/s of four inputs keep 5 ms 80 % busy, 36 keep them 72 % busy."""
    quick = simulated_ladder((0.005, 0.004, 0.001), batching=1.0)
    four = {"inputs_waiting": 4, "batch": 4}
    for rate, rung in ((40.0, 1), (36.0, 0)):
        made = policy(quick)
        for place in range(60):
            choice(made, now=place * 1e-3, current=1, arrival_rate=400.0, **four)
        assert choice(made, now=10.0, arrival_rate=rate, **four).rung == rung
    assert choice(policy(quick), current=1, arrival_rate=100.0, **four).rung == 0  # one request of four proves little


def test_a_fall_soon_after_a_rise_is_measured_by_the_hold():
    made = policy(hold=2.0)
    assert rungs(made, QUEUE, {"now": 0.51}, {**QUEUE, "now": 0.81}, {"now": 1.6}, {"now": 1.82}) == [1, 0, 1, 1, 0]
    calm = policy(hold=2.0)
    assert rungs(calm, QUEUE, {"now": 0.51}, {"now": 10.0}, {**QUEUE, "now": 10.1}, {"now": 10.7}) == [1, 0, 0, 1, 0]


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


def test_the_share_of_late_answers_is_averaged_over_500_requests():
    """An eighth of the requests may be late knowingly: 1 − 0.998^k + 0.002 passes it after 66."""
    slow = simulated_ladder((0.045, 0.004), batching=1.0)
    made = policy(slow, percentile=50.0)
    told = [choice(made, **BOTH, now=place * 1e-3).rung for place in range(70)]
    assert told.index(1) == 66


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


def test_what_is_left_of_the_promise_is_no_deadline_of_a_client():
    kept = choice(policy(), oldest_wait=0.038, time_left=0.012)
    assert (kept.rung, kept.reason) == (0, "toys:model-0 keeps 50 ms for all others.")
    assert choice(policy(), time_left=0.020).reason == "toys:model-0 keeps 50 ms."
    assert choice(policy(), waiting=3, inputs_waiting=3, time_left=0.006).rung == 1


def test_a_pinned_request_that_no_allowed_rung_answers_in_time_gets_the_quickest_of_them():
    made = policy()
    assert choice(made, current=2, arrival_rate=300.0, waiting=2).rung == 2
    late = choice(made, allowed=frozenset({0, 1}), oldest_wait=0.060)
    assert (late.rung, late.batch) == (1, 1)


def test_a_request_that_accepts_the_present_rung_gets_it():
    made = policy()
    choice(made)
    assert choice(made, allowed=frozenset({0, 1})).reason == "toys:model-0 keeps 50 ms."
    assert choice(policy(), loaded=frozenset({1, 2})).reason == "toys:model-1 keeps 50 ms."


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
    """Rung 1 is quickest for one input, tier 3 for eight."""
    times = ({1: 0.010, 8: 0.08}, {1: 0.001, 8: 0.07}, {1: 0.005, 8: 0.06}, {1: 0.004, 8: 0.004})
    made = policy(
        Ladder(tuple(Rung(f"m{place}", "fake", 1.0, 1.0, LatencyProfile(t)) for place, t in enumerate(times)))
    )
    every = frozenset(range(4))
    assert choice(made, loaded=frozenset({0}), allowed=every).preload == (1, 3)
    assert choice(made, loaded=frozenset({0}), allowed=every, max_batch=1).preload == (1,)


def test_reasons():
    assert choice(policy()).reason == "toys:model-0 keeps 50 ms."
    assert Latency(LADDER, {"target": 1.5}).choose(CALM).reason == "toys:model-0 keeps 1.5 s."
    assert Latency(LADDER, {"target": 1.0}).choose(CALM).reason == "toys:model-0 keeps 1 s."
    late = choice(policy(**STRICT), current=2, oldest_wait=0.060, loaded=frozenset({2}))
    assert late.reason == "No loaded model would answer all who wait within 50 ms; none is quicker."
    gone = choice(policy(**STRICT), oldest_wait=0.050)
    assert gone.reason == "No loaded model would answer all who wait within 50 ms; toys:model-2 comes nearest."


def test_settings():
    assert policy(hold=3.0).settings == {"target": 0.050, "hold": 3.0}
    with pytest.raises(ZoolensError, match="The policy latency needs the setting 'target'"):
        Latency(LADDER, {})
