"""Evaluations on every kind of machine that agents offer. A real cluster is in test_ray.py."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

import zoolens as zl
from zoolens.base.engine.executors.current_executor import running_on
from zoolens.base.engine.executors.each_kind import EachKind
from zoolens.base.errors import ConstraintError, Lost, ZoolensError
from zoolens.base.store.agents import AgentRecord, publish_agent
from zoolens.base.store.jobs import JobState, load_jobs
from zoolens.base.store.store import open_store
from zoolens.inventory.fleet import agent_facts
from zoolens.inventory.fleet.agent_facts import describe_agent

QUICK = {"limit": 20, "runtimes": ["onnxruntime"], "cold": False, "batches": ()}


class Nodes(EachKind):
    """Nodes of a cluster, which are all this machine. `gone`: those that were lost; `really`: the facts of nodes that
    are another kind than this machine."""

    def __init__(self, patch, *gone, **really):
        super().__init__(None)
        self.gone, self.really, self.asked, self._patch = gone, really, [], patch

    def submit_telling(self, function, job, tell, *, whole_machine=False, gpu=False, node=""):
        self.asked.append((job["title"], node))
        if node in self.gone:
            raise Lost(f"The node {node} is gone.")
        self._patch.setattr(agent_facts, "describe_agent", lambda inside: replace(HERE, **self.really.get(node, {})))
        future = super().submit_telling(function, job, tell, whole_machine=whole_machine)
        future.exception()  # one after the other, so that each has the facts of its node
        return future


HERE = describe_agent()


@pytest.fixture
def store(home, tmp_path):
    with open_store(tmp_path / "store.sqlite") as store:
        yield store


def offer(store, name, **different):
    facts = replace(HERE, **different)
    publish_agent(store, AgentRecord(name, name, facts.kind, facts.as_data(), 600.0))


def test_every_model_is_evaluated_once_on_each_kind(store, monkeypatch):
    pytest.importorskip("onnxruntime")
    offer(store, "a1", node="n1")
    offer(store, "a2", node="n2")
    other = {"machine": replace(HERE.machine, cpu="other")}
    offer(store, "b", node="n3", **other)
    offer(store, "far", machine=replace(HERE.machine, cpu="third"), host="far")
    nodes = Nodes(monkeypatch, "n1", n3=other)
    with running_on(nodes):
        outcomes = zl.evaluate(["demo:mlp-small"], "demo", store=store, **QUICK)
    titles = {(outcome.title, outcome.errors) for outcome in outcomes}
    # The node of a1 was lost, and another machine of the same kind did its work.
    assert sorted(nodes.asked) == [
        ("demo:mlp-small on a1", "n1"),
        ("demo:mlp-small on a2", "n2"),
        ("demo:mlp-small on b", "n3"),
    ]
    assert titles == {
        ("demo:mlp-small in onnxruntime", ()),
        (
            "demo:mlp-small on far",
            ("far is another machine and in no Ray cluster. Start its agent inside a Ray node.",),
        ),
    }
    listed = {job.kind: job for job in load_jobs(store)}
    kinds = [replace(HERE, **more).kind_for(["onnxruntime"], gpu=False) for more in ({}, other)]
    moved, straight = (listed[kind] for kind in kinds)
    assert (moved.state, moved.agent, len(moved.runs)) == (JobState.DONE, "a2", 1)
    assert [attempt.reason for attempt in moved.attempts] == ["The node n1 is gone.", ""]
    assert [attempt.reason for attempt in straight.attempts] == [""]
    assert {job.runs[0] for job in listed.values()} == {outcome.run.id for outcome in outcomes if outcome.run}


def test_a_machine_that_is_another_kind_than_promised_measures_nothing(store, monkeypatch):
    pytest.importorskip("onnxruntime")
    offer(store, "a", node="n1", machine=replace(HERE.machine, cpu="another"))
    with running_on(Nodes(monkeypatch)):
        (outcome,) = zl.evaluate(["demo:mlp-small"], "demo", store=store, **QUICK)
    assert "and its agent promised" in outcome.errors[0]
    assert store.runs() == []


def test_an_environment_that_only_a_row_asks_for_is_not_built(store, monkeypatch):
    offer(store, "a", environment="some-package==1.0")
    with running_on("each-kind"):
        (outcome,) = zl.evaluate(["demo:mlp-small"], "demo", store=store, **QUICK)
    assert "This machine has no environment some-package==1.0" in outcome.errors[0]


def test_machines_that_would_make_the_same_run_are_one_kind(store, monkeypatch):
    pytest.importorskip("onnxruntime")
    offer(store, "a", node="n1")
    offer(store, "b", node="n2", runtimes={**HERE.runtimes, "another": "1.0"}, gpus=("one",))
    nodes = Nodes(monkeypatch)
    with running_on(nodes):
        zl.evaluate(["demo:mlp-small"], "demo", store=store, **QUICK)
    assert [node for _, node in nodes.asked] == ["n1"]


def test_a_kind_whose_machines_are_all_lost_is_told(store, monkeypatch):
    offer(store, "a", node="n1")
    with running_on(Nodes(monkeypatch, "n1")):
        (outcome,) = zl.evaluate(["demo:mlp-small"], "demo", store=store, **QUICK)
    assert (outcome.title, outcome.run) == ("demo:mlp-small on a", None)
    assert outcome.errors == ("The node n1 is gone.",)


def test_without_agents_or_with_other_work_it_is_refused(store):
    with running_on("each-kind"):
        with pytest.raises(ConstraintError, match="no agents in this store"):
            zl.evaluate(["demo:mlp-small"], "demo", store=store, **QUICK)
        with pytest.raises(ZoolensError, match="Only evaluations run on every kind of machine"):
            zl.graph_of("demo:mlp-small", store=store)


def test_demands_send_work_to_machines_that_meet_them(store, monkeypatch):
    pytest.importorskip("onnxruntime")
    machine = HERE.machine
    offer(store, "small", node="n1", machine=replace(machine, flags=()))
    offer(store, "large", node="n2", machine=replace(machine, flags=("sve9",)))

    class Cluster(Nodes):
        each_kind = False

    nodes = Cluster(monkeypatch, n2={"machine": replace(machine, flags=("sve9",))})
    with running_on(nodes):
        outcomes = zl.evaluate(["demo:mlp-*"], "demo", store=store, require="sve9", **QUICK)
    assert len(nodes.asked) > 1
    assert {node for _, node in nodes.asked} == {"n2"}
    # This machine, which stands for the node, has no such feature, and says so itself.
    assert all("sve9 is required" in outcome.errors[0] for outcome in outcomes)


def test_an_agent_is_started_listed_and_stopped_by_commands(home, tmp_path, zoolens):
    path = tmp_path / "fleet.sqlite"
    command = [sys.executable, "-m", "zoolens", "agent", "--name", "ant", "--store", str(path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ.copy()) as agent:
        assert agent.stderr is not None
        first = agent.stderr.readline()
        listed = json.loads(zoolens("agents", "--json", "--store", str(path)).stdout)
        table = zoolens("agents", "--store", str(path)).stdout
        agent.send_signal(signal.SIGTERM)
        rest = agent.stderr.read()
    assert first.startswith("ant is on the list of")
    assert [(one["name"], one["alive"], one["doing"]) for one in listed] == [("ant", True, [])]
    assert listed[0]["facts"]["machine"]["cores"] >= 1
    assert "ant" in table
    assert "nothing" in table
    assert "ant is off the list." in rest
    assert agent.returncode == 0
    assert "No agents" in zoolens("agents", "--store", str(path)).stderr
