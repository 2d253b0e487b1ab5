"""Each rule of the policy `time-of-day` by itself, one situation after the other. `make mutants` runs these."""

import threading
from dataclasses import replace
from datetime import datetime
from datetime import time as clock_time

import pytest

from zoolens.base.errors import ZoolensError
from zoolens.faces.serving.policies.policy import Choice, Situation
from zoolens.faces.serving.policies.time_of_day import Battery, DayWindow, TimeOfDay
from zoolens.testing.serving_simulation import simulated_ladder

ALL = frozenset({0, 1, 2})
LADDER = simulated_ladder((0.010, 0.004, 0.001), equivalence=(1.0, 0.95, 0.85))
ODD = simulated_ladder((0.010, 0.001, 0.004), equivalence=(1.0, 0.95, 0.85))  # the second is the cheapest
NIGHT = {"start": "22:00", "end": "06:30", "within": 0.9}
NO_RULE = "No rule asks for a cheaper model."


def at(hour, now=0.0, **changes):
    calm = Situation(
        now=now, wall=datetime(2026, 11, 16, hour).timestamp(), current=0, batch=1, waiting=1, oldest_wait=0.0,
        time_left=None, arrival_rate=1.0, loaded=ALL, allowed=ALL,
    )  # fmt: skip
    return replace(calm, **changes)


def budget(amount, per=60, unit="s", ladder=LADDER, **settings):
    return TimeOfDay(ladder, {"budget": {"amount": amount, "unit": unit, "per": per}, **settings})


@pytest.mark.parametrize(
    ("start", "end", "inside", "outside"),
    [
        ("08:00", "17:30", ("08:00", "12:00", "17:29"), ("07:59", "17:30", "23:00")),
        ("22:00", "06:30", ("22:00", "23:59", "00:00", "06:29"), ("06:30", "12:00", "21:59")),
        ("08:00", "08:00", (), ("08:00", "07:59", "12:00")),
    ],
)
def test_windows(start, end, inside, outside):
    window = DayWindow(start=start, end=end, within=0.9)
    assert all(window.holds(clock_time.fromisoformat(now)) for now in inside)
    assert not any(window.holds(clock_time.fromisoformat(now)) for now in outside)


def test_a_window_takes_the_cheapest_that_is_equivalent_enough():
    assert TimeOfDay(LADDER, {"windows": [NIGHT]}).choose(at(23)) == Choice(
        1, "It is between 22:00 and 06:30: 0.9 is equivalent enough."
    )
    assert TimeOfDay(LADDER, {"windows": [{**NIGHT, "within": 0.95}]}).choose(at(23)).rung == 1
    assert TimeOfDay(LADDER, {"windows": [{**NIGHT, "within": 0.8}]}).choose(at(23)).rung == 2
    assert TimeOfDay(ODD, {"windows": [{**NIGHT, "within": 0.8}]}).choose(at(23)).rung == 1
    assert TimeOfDay(LADDER, {"windows": [NIGHT]}).choose(at(12)) == Choice(0, NO_RULE)
    assert TimeOfDay(LADDER, {"windows": [{**NIGHT, "within": 1.0}]}).choose(at(23)).rung == 0


def test_of_several_rules_the_lowest_threshold_counts():
    windows = [NIGHT, {"start": "23:00", "end": "23:59", "within": 0.8}]
    assert TimeOfDay(LADDER, {"windows": windows}).choose(at(23)).rung == 2
    assert TimeOfDay(LADDER, {"windows": windows}).choose(at(22)).rung == 1


def test_energy_is_the_cost_where_every_rung_has_it():
    """By its seconds the third would be the cheapest, by its energy the second."""
    ladder = simulated_ladder((0.010, 0.004, 0.001), equivalence=(1.0, 0.95, 0.85), energy=(3.0, 1.0, 2.0))
    assert TimeOfDay(ladder, {"windows": [{**NIGHT, "within": 0.8}]}).choose(at(23)).rung == 1
    seconds = budget(1e9, ladder=ladder, windows=[{**NIGHT, "within": 0.8}])
    assert seconds.choose(at(23)).rung == 2  # a budget of seconds asks for seconds
    joules = budget(1e9, unit="J", ladder=ladder, windows=[{**NIGHT, "within": 0.8}])
    assert joules.choose(at(23)).rung == 1


def test_up_only_after_the_hold_and_down_at_once():
    policy = TimeOfDay(LADDER, {"windows": [NIGHT], "hold": 3.0})
    assert [policy.choose(at(23, 0.0)).rung, policy.choose(at(12, 10.0)).rung] == [1, 1]
    assert policy.choose(at(12, 12.9)).reason == ("toys:model-1 stays until a better one has been affordable for 3 s.")
    assert policy.choose(at(12, 13.0)).rung == 0
    assert policy.choose(at(23, 13.1)).rung == 1
    assert policy.choose(at(12, 14.0)).rung == 1
    assert policy.choose(at(23, 15.0)).rung == 1  # the hold begins again
    assert [policy.choose(at(12, now)).rung for now in (16.0, 17.1, 18.9, 19.0)] == [1, 1, 1, 0]


def test_the_first_choice_may_go_up_at_once():
    policy = TimeOfDay(LADDER, {"windows": [NIGHT]})
    assert policy.choose(at(12, 100.0, current=2)).rung == 0


def test_what_is_not_loaded_is_preloaded_and_the_nearest_answers():
    policy = TimeOfDay(LADDER, {"windows": [{**NIGHT, "within": 0.8}]})
    choice = policy.choose(at(23, loaded=frozenset({0, 1})))
    assert (choice.rung, choice.preload) == (1, (2,))
    assert choice.reason.endswith("is equivalent enough. It is being loaded; until then another one answers.")
    middle = TimeOfDay(LADDER, {"windows": [NIGHT]}).choose(at(23, loaded=frozenset({0, 2})))
    assert (middle.rung, middle.preload) == (0, (1,))  # of two that are as near, the better
    none = TimeOfDay(LADDER, {"windows": [NIGHT]}).choose(at(23, loaded=frozenset()))
    assert none.rung == 1


def test_a_pinned_request():
    choice = TimeOfDay(LADDER, {"windows": [NIGHT]}).choose(at(23, allowed=frozenset({0, 2})))
    assert choice == Choice(0, "The client pinned a model or set a minimum equivalence.")


# --- budgets


@pytest.mark.parametrize(("amount", "rung"), [(0.61, 0), (0.59, 1), (0.25, 1), (0.23, 2), (0.07, 2), (0.01, 2)])
def test_a_budget_lasts_at_the_present_rate(amount, rung):
    """At one request/s a minute costs 0.6, 0.24 or 0.06 s."""
    assert budget(amount).choose(at(12)).rung == rung


def test_what_was_spent_is_gone_until_the_next_period():
    policy = budget(0.65)
    assert policy.choose(at(12, 100.0)).rung == 0
    policy.served(0, 1, 0.29)
    policy.served(0, 1, 0.01)
    assert policy.choose(at(12, 101.0)).rung == 1  # 0.35 for 59 s
    assert policy.choose(at(12, 159.0)).rung == 1  # the rest would do, but for the hold
    assert [policy.choose(at(12, 160.0)).rung, policy.choose(at(12, 166.0)).rung] == [1, 0]


def test_a_budget_in_joules_counts_every_input():
    ladder = simulated_ladder((0.01, 0.001), energy=(0.5, 0.1))
    policy = budget(31.0, unit="J", ladder=ladder)
    both = {"loaded": frozenset({0, 1}), "allowed": frozenset({0, 1})}
    assert policy.choose(at(12, **both)).rung == 0  # 30 J
    policy.served(0, 4, 99.0)
    choice = policy.choose(at(12, 1.0, **both))
    assert choice == Choice(1, "29 of 31 J are left: at 1 requests/s they last with toys:model-1.")


def test_requests_of_many_inputs_cost_more():
    policy = budget(1.2)
    rungs = [policy.choose(at(12, place * 1e-3, inputs_waiting=4, batch=4)).rung for place in range(30)]
    assert (rungs[0], rungs[-1]) == (0, 1)  # one input each at first, then nearly four: 2.4 s of the reference
    few = budget(1.2)
    assert few.choose(at(12, waiting=4, inputs_waiting=4)).rung == 0
    tenth = budget(0.77)
    assert tenth.choose(at(12, inputs_waiting=4)).rung == 1  # 1.3 inputs each are 0.78 s
    assert budget(0.79).choose(at(12, inputs_waiting=4)).rung == 0


def test_what_no_model_lasts_with_is_told():
    told = budget(0.01, ladder=ODD).choose(at(12))
    assert told == Choice(1, "0.01 of 0.01 s are left, which do not last with any model; toys:model-1 is the cheapest.")
    over = budget(0.01)
    over.choose(at(12))
    over.served(0, 1, 5.0)
    assert over.choose(at(12, 1.0)).reason.startswith("0 of 0.01 s are left")


def test_the_cheaper_of_rule_and_budget_answers():
    both = {"windows": [NIGHT]}
    assert budget(0.07, **both).choose(at(23)).rung == 2  # the budget asks for less than the night
    told = budget(1e6, **both).choose(at(23))
    assert told == Choice(1, "It is between 22:00 and 06:30: 0.9 is equivalent enough.")
    assert budget(0.25, **both).choose(at(23)).reason.startswith("It is between")  # as cheap
    assert budget(1e6, **both).choose(at(12)) == Choice(0, NO_RULE)
    alone = budget(1e6).choose(at(12)).reason
    assert alone == "1e+06 of 1e+06 s are left: at 1 requests/s they last with toys:model-0."


# --- the battery


def charged(tmp_path, text, rules=({"below": 0.5, "within": 0.9}, {"below": 0.2, "within": 0.8}), **settings):
    file = tmp_path / "capacity"
    file.write_text(text)
    policy = TimeOfDay(LADDER, {"battery": rules, "battery_file": str(file), **settings})
    policy.close()  # the thread that reads it again
    return policy


@pytest.mark.parametrize(("charge", "rung"), [("50\n", 0), ("49", 1), ("20", 1), ("19", 2), ("-5", 2), ("120", 0)])
def test_the_charge_asks(tmp_path, charge, rung):
    assert charged(tmp_path, charge).choose(at(12)).rung == rung


def test_reasons_of_a_battery(tmp_path):
    told = charged(tmp_path, "49").choose(at(12))
    assert told == Choice(1, "The battery has 49 %: 0.9 is equivalent enough.")
    assert charged(tmp_path, "80").choose(at(12)).reason == NO_RULE
    assert charged(tmp_path, "x").choose(at(12)).reason == f"{NO_RULE} The charge of the battery is not known."
    assert charged(tmp_path, "10", budget={"amount": 1e9, "unit": "s", "per": 60}).choose(at(12)).rung == 2


def test_what_a_battery_file_holds(tmp_path):
    file = tmp_path / "capacity"
    file.write_text("80")
    battery = Battery(str(file), 3600.0)
    battery.close()
    assert battery.charge == 0.8
    file.write_text("7")
    assert battery.charge == 0.8  # nobody waits for a file
    assert battery._read() == 0.07
    file.write_text("150")
    assert battery._read() == 1.0
    file.unlink()
    assert battery._read() is None


def test_a_battery_is_read_again_by_a_thread_until_it_is_closed(tmp_path):
    file = tmp_path / "capacity"
    file.write_text("80")
    before = {*threading.enumerate()}
    policy = TimeOfDay(
        LADDER, {"battery": [{"below": 0.5, "within": 0.9}], "battery_file": str(file), "battery_every": 0.001}
    )
    (thread,) = {*threading.enumerate()} - before
    assert (thread.name, thread.daemon) == ("zoolens-battery", True)
    file.write_text("7")
    again = threading.Event()
    for _ in range(10_000):
        if policy.choose(at(12)).rung == 1:
            break
        assert thread.is_alive()
        again.wait(0.001)
    else:
        pytest.fail("the charge was never read again")
    policy.close()
    thread.join(20)
    assert not thread.is_alive()
    TimeOfDay(LADDER, {"windows": [NIGHT]}).close()  # it has nothing to close


def test_a_charging_battery_of_the_machine_asks_for_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("zoolens.faces.serving.policies.time_of_day._POWER_SUPPLIES", tmp_path)
    battery = Battery(None, 3600.0)
    battery.close()
    assert battery.charge is None
    for name, charge, status in (("BAT1", "90", "Discharging"), ("BAT0", "30\n", "Discharging\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "capacity").write_text(charge)
        (tmp_path / name / "status").write_text(status)
    assert battery._read() == 0.3  # the first
    for status in ("Charging\n", "Full"):
        (tmp_path / "BAT0" / "status").write_text(status)
        assert battery._read() is None


# --- settings


def test_work_is_saved_with_a_budget_or_a_battery(tmp_path):
    assert budget(1.0).saves_work is True
    assert charged(tmp_path, "90").saves_work is True
    assert TimeOfDay(LADDER, {"windows": [NIGHT]}).saves_work is False


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "give windows, battery or budget"),
        ({"windows": [{**NIGHT, "end": "25:00"}]}, "'25:00' is not a time of the day such as 22:30"),
        ({"budget": {"amount": 0, "unit": "s", "per": 60}}, "budget.amount"),
        ({"budget": {"amount": 1, "unit": "J", "per": 60}}, "energy of every tier"),
    ],
)
def test_settings_that_are_refused(settings, words):
    with pytest.raises(ZoolensError, match=words):
        TimeOfDay(LADDER, settings)


def test_settings_are_kept_and_the_policy_is_named_in_their_refusal():
    assert TimeOfDay(LADDER, {"windows": [NIGHT]}).settings == {"windows": [NIGHT]}
    with pytest.raises(ZoolensError, match="The policy time-of-day has no setting 'window'"):
        TimeOfDay(LADDER, {"window": []})
