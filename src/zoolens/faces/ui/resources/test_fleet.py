"""What the page of the fleet asks for: machines, jobs and the grid of models × kinds."""

from dataclasses import replace

import pytest

from zoolens.base.errors import UnknownName
from zoolens.base.store.agents import AgentRecord, publish_agent
from zoolens.base.store.jobs import write_jobs
from zoolens.base.store.run_columns import RunIndex
from zoolens.faces.ui.endpoint import RequestError
from zoolens.faces.ui.resources.fleet import JobsQuery, LogQuery, MachinesQuery, jobs, log, machines
from zoolens.faces.ui.resources.fleet_grid import MOST_KINDS, GridQuery, grid
from zoolens.findings.comparisons.test_kind_grid import LARGE, measured, stack
from zoolens.inventory.fleet.agent_facts import describe_agent
from zoolens.testing.job_contract import DRIVER, job


class Context:
    """The two parts of a context that these endpoints use."""

    def __init__(self, store):
        self.store, self.runs = store, RunIndex(store)


@pytest.fixture
def context(tmp_path):
    from zoolens.base.store.store import open_store

    with open_store(tmp_path / "store.sqlite") as store:
        yield Context(store)


@pytest.fixture(scope="module")
def facts():
    return replace(describe_agent(), runtimes={"onnxruntime": "1.31.1"}, node="node7", host="host7", gpus=("L4",))


def test_machines_and_what_each_does(context, facts):
    publish_agent(context.store, AgentRecord("a", "ant", "k", facts.as_data(), 3_600.0, ("eval demo:x",)))
    publish_agent(context.store, AgentRecord("b", "bee", "k", {"machine": 1}, 3_600.0))
    publish_agent(context.store, AgentRecord("c", "cat", "k", facts.as_data(), 1e-6))
    answer = machines(context, MachinesQuery(limit=2, offset=1))
    assert (answer.total, answer.lost, answer.working, answer.kinds) == (3, 1, 1, 1)
    bee, cat = answer.rows
    assert (bee.readable, bee.cores, bee.state) == (False, None, "idle")
    assert (cat.state, cat.runtimes, cat.gpus) == ("lost", ["onnxruntime 1.31.1"], ["L4"])
    (ant, *_) = machines(context, MachinesQuery()).rows
    assert (ant.state, ant.doing, ant.cores) == ("works", ["eval demo:x"], facts.machine.cores)


def test_jobs_say_where_they_run(context, facts):
    publish_agent(context.store, AgentRecord("a", "ant", "k", facts.as_data(), 3_600.0))
    tried = [
        {"host": "", "node": "node9" * 9, "started": 30.0, "ended": 20.0, "reason": "The node died."},
        {"host": "", "node": "node7", "started": 9.0, "ended": None, "reason": ""},
    ]
    runs = job("run", state="running", attempts=tried, started=9.0, agent="", log=[[5.0, "half of it"]])
    write_jobs(context.store, DRIVER, [job("wait"), runs, job("bad", state="failed", error="no operator")])
    answer = jobs(context, JobsQuery())
    assert [(one.id, one.where, one.state) for one in answer.open] == [
        ("run", "ant", "running"),
        ("wait", "ant", "waiting"),  # it was sent to an agent of this name
    ]
    assert [(one.id, one.error) for one in answer.ended] == [("bad", "no operator")]
    assert answer.counts == {"running": 1, "waiting": 1, "failed": 1}
    found = log(context, LogQuery(id="ru"))
    assert found.attempts == ["Attempt 1 on node9node9no, 10 s: The node died.", "Attempt 2 on ant"]
    assert [line.text for line in found.lines] == ["half of it"]
    with pytest.raises(UnknownName, match="fleet jobs"):
        log(context, LogQuery(id="nothing"))


def test_the_grid_says_what_nobody_measured_and_what_is_worse(context, facts):
    assert grid(context, GridQuery()).datasets == []
    publish_agent(context.store, AgentRecord("a", "ant", "k", facts.as_data(), 3_600.0))
    measured(context.store, ms=10.0)
    measured(context.store, where=stack(version="1.24.1"), ms=13.1)
    measured(context.store, "zoo:other@1.0.0", stack(LARGE), ms=5.0)
    answer = grid(context, GridQuery(quantity="latency"))
    assert (answer.dataset, answer.runtime, answer.metric, answer.total) == ("digits", "onnxruntime", "latency_p50", 2)
    assert [kind.agents for kind in answer.kinds] == [[], [], [], ["ant"]]
    first = answer.rows[0].cells
    assert [cell.run is None for cell in first] == [True, False, False, True]
    assert [cell.change for cell in first if cell.outcome == "worse"] == ["1.31 × the time"]
    assert answer.unmeasured == 5
    (sentence,) = answer.regressions
    assert "onnxruntime 1.24.1 instead of 1.31.1" in sentence
    shown = grid(context, GridQuery(quantity="latency", kind=[answer.kinds[1].id], q="net"))
    assert ([len(row.cells) for row in shown.rows], len(shown.all_kinds)) == ([1], 4)
    with pytest.raises(UnknownName, match="nothing"):
        grid(context, GridQuery(dataset="nothing"))
    with pytest.raises(RequestError, match="no kind abc"):
        grid(context, GridQuery(against="abc"))


def test_more_kinds_than_a_table_can_show(context):
    for number in range(MOST_KINDS + 3):
        measured(context.store, where=stack(version=f"1.{number}"))
    answer = grid(context, GridQuery())
    assert (len(answer.kinds), len(answer.all_kinds)) == (MOST_KINDS, MOST_KINDS + 3)
