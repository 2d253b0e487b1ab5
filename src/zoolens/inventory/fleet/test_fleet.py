"""Agents and their facts: what is published, which machine meets a demand, and why none does."""

import threading
from dataclasses import replace

import pytest

from zoolens.base.errors import ConstraintError, StoreError, ZoolensError
from zoolens.base.store.agents import AgentRecord, load_agents, publish_agent, remove_agent
from zoolens.base.store.store import open_store
from zoolens.inventory.fleet.agent import Agent
from zoolens.inventory.fleet.agent_facts import AgentFacts, describe_agent, read_facts
from zoolens.inventory.fleet.placing import agents, places, places_by_kind


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))
    with open_store(tmp_path / "store.sqlite") as store:
        yield store


@pytest.fixture(scope="module")
def here() -> AgentFacts:
    facts = describe_agent()
    return replace(facts, runtimes={"onnxruntime": "1.20.0"}, packages={"onnxruntime": "1.20.0"})


def offer(store, name, facts):
    publish_agent(store, AgentRecord(name, name, facts.kind, facts.as_data(), 60.0))


def test_facts_are_the_same_after_the_store(store, here):
    offer(store, "a", here)
    (listed,) = agents(store)
    assert listed.facts == here
    assert listed.facts.kind == here.kind


def test_what_is_another_kind_of_machine_and_what_is_not(here):
    machine = here.machine
    alike = [
        replace(here, free_disk=1, load=9.0, node="abc", host="other", peaks={"float32": 1.0}),
        replace(here, machine=replace(machine, memory_bytes=1, kernel="Linux 9", os="another"), zoolens="9"),
        replace(here, packages={"onnxruntime": "1.20.0", "pytest": "1"}),
    ]
    unlike = [
        replace(here, runtimes={"onnxruntime": "1.21.0"}),
        replace(here, environment="onnxruntime==1.20.0"),
        replace(here, gpus=("another",)),
        replace(here, machine=replace(machine, cores=machine.cores + 1)),
        replace(here, machine=replace(machine, flags=("avx512f",))),
        replace(here, machine=replace(machine, python="3.99.0")),
    ]
    assert {facts.kind for facts in alike} == {here.kind}
    assert len({facts.kind for facts in (here, *unlike)}) == 1 + len(unlike)


def test_only_what_counts_for_an_evaluation_makes_a_kind(here):
    further = replace(here, runtimes={**here.runtimes, "torch": "2.0"})
    assert further.kind != here.kind
    assert further.kind_for(["onnxruntime"]) == here.kind_for(["onnxruntime"])
    gpu, inside = replace(here, gpus=("one",)), replace(here, environment="onnxruntime==1.20.0")
    assert gpu.kind_for(gpu=False) == here.kind_for(gpu=False)
    assert inside.kind_for(environment=False) == here.kind_for(environment=False)


def test_demands_choose_machines_and_say_why_none_is_left(store, here):
    assert places(store, "avx512") == []  # nothing is known of machines: a node finds out by itself
    offer(store, "small", replace(here, machine=replace(here.machine, memory_bytes=8_000_000_000, flags=("neon",))))
    offer(store, "large", replace(here, machine=replace(here.machine, memory_bytes=64_000_000_000, flags=("avx512f",))))
    assert [place.agent for place in places(store)] == ["large", "small"]
    assert [place.agent for place in places(store, "memory>=32GB")] == ["large"]
    assert [place.agent for place in places(store, "onnxruntime>=1.19", ["onnxruntime"])] == ["large", "small"]
    with pytest.raises(ConstraintError) as error:
        places(store, "onnxruntime>=1.30, avx512")
    assert error.value.message == (
        "None of 2 agents can run this: large: onnxruntime>=1.30 is required but 1.20.0 is installed. "
        "small: onnxruntime>=1.30 is required but 1.20.0 is installed; avx512 is required but this CPU has no such "
        "feature (a package is written with a version, such as onnxruntime>=1)."
    )
    with pytest.raises(ConstraintError, match="large: it has no torch"):
        places(store, runtimes=["torch"])


def test_kinds_put_machines_that_can_be_reached_first(store, here):
    with pytest.raises(ConstraintError, match="no agents in this store"):
        places_by_kind(store)
    offer(store, "a far", replace(here, host="far"))
    offer(store, "b here", here)
    offer(store, "c new", replace(here, runtimes={"onnxruntime": "1.21.0"}, host="far", node="abc"))
    kinds = list(places_by_kind(store).values())
    assert [[place.agent for place in alike] for alike in kinds] == [["b here", "a far"], ["c new"]]
    assert [place.within_reach for place in kinds[0]] == [True, False]
    assert "a far is another machine and in no Ray cluster" in kinds[0][1].out_of_reach


def test_words_of_another_version_are_told_and_end_nothing(store, here):
    publish_agent(store, AgentRecord("x", "x", "kind", {"machine": 3}, 60.0))
    assert [listed.facts for listed in agents(store)] == [None]
    with pytest.raises(ConstraintError, match="x: what it published cannot be read"):
        places(store)
    offer(store, "y", here)
    assert [place.agent for place in places(store)] == ["y"]
    with pytest.raises(StoreError, match=r"What the agent x published cannot be read \(\d+ fields"):
        read_facts("x", {"machine": 3})


def test_an_agent_is_on_the_list_while_it_runs(store, here):
    agent, said = Agent(store, here, name="a", lease=0.3), []
    runner = threading.Thread(target=agent.run, args=(said.append,))
    runner.start()
    try:
        while not said:
            runner.join(0.01)
        first = load_agents(store)
        remove_agent(store, agent.id)  # as one who restores an older store does
        while not load_agents(store):
            runner.join(0.02)
        assert [one.id for one in load_agents(store)] == [one.id for one in first] == [agent.id]
    finally:
        agent.stop.set()
        runner.join(20)
    assert load_agents(store, lost=True) == []
    assert said == [f"a is on the list of {store.name} (kind {here.kind})."]


def test_a_lease_must_last(store, here):
    with pytest.raises(ZoolensError, match="makes no sense"):
        Agent(store, here, lease=0)
    with pytest.raises(ZoolensError, match="makes no sense"):
        Agent(store, here, lease=float("inf"))


def test_a_runtime_that_only_the_agent_has_is_in_nobodys_way(store, here):
    offer(store, "a", replace(here, runtimes={**here.runtimes, "theirs": "1.0"}))
    assert [place.agent for place in places(store, "onnxruntime>=1")] == ["a"]
