import random
from dataclasses import replace

import pytest

from zoolens.faces.serving.contracts.ladder import Ladder, LatencyProfile, Rung
from zoolens.faces.serving.policies.fixed import Fixed
from zoolens.faces.serving.policies.latency import Latency
from zoolens.faces.serving.policies.policy import Situation
from zoolens.testing.serving_simulation import Conditions, simulate, simulated_ladder

DEADLINE = 0.050
LADDER = simulated_ladder((0.010, 0.004, 0.001))  # at batch 8: 45, 18 and 4.5 ms, so 178, 444 and 1,778 requests/s


def latency(**settings):
    return Latency(LADDER, {"target": DEADLINE, **settings})


def poisson(rate, seconds, start=0.0, seed=0):
    chance = random.Random(seed)
    now, arrivals = start, []
    while (now := now + chance.expovariate(rate)) < start + seconds:
        arrivals.append(now)
    return arrivals


def test_a_quiet_service_is_answered_by_the_reference():
    result = simulate(latency(), poisson(30, 20), deadline=DEADLINE)
    assert result.kept >= 0.99
    assert result.share(0) >= 0.97


def test_a_burst_is_answered_in_time_by_a_cheaper_model_and_the_reference_comes_back():
    quiet, burst, after = poisson(30, 10), poisson(530, 10, 10.0, 1), poisson(30, 20, 20.0, 2)
    result = simulate(latency(), quiet + burst + after, deadline=DEADLINE)
    assert result.kept >= 0.99
    in_burst = result.rungs[len(quiet) + 50 : len(quiet) + len(burst)]
    assert in_burst.count(0) / len(in_burst) < 0.1
    assert set(result.rungs[-300:]) == {0}
    fixed = simulate(Fixed(LADDER, {}), quiet + burst + after, deadline=DEADLINE)
    assert set(fixed.rungs) == {0}
    assert fixed.kept < 0.4  # without switching


def test_a_sawtooth_does_not_make_it_flap():
    arrivals = [at for tooth in range(30) for at in poisson(500 if tooth % 2 else 20, 1.0, float(tooth), tooth)]
    result = simulate(latency(), arrivals, deadline=DEADLINE)
    assert result.kept >= 0.985
    assert len(result.switches) <= 12  # 30 changes of load


def test_constant_overload_settles_on_the_quickest_model():
    result = simulate(latency(), poisson(1500, 6), deadline=DEADLINE)
    assert set(result.rungs[-2000:]) == {2}
    assert result.kept >= 0.99
    assert len(result.switches) <= 3


def test_an_overload_that_no_model_bears_is_answered_by_the_quickest_one():
    result = simulate(latency(), poisson(4000, 2), deadline=DEADLINE)
    assert result.share(2) >= 0.9
    assert result.switches[-1][1] == 2


@pytest.mark.slow  # 20,000 requests; the tests around it go down and up, too
def test_a_slow_drift_goes_down_step_by_step_and_up_again():
    rates = [*range(20, 900, 40), *range(900, 20, -40)]
    arrivals = [at for second, rate in enumerate(rates) for at in poisson(rate, 1.0, float(second), second)]
    result = simulate(latency(), [*arrivals, *poisson(20, 20, float(len(rates)), 99)], deadline=DEADLINE)
    assert result.kept >= 0.985
    assert result.rungs[-1] == 0
    assert {rung for _, rung in result.switches} == {0, 1, 2}
    assert len(result.switches) <= 14


def test_a_rung_that_becomes_slower_than_its_profile_is_left_and_tried_again_later():
    def slow_for_a_while(now, rung):
        return 8.0 if rung == 0 and 5 <= now < 25 else 1.0

    result = simulate(latency(), poisson(60, 90), deadline=DEADLINE, conditions=Conditions(slowness=slow_for_a_while))
    assert result.rungs[0] == 0
    assert result.rungs[-1] == 0  # believed again
    meanwhile = [rung for rung, place in zip(result.rungs, range(len(result.rungs)), strict=True) if 400 < place < 1400]
    assert meanwhile.count(0) / len(meanwhile) < 0.1
    assert result.kept >= 0.95


def test_it_goes_down_before_the_deadline_is_missed_not_after():
    arrivals = [0.0] * 60  # all at once: the reference would need 8 batches of 45 ms
    result = simulate(latency(), arrivals, deadline=DEADLINE)
    assert max(result.latencies) <= DEADLINE
    assert result.switches[0][0] == 0.0


def test_a_switch_never_waits_for_a_load():
    policy = latency()
    arrivals = [*poisson(30, 5), *poisson(600, 10, 5.0, 1)]
    result = simulate(policy, arrivals, deadline=DEADLINE, conditions=Conditions(loading=1.0, loaded=frozenset({0})))
    assert result.kept >= 0.98  # the neighbours were loaded while it was quiet


def test_after_a_pause_the_reference_answers_at_once():
    result = simulate(latency(), [*poisson(600, 5), 60.0, 60.1], deadline=DEADLINE)
    assert result.rungs[-2:] == [0, 0]


def test_the_reason_says_what_was_predicted():
    result = simulate(latency(), [0.0] * 60, deadline=DEADLINE)
    assert result.reasons[0].startswith("With 60 waiting, toys:model-0 would use ")
    assert result.reasons[0].endswith("toys:model-2 keeps 50 ms.")


def test_requests_of_many_inputs_count_by_their_inputs():
    """100 requests/s of 8 inputs are 800 inputs/s: the reference bears 178 and the next tier 444."""
    result = simulate(latency(), poisson(100, 20), deadline=DEADLINE, conditions=Conditions(inputs=8))
    assert result.kept >= 0.98
    assert result.share(2) >= 0.9
    assert len(result.switches) <= 10


def test_a_short_deadline_of_a_client_counts():
    policy = latency()
    situation = Situation(
        now=0.0, wall=0.0, current=0, batch=1, waiting=1, oldest_wait=0.0, time_left=0.003, arrival_rate=1.0,
        loaded=frozenset({0, 1, 2}), allowed=frozenset({0, 1, 2}),
    )  # fmt: skip
    assert policy.choose(situation).rung == 2
    assert policy.choose(replace(situation, time_left=None)).rung == 0  # nobody else is answered by it


@pytest.mark.parametrize("seed", range(2))
def test_the_promise_is_kept_with_noisy_models(seed):
    chance = random.Random(seed)
    arrivals = [*poisson(30, 5, 0.0, seed), *poisson(530, 8, 5.0, seed), *poisson(30, 10, 13.0, seed)]
    result = simulate(
        latency(),
        arrivals,
        deadline=DEADLINE,
        conditions=Conditions(slowness=lambda now, rung: chance.lognormvariate(0.05, 0.15)),
    )
    assert result.kept >= 0.985
    assert len(result.switches) <= 10


def test_the_promise_of_the_service_is_no_deadline_of_a_client():
    """The server works out what is left of the promise by another rounding than the policy."""
    for place in range(200):
        now = 1000 + place * 0.1234567
        arrived = now - 0.049
        situation = Situation(
            now=now, wall=0.0, current=0, batch=8, waiting=8, oldest_wait=now - arrived,
            time_left=(arrived + DEADLINE) - now, arrival_rate=1.0,
            loaded=frozenset({0, 1, 2}), allowed=frozenset({0, 1, 2}),
        )  # fmt: skip
        assert "client" not in latency().choose(situation).reason


def test_a_policy_for_a_refreshed_ladder_begins_where_the_service_is():
    situation = Situation(
        now=100.0, wall=0.0, current=2, batch=8, waiting=8, oldest_wait=0.0, time_left=DEADLINE, arrival_rate=900.0,
        loaded=frozenset({0, 1, 2}), allowed=frozenset({0, 1, 2}), max_batch=8,
    )  # fmt: skip
    assert latency().choose(situation).rung == 2


# A reference of 58 ms that gains little from batches, and a fallback that takes one input at a time.
REAL_TARGET = 0.174
REAL = Ladder(
    (
        Rung("zoo:float", "torch", 1.0, 1.0, LatencyProfile({1: 0.058, 2: 0.11, 8: 0.35})),
        Rung("zoo:int8", "litert", 0.93, 0.91, LatencyProfile({1: 0.0115})),
    )
)


def real_run(seed, arrivals, **settings):
    chance = random.Random(seed)
    policy = Latency(REAL, {"target": REAL_TARGET, **settings})
    noise = lambda now, rung: chance.lognormvariate(0.0, 0.12)  # noqa: E731
    return simulate(policy, arrivals, deadline=REAL_TARGET, conditions=Conditions(slowness=noise))


@pytest.mark.parametrize("seed", range(2))
def test_at_half_of_its_capacity_the_reference_answers_most_requests(seed):
    result = real_run(seed, poisson(9, 60, 0.0, seed))
    assert result.kept >= 0.99
    assert result.share(0) >= 0.6


@pytest.mark.parametrize("seed", range(2))
def test_after_a_burst_the_reference_answers_most_requests_again(seed):
    quiet, burst = poisson(9, 15, 0.0, seed), poisson(54, 12, 15.0, seed + 10)
    after = poisson(9, 33, 27.0, seed + 20)
    result = real_run(seed, quiet + burst + after)
    assert result.kept >= 0.99
    outside = result.rungs[: len(quiet)] + result.rungs[len(quiet) + len(burst) :]
    assert outside.count(0) / len(outside) >= 0.5
    in_burst = result.rungs[len(quiet) + 30 : len(quiet) + len(burst)]
    assert in_burst.count(0) / len(in_burst) <= 0.1


def test_the_percentile_steers():
    """The fewer answers have to be in time, the more of them come from the reference."""
    shares, kept = [], []
    for percentile in (99.0, 90.0, 60.0):
        runs = [real_run(seed, poisson(11, 60, 0.0, seed), percentile=percentile) for seed in range(3)]
        shares.append(sum(run.share(0) for run in runs) / 3)
        kept.append(min(run.kept for run in runs))
        assert kept[-1] >= percentile / 100
    assert shares[0] + 0.05 < shares[1]
    assert shares[1] + 0.05 < shares[2]
    assert kept[2] < 0.98 < kept[0]  # it is not merely a better choice


def test_a_model_that_does_not_gain_from_batches_answers_one_request_after_the_other():
    situation = Situation(
        now=0.0, wall=0.0, current=0, batch=3, waiting=3, oldest_wait=0.0, time_left=None, arrival_rate=3.0,
        loaded=frozenset({0, 1}), allowed=frozenset({0, 1}), max_batch=8,
    )  # fmt: skip
    choice = Latency(REAL, {"target": REAL_TARGET}).choose(situation)
    assert (choice.rung, choice.batch) == (0, 1)
    gaining = Latency(LADDER, {"target": DEADLINE}).choose(situation)
    assert (gaining.rung, gaining.batch) == (0, 3)


def test_a_reference_whose_profile_was_measured_on_a_busy_machine_is_tried_and_answers():
    slow = Rung("zoo:float", "torch", 1.0, 1.0, LatencyProfile({1: 0.4, 2: 0.6, 8: 1.5}))  # it takes 60 ms in truth
    policy = Latency(Ladder((slow, REAL.rungs[1])), {"target": REAL_TARGET})
    arrivals = poisson(5, 40)
    result = simulate(
        policy, arrivals, deadline=REAL_TARGET, conditions=Conditions(slowness=lambda now, rung: 1.0 if rung else 0.15)
    )
    assert result.kept >= 0.99
    assert result.share(0) >= 0.7
    hopeless = Latency(Ladder((slow, REAL.rungs[1])), {"target": REAL_TARGET})
    result = simulate(hopeless, arrivals, deadline=REAL_TARGET)
    assert result.rungs.count(0) <= 1  # tried once
