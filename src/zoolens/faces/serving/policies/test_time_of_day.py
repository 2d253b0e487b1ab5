from dataclasses import replace
from datetime import datetime

import pytest

from zoolens.base.errors import ZoolensError
from zoolens.faces.serving.policies.policy import Situation
from zoolens.faces.serving.policies.time_of_day import TimeOfDay
from zoolens.testing.serving_simulation import Conditions, simulate, simulated_ladder

LADDER = simulated_ladder((0.010, 0.004, 0.001), equivalence=(1.0, 0.95, 0.85))


def at(hour, minute=0, now=0.0, **more):
    wall = datetime(2026, 11, 16, hour, minute).timestamp()
    every = frozenset({0, 1, 2})
    return Situation(
        now=now, wall=wall, current=0, batch=1, waiting=1, oldest_wait=0.0, time_left=None, loaded=every, allowed=every,
        **{"arrival_rate": 1.0, **more},
    )  # fmt: skip


def test_a_window_may_pass_midnight_and_takes_the_cheapest_model_that_is_equivalent_enough():
    policy = TimeOfDay(LADDER, {"windows": [{"start": "22:00", "end": "06:30", "within": "90%"}]})
    assert policy.choose(at(21, 59, now=0)).rung == 0
    inside = policy.choose(at(22, 0, now=60))
    assert (inside.rung, inside.reason) == (1, "It is between 22:00 and 06:30: 0.9 is equivalent enough.")
    assert policy.choose(at(6, 29, now=120)).rung == 1
    assert policy.choose(at(6, 30, now=180)).rung == 1  # for the hold
    assert policy.choose(at(6, 30, now=186)).rung == 0


def test_a_model_that_may_agree_too_little_is_not_equivalent_enough():
    first, middle, last = LADDER.rungs
    ladder = replace(LADDER, rungs=(first, replace(middle, equivalence_least=0.7), last))
    policy = TimeOfDay(ladder, {"windows": [{"start": "22:00", "end": "06:30", "within": "90%"}]})
    assert policy.choose(at(23)).rung == 0


def test_a_low_battery_asks_for_less_and_a_lower_one_for_least(tmp_path):
    charge = tmp_path / "capacity"
    rules = [{"below": "50%", "within": 0.9}, {"below": "20%", "within": 0.8}]

    def rung(text):
        charge.write_text(text)
        policy = TimeOfDay(LADDER, {"battery": rules, "battery_file": str(charge)})
        choice = policy.choose(at(12))
        policy.close()
        return choice.rung

    assert [rung("90\n"), rung("49"), rung("19"), rung("nonsense")] == [0, 1, 2, 0]


def test_a_battery_that_cannot_be_read_is_said(tmp_path):
    policy = TimeOfDay(LADDER, {"battery": [{"below": 0.5, "within": 0.9}], "battery_file": str(tmp_path / "none")})
    assert policy.choose(at(12)).reason.endswith("The charge of the battery is not known.")
    policy.close()


def test_a_budget_of_computing_lasts_its_period():
    policy = TimeOfDay(LADDER, {"budget": {"amount": 10, "unit": "s", "per": 60}})
    arrivals = [place / 50 for place in range(3000)]  # 60 s of 50/s: 30 s of computing with the reference
    result = simulate(policy, arrivals, deadline=1.0, conditions=Conditions(max_batch=1))
    spent = sum(LADDER.rungs[rung].profile.of(1) for rung in result.rungs)
    assert spent <= 10.0
    assert spent >= 8.0  # and it is used
    assert len(result.switches) <= 25


def test_a_budget_counts_inputs_and_allows_no_work_that_nobody_waits_for():
    policy = TimeOfDay(LADDER, {"budget": {"amount": 10, "unit": "s", "per": 60}})
    arrivals = [place / 10 for place in range(600)]  # 10 requests/s of 8 inputs: 27 s with the reference
    result = simulate(policy, arrivals, deadline=1.0, conditions=Conditions(max_batch=8, inputs=8))
    spent = sum(LADDER.rungs[rung].profile.of(8) for rung in result.rungs)
    assert spent <= 10.5
    assert policy.saves_work
    assert not TimeOfDay(LADDER, {"windows": [{"start": "22:00", "end": "06:00", "within": 0.9}]}).saves_work


def test_a_budget_in_joules_needs_the_energy_of_every_rung():
    with pytest.raises(ZoolensError, match="energy of every tier"):
        TimeOfDay(LADDER, {"budget": {"amount": 10, "unit": "J", "per": 60}})
    known = simulated_ladder((0.01, 0.001), energy=(0.5, 0.1))
    policy = TimeOfDay(known, {"budget": {"amount": 10, "unit": "J", "per": 60}})
    assert policy.choose(at(12, arrival_rate=1.0)).rung == 1  # 30 J with the reference
    assert policy.choose(at(12, arrival_rate=0.1)).rung == 1


@pytest.mark.parametrize(
    "settings", [{}, {"windows": [{"start": "25:00", "end": "06:00", "within": 0.9}]}, {"budget": {"amount": -1}}]
)
def test_wrong_settings_are_refused(settings):
    with pytest.raises(ZoolensError, match="policy time-of-day"):
        TimeOfDay(LADDER, settings)
