"""What every store must do for agents: rows that live as long as their lease, by the database's own clock."""

from __future__ import annotations

import time

import pytest
from sqlalchemy import text

from zoolens.base.store.agents import LARGEST, AgentRecord, load_agents, publish_agent, remove_agent, renew_agent
from zoolens.base.store.store import Store

LONG = 600.0  # seconds


def agent(name: str, lease: float = LONG) -> AgentRecord:
    return AgentRecord(f"id of {name}", name, "kind", {"cores": 2, "name": "mücke"}, lease)


class AgentContract:
    def test_agents_are_listed_by_name_until_they_leave(self, store: Store) -> None:
        assert load_agents(store) == []
        for name in ("b", "a"):
            publish_agent(store, agent(name))
        listed = load_agents(store)
        assert [one.name for one in listed] == ["a", "b"]
        assert dict(listed[0].facts) == {"cores": 2, "name": "mücke"}
        assert all(0 <= one.silent < LONG and 0 <= one.age < LONG for one in listed)
        remove_agent(store, "id of a")
        remove_agent(store, "id of a")
        assert [one.name for one in load_agents(store)] == ["b"]

    def test_a_heartbeat_says_what_is_done_and_begins_the_lease_anew(self, store: Store) -> None:
        publish_agent(store, agent("a", lease=0.2))
        time.sleep(0.3)
        assert load_agents(store) == []
        (lost,) = load_agents(store, lost=True)
        assert not lost.alive
        assert renew_agent(store, "id of a", ["evaluating x"], {"cores": 3})
        (found,) = load_agents(store, lost=True)
        assert (found.doing, dict(found.facts)) == (("evaluating x",), {"cores": 3})
        assert found.silent < lost.silent

    def test_a_heartbeat_of_one_that_is_not_listed_is_told(self, store: Store) -> None:
        assert not renew_agent(store, "nobody", [], {})

    @pytest.mark.parametrize(("lease", "kept"), [(0.01, ["new"]), (LONG, ["new", "old"])])
    def test_one_that_was_lost_long_ago_is_forgotten(self, store: Store, lease: float, kept: list[str]) -> None:
        publish_agent(store, agent("old", lease))
        time.sleep(0.15)
        publish_agent(store, agent("new"))
        assert [one.name for one in load_agents(store, lost=True)] == kept

    @pytest.mark.parametrize("written", ["[" * 2000 + "]" * 2000, f'{{"cores": "{"x" * LARGEST}"}}', "[1]"])
    def test_a_row_that_nobody_can_read_hides_no_other(self, store: Store, written: str) -> None:
        for name in ("bad", "good"):
            publish_agent(store, agent(name))
        statement = {
            "sqlite": "UPDATE agents SET facts = :written WHERE name = 'bad'",
            "postgresql": "UPDATE agents SET facts = CAST(:written AS json) WHERE name = 'bad'",
        }[store.engine.dialect.name]
        with store.engine.begin() as connection:
            connection.execute(text(statement), {"written": written})
        bad, good = load_agents(store)
        assert (bad.name, dict(bad.facts)) == ("bad", {})
        assert dict(good.facts) == {"cores": 2, "name": "mücke"}
