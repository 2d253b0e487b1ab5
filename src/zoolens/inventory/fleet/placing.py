"""On which machines work may run: those whose agents meet what is demanded, each, or one of every kind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from zoolens.base import plugins
from zoolens.base.engine.machine import this_host
from zoolens.base.errors import ConstraintError, ZoolensError
from zoolens.base.store.agents import AgentRecord, load_agents
from zoolens.base.store.database import Database
from zoolens.base.store.store import Store, borrowed_store
from zoolens.inventory.fleet.agent_facts import AgentFacts, read_facts
from zoolens.inventory.runtimes.constraints import Clause, check, parse_requirements_text, said_once
from zoolens.inventory.runtimes.runtime_names import parse_runtime, runtime_named


@dataclass(frozen=True)
class Place:
    """A machine, as one of its agents offers it."""

    agent: str
    facts: AgentFacts

    @property
    def within_reach(self) -> bool:
        """Whether work can be sent there: to a node of a cluster, or to processes of this machine."""
        return bool(self.facts.node) or self.facts.host == this_host()

    @property
    def out_of_reach(self) -> str:
        return f"{self.agent} is another machine and in no Ray cluster. Start its agent inside a Ray node."


def places(database: Database, require: str = "", runtimes: Sequence[str] = ()) -> list[Place]:
    """The machines that meet the demands. ConstraintError says, where there are agents, why none of them does."""
    agents = load_agents(database)
    if not agents:
        return []
    clauses = parse_requirements_text(require)
    found, reasons = [], []
    for agent in agents:
        facts = _readable(agent)
        if facts is None:
            reasons.append(f"{agent.name}: what it published cannot be read")
            continue
        obstacles = list(_obstacles(facts, clauses, runtimes))
        if obstacles:
            reasons.append(f"{agent.name}: {'; '.join(said_once(obstacles))}")
        else:
            found.append(Place(agent.name, facts))
    if not found:
        raise ConstraintError(
            f"None of {len(agents)} agents can run this: {'. '.join(reasons)}.",
            hint="`zoolens agents` lists what each has; change --require or --runtime, or start another agent.",
        )
    return found


def places_by_kind(
    database: Database, require: str = "", runtimes: Sequence[str] = (), *, gpu: bool = False, environment: bool = True
) -> dict[str, list[Place]]:
    """The machines that meet the demands, by their kind (`AgentFacts.kind_for`). ConstraintError: there are no agents,
    or none of them does."""
    found = places(database, require, runtimes)
    if not found:
        raise ConstraintError(
            "There are no agents in this store, so that no kinds of machine are known.",
            hint="Start `zoolens agent --store …` on each machine.",
        )
    kinds: dict[str, list[Place]] = {}
    for place in found:
        kind = place.facts.kind_for(runtimes, gpu=gpu, environment=environment)
        kinds.setdefault(kind, []).append(place)
    # Those that can be reached come first.
    return {kind: sorted(alike, key=lambda place: not place.within_reach) for kind, alike in kinds.items()}


@dataclass(frozen=True)
class ListedAgent:
    """An agent, also one that was lost, and what it published; None where that cannot be read."""

    record: AgentRecord
    facts: AgentFacts | None


def agents(store: Store | str | Path | None = None) -> list[ListedAgent]:
    """Every agent of a store in the order of their names, those that were lost too."""
    with borrowed_store(store, must_exist=True) as opened:
        return [ListedAgent(agent, _readable(agent)) for agent in load_agents(opened, lost=True)]


def _readable(agent: AgentRecord) -> AgentFacts | None:
    try:
        return read_facts(agent.name, agent.facts)
    except ZoolensError:
        return None


def _obstacles(facts: AgentFacts, clauses: Sequence[Clause], runtimes: Sequence[str]) -> Iterable[str]:
    """Why a machine cannot run what is asked for in any of the runtimes; nothing where it can."""
    wanted = [parse_runtime(name).name for name in runtimes]
    missing = [name for name in wanted if name not in facts.runtimes]
    candidates = [name for name in facts.runtimes if not wanted or name in wanted]
    if not candidates:
        yield f"it has no {' and no '.join(missing)}" if missing else "it has no runtime"
        return
    if not clauses:
        return
    here = [name for name in candidates if name in plugins.names(plugins.RUNTIMES)]
    unmet = [check(clauses, runtime_named(name), facts.machine, facts.packages) for name in here]
    if all(unmet):
        yield from (reason for reasons in unmet for reason in reasons)
