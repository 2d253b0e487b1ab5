"""Each rule of the policy `memory` by itself, one situation after the other. `make mutants` runs these."""

from dataclasses import replace

import pytest

from zoolens.base.errors import ZoolensError
from zoolens.faces.serving.policies.memory import Memory
from zoolens.faces.serving.policies.policy import Choice, Situation
from zoolens.testing.serving_simulation import simulated_ladder

ALL = frozenset({0, 1, 2})
LADDER = simulated_ladder((0.010, 0.004, 0.001), memory=(300, 200, 100))
CALM = Situation(
    now=0.0, wall=0.0, current=0, batch=1, waiting=1, oldest_wait=0.0, time_left=None, arrival_rate=1.0, loaded=ALL,
    allowed=ALL,
)  # fmt: skip


def choices(policy, *situations):
    return [policy.choose(replace(CALM, **changes)).rung for changes in situations]


@pytest.mark.parametrize(
    ("own", "servers", "rung"),
    [
        (None, None, 0), (300, None, 0), (299, None, 1), (None, 299, 1), (None, 199, 2),
        (250, 1000, 1), (1000, 250, 1), (150, 250, 2), (250, 150, 2),
    ],
)  # fmt: skip
def test_the_smaller_limit_of_service_and_server_holds(own, servers, rung):
    policy = Memory(LADDER, {} if own is None else {"limit": own})
    assert choices(policy, {"memory_limit": servers}) == [rung]


def test_a_better_model_comes_back_when_it_has_fitted_with_room_for_the_hold():
    """300 bytes leave a twentieth of 316 free, and not of 315."""
    low = {"now": 0.0, "memory_limit": 250}
    tight = Memory(LADDER, {})
    assert choices(tight, low, {"now": 1.0, "memory_limit": 315}, {"now": 100.0, "memory_limit": 315}) == [1, 1, 1]
    roomy = Memory(LADDER, {})
    later = [{"now": now, "memory_limit": 316} for now in (1.0, 5.9, 6.0)]
    assert choices(roomy, low, *later) == [1, 1, 1, 0]
    half = Memory(LADDER, {"room": 0.5, "hold": 1.0})
    limits = [{"now": now, "memory_limit": limit} for now, limit in ((1.0, 599), (3.0, 599), (4.0, 600), (5.0, 600))]
    assert choices(half, low, *limits) == [1, 1, 1, 1, 0]


def test_the_hold_begins_again_when_the_room_was_gone_in_between():
    limits = ((0.0, 250), (1.0, 400), (4.0, 310), (5.0, 400), (9.9, 400), (10.0, 400))
    assert choices(Memory(LADDER, {}), *({"now": now, "memory_limit": limit} for now, limit in limits)) == [
        1, 1, 1, 1, 1, 0,
    ]  # fmt: skip


def test_the_best_of_those_that_have_fitted_long_enough_comes_back():
    at_once = [{"now": now, "memory_limit": limit} for now, limit in ((0.0, 150), (1.0, 1000), (6.0, 1000))]
    assert choices(Memory(LADDER, {}), *at_once) == [2, 2, 0]
    step_by_step = [{"now": now, "memory_limit": limit} for now, limit in ((0.0, 150), (1.0, 250), (3.0, 1000))]
    later = [{"now": now, "memory_limit": 1000} for now in (6.0, 8.0)]
    assert choices(Memory(LADDER, {}), *step_by_step, *later) == [2, 2, 2, 1, 0]


def test_the_next_smaller_model_is_preloaded_where_both_fit():
    def preloaded(limit, **changes):
        return Memory(LADDER, {}).choose(replace(CALM, memory_limit=limit, **changes)).preload

    only = frozenset({0})
    assert preloaded(500, loaded=only) == (1,)
    assert preloaded(499, loaded=only) == ()
    assert preloaded(None, loaded=only) == (1,)
    assert preloaded(500, loaded=frozenset({0, 1})) == ()
    assert preloaded(250, loaded=frozenset({1})) == ()  # 200 and 100 do not fit into it together
    assert preloaded(299, loaded=frozenset({1, 0})) == ()
    assert preloaded(150, loaded=frozenset({2})) == ()  # there is no smaller one


def test_a_model_of_equal_size_is_no_smaller_one():
    twins = simulated_ladder((0.010, 0.004, 0.001), memory=(300, 300, 100))
    assert Memory(twins, {}).choose(replace(CALM, loaded=frozenset({0}))).preload == (2,)


def test_until_the_wanted_one_is_loaded_the_best_loaded_one_that_fits_answers():
    loading = "toys:model-0 is the most equivalent model within memory without a limit."
    until = "It is being loaded; until then another one answers."
    choice = Memory(LADDER, {}).choose(replace(CALM, loaded=frozenset({1, 2})))
    assert choice == Choice(1, f"{loading} {until}", (0,))
    fallen = Memory(LADDER, {"limit": 150}).choose(replace(CALM, loaded=frozenset({0, 1})))
    assert (fallen.rung, fallen.preload) == (1, (2,))  # none fits: the smaller
    none = Memory(LADDER, {}).choose(replace(CALM, loaded=frozenset()))
    assert (none.rung, none.preload) == (0, (0,))


def test_a_client_that_pins_a_model_gets_it_and_changes_nothing_for_the_others():
    policy = Memory(LADDER, {"limit": 250})
    pinned = policy.choose(replace(CALM, allowed=frozenset({2})))
    assert pinned == Choice(2, "The client pinned a model or set a minimum equivalence.", (1,))
    first = policy.choose(CALM)
    assert first.reason == "toys:model-1 is the most equivalent model within 0.00025 MB."  # it had no level yet


def test_one_that_accepts_two_models_gets_the_better_loaded_one_that_fits():
    policy = Memory(LADDER, {"limit": 150})
    assert policy.choose(replace(CALM, allowed=frozenset({0, 1}))).rung == 1  # neither fits: the smaller
    wide = Memory(LADDER, {"limit": 250})
    assert wide.choose(replace(CALM, loaded=frozenset({1, 2}), allowed=frozenset({0, 2}))).rung == 2


def test_the_policy_of_a_refreshed_ladder_begins_where_the_service_is():
    policy = Memory(LADDER, {})
    assert choices(policy, {"current": 2}, {"current": 2, "now": 4.9}, {"current": 2, "now": 5.0}) == [2, 2, 0]
    assert choices(Memory(LADDER, {"limit": 250}), {"current": 0}) == [1]


def test_reasons():
    policy = Memory(LADDER, {"hold": 1.5})
    told = [
        policy.choose(replace(CALM, now=now, memory_limit=limit)).reason
        for now, limit in ((0.0, 2_000_000), (0.1, 250), (0.2, 250), (0.3, 400), (1.8, 400), (2.0, 50))
    ]
    assert told == [
        "toys:model-0 is the most equivalent model within 2 MB.",
        "toys:model-0 does not fit into 0.00025 MB any more; toys:model-1 does.",
        "toys:model-1 fits into 0.00025 MB.",
        "toys:model-1 fits into 0.0004 MB.",
        "toys:model-0 has fitted into 0.0004 MB for 1.5 s.",
        "No model fits into 5e-05 MB; toys:model-2 is the smallest.",
    ]


def test_where_nothing_fits_the_smallest_known_answers():
    unknown = simulated_ladder((0.010, 0.004, 0.001), memory=(300, 200, None))
    assert choices(Memory(unknown, {"limit": 50}), {}) == [1]
    assert Memory(unknown, {}).choose(replace(CALM, loaded=frozenset({0}))).preload == (1,)
    equal = simulated_ladder((0.010, 0.004, 0.001), memory=(300, 200, 200))
    assert choices(Memory(equal, {"limit": 50}), {}) == [1]


def test_settings():
    assert Memory(LADDER, {"limit": 50}).settings == {"limit": 50}
    with pytest.raises(ZoolensError, match="The policy memory has no setting 'size'"):
        Memory(LADDER, {"size": 1})
