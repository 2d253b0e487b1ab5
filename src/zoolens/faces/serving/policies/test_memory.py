from dataclasses import replace

from zoolens.faces.serving.policies.memory import Memory
from zoolens.faces.serving.policies.policy import Situation
from zoolens.testing.serving_simulation import Conditions, simulate, simulated_ladder

LADDER = simulated_ladder((0.010, 0.004, 0.001), memory=(300, 200, 100))
ARRIVALS = [place / 20 for place in range(600)]  # 30 s


def test_a_falling_limit_is_followed_and_a_rising_one_after_a_while():
    limits = lambda now: 1000 if now < 5 else 210 if now < 10 else 120 if now < 15 else 1000  # noqa: E731
    result = simulate(
        Memory(LADDER, {}), ARRIVALS, deadline=1.0, conditions=Conditions(memory_limit=limits, loading=0.2)
    )
    times, rungs = zip(*result.switches, strict=True)
    assert rungs == (1, 2, 0)
    assert [round(at) for at in times] == [5, 10, 20]  # back after five seconds
    assert "does not fit into 0.00021 MB any more" in result.reasons[0]


def test_a_limit_that_jitters_around_a_model_does_not_make_it_flap():
    result = simulate(
        Memory(LADDER, {}),
        ARRIVALS,
        deadline=1.0,
        conditions=Conditions(memory_limit=lambda now: 305 if int(now * 10) % 2 else 295),
    )
    assert len(result.switches) == 1
    assert result.rungs[-1] == 1


def test_a_model_of_unknown_memory_is_not_used_under_a_limit():
    ladder = simulated_ladder((0.01, 0.01), memory=(None, 100))
    assert set(simulate(Memory(ladder, {"limit": "1 kB"}), ARRIVALS[:5], deadline=1.0).rungs) == {1}
    assert set(simulate(Memory(ladder, {}), ARRIVALS[:5], deadline=1.0).rungs) == {0}


def test_nothing_fits():
    policy = Memory(LADDER, {"limit": 50})
    result = simulate(policy, ARRIVALS[:5], deadline=1.0)
    assert set(result.rungs) == {2}
    assert result.reasons[0] == "No model fits into 5e-05 MB; toys:model-2 is the smallest."


def test_until_the_smaller_model_is_loaded_a_loaded_one_answers():
    policy = Memory(LADDER, {})
    situation = Situation(
        now=0.0, wall=0.0, current=0, batch=1, waiting=1, oldest_wait=0.0, time_left=None, arrival_rate=1.0,
        loaded=frozenset({0}), allowed=frozenset({0, 1, 2}), memory_limit=1000,
    )  # fmt: skip
    first = policy.choose(situation)
    assert (first.rung, first.preload) == (0, (1,))  # the next smaller one fits beside it
    fallen = policy.choose(replace(situation, memory_limit=150))
    assert (fallen.rung, fallen.preload) == (0, (2,))
    assert "being loaded" in fallen.reason
    assert policy.choose(replace(situation, memory_limit=150, loaded=frozenset({0, 2}))).rung == 2
