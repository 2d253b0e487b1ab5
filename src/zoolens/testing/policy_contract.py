"""What policies for switching must do (group `zoolens.policies`).

class TestEager(PolicyContract):
    policy_class = Eager
    settings = {"target": 0.05}
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import pytest

from zoolens.base import plugins
from zoolens.base.errors import ZoolensError
from zoolens.faces.serving.contracts.ladder import Ladder
from zoolens.faces.serving.policies.policy import Choice, Policy, Situation
from zoolens.testing.serving_simulation import simulate, simulated_ladder


class PolicyContract:
    policy_class: ClassVar[type[Policy]]
    settings: ClassVar[Mapping[str, Any]] = MappingProxyType({})

    @pytest.fixture
    def ladder(self) -> Ladder:
        return simulated_ladder((0.010, 0.004, 0.001), memory=(300, 200, 100), energy=(3.0, 2.0, 1.0))

    @pytest.fixture
    def policy(self, ladder: Ladder) -> Any:
        policy = self.policy_class(ladder, self.settings)
        yield policy
        policy.close()

    def test_it_is_registered_under_its_name_and_says_what_it_does(self) -> None:
        assert plugins.load(plugins.POLICIES, self.policy_class.name) is self.policy_class
        assert self.policy_class.summary

    def test_an_unknown_setting_is_refused_with_a_sentence(self, ladder: Ladder) -> None:
        with pytest.raises(ZoolensError, match="no_such_setting"):
            self.policy_class(ladder, {**self.settings, "no_such_setting": 1})

    def test_it_names_an_allowed_rung_and_prefers_a_loaded_one(self, policy: Policy) -> None:
        for situation in _situations(len(policy.ladder.rungs)):
            choice = policy.choose(situation)
            assert isinstance(choice, Choice)
            assert choice.rung in situation.allowed
            assert choice.rung in situation.loaded or not situation.loaded & situation.allowed
            assert choice.reason.strip().endswith(".")
            assert "\n" not in choice.reason
            assert all(0 <= rung < len(policy.ladder.rungs) for rung in choice.preload)
            assert choice.batch is None or choice.batch >= 1
            policy.served(choice.rung, situation.batch, 0.001 * situation.batch)

    def test_a_request_for_one_model_does_not_change_who_answers_the_others(self, policy: Policy) -> None:
        every = frozenset(range(len(policy.ladder.rungs)))
        before = policy.choose(_calm(0.0, every))
        for rung in every:
            assert policy.choose(_calm(0.001, frozenset({rung}))).rung == rung
        assert policy.choose(_calm(0.002, every)).rung == before.rung

    def test_the_same_situations_give_the_same_choices(self, ladder: Ladder) -> None:
        arrivals = [place / 200 for place in range(400)]
        twice = []
        for _ in range(2):
            policy = self.policy_class(ladder, self.settings)
            twice.append(simulate(policy, arrivals, deadline=0.05).rungs)
            policy.close()
        assert twice[0] == twice[1]

    def test_a_ladder_of_one_rung_is_answered_by_it(self) -> None:
        policy = self.policy_class(simulated_ladder((0.010,), memory=(100,), energy=(1.0,)), self.settings)
        assert set(simulate(policy, [place / 500 for place in range(200)], deadline=0.05).rungs) == {0}
        policy.close()


def _calm(now: float, allowed: frozenset[int]) -> Situation:
    return Situation(
        now=now, wall=1_700_000_000.0 + now, current=0, batch=1, waiting=1, oldest_wait=0.0, time_left=None,
        arrival_rate=1.0, loaded=frozenset(range(3)), allowed=allowed,
    )  # fmt: skip


def _situations(rungs: int) -> list[Situation]:
    chance = random.Random(0)  # noqa: S311 - examples, no secret
    now = 0.0
    made: list[Situation] = []
    for _ in range(500):
        now += chance.choice((0.0, 0.001, 0.1, 30.0))
        waiting = chance.choice((1, 3, 500))
        some = frozenset(place for place in range(rungs) if chance.random() < 0.7)
        situation = Situation(
            now=now, wall=1_700_000_000.0 + now, current=chance.randrange(rungs), batch=min(waiting, 8),
            waiting=waiting, oldest_wait=chance.choice((0.0, 0.01, 5.0)),
            time_left=chance.choice((None, -1.0, 0.0, 0.02)), arrival_rate=chance.choice((0.0, 10.0, 1e5)),
            loaded=frozenset(place for place in range(rungs) if chance.random() < 0.7),
            allowed=some or frozenset({chance.randrange(rungs)}), max_batch=8,
            memory_limit=chance.choice((None, 0, 150, 1000)), memory_used=chance.choice((None, 100)),
        )  # fmt: skip
        made.append(situation)
    return made
