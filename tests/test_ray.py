"""A real Ray cluster of three nodes on this machine, one of which is killed in the middle: the same as without it."""

import os
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest
from tests.test_fanout import NETWORKS, described, facts, trained

import zoolens
from zoolens import port
from zoolens.base.engine.executors.current_executor import current_executor, open_executor, running_on
from zoolens.base.engine.executors.ray import node_at
from zoolens.base.store.agents import AgentRecord, publish_agent
from zoolens.base.store.store import open_store
from zoolens.findings.graph.structures.structure import structure_of
from zoolens.findings.index.opener import build_index
from zoolens.inventory.fleet.agent_facts import describe_agent
from zoolens.testing.executor_contract import ExecutorContract

pytestmark = pytest.mark.slow

OPTIONS = {"limit": 40, "runtimes": ["onnxruntime"], "cold": False, "batches": ()}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Three nodes; the first only keeps the books. Starting them takes most of the time of these tests."""
    pytest.importorskip("ray", reason="RAY ABSENT: install zoolens[ray] to test running on it")
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))  # Ray keeps a token there
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_worker_niceness", "0")
        small = {"num_cpus": 1, "object_store_memory": 100 << 20}
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        head = {**small, "num_cpus": 0, "include_dashboard": False, "ray_client_server_port": port}
        made = Cluster(initialize_head=True, head_node_args=head)
        made.client = f"ray://127.0.0.1:{port}"
        made.victim = made.add_node(**small)
        made.add_node(**small)
        patch.setenv("RAY_ADDRESS", made.address)
        yield made
        made.shutdown()


@pytest.fixture(params=["driver", "client"])
def on(request, cluster):
    """What `--on` says: a driver of the cluster, or one behind Ray's client server."""
    return "ray" if request.param == "driver" else cluster.client


def test_a_node_that_is_killed_in_the_middle_changes_nothing(cluster, tmp_path):
    pytest.importorskip("onnxruntime")
    models = ["demo:*"]
    with open_store(tmp_path / "here.sqlite") as here, open_store(tmp_path / "there.sqlite") as there:
        zoolens.evaluate(models, "demo", store=here, **OPTIONS)
        with running_on("ray"):
            assert current_executor().elsewhere
            assert current_executor().capacity == 2
            stored = []  # when the node was killed
            watcher = threading.Thread(target=kill_a_node, args=(cluster, tmp_path / "there.sqlite", stored))
            watcher.start()
            outcomes = zoolens.evaluate(models, "demo", store=there, **OPTIONS)
            watcher.join()
        assert not any(outcome.errors for outcome in outcomes)
        assert 0 < stored[0] < len(outcomes) - 2
        assert facts(there) == facts(here)


def kill_a_node(cluster, path, stored):
    """As soon as one evaluation is in the store."""
    deadline = time.monotonic() + 120
    with open_store(path) as store:
        while not store.runs() and time.monotonic() < deadline:
            time.sleep(0.05)
        cluster.remove_node(cluster.victim, allow_graceful=False)
        stored.append(len(store.runs()))


def test_structures_and_the_sandbox_are_the_same_there(on, tmp_path):
    pytest.importorskip("onnx")
    models = ["onnx:light/squeezenet", "onnx:light/shufflenet"]
    ours = structure_of(models, store=tmp_path / "here.sqlite")
    with running_on(on):
        theirs = structure_of(models, store=tmp_path / "there.sqlite")
    assert [one.packed for one in theirs] == [one.packed for one in ours]


def test_a_dataset_in_slices_a_trace_and_an_index_are_the_same_there(on, tmp_path):
    pytest.importorskip("onnxruntime")
    model, options = "demo:lenet-narrow", {**OPTIONS, "limit": 100}
    traced = {"runtimes": "onnxruntime", "repeats": 2, "seconds": 0.1}
    with open_store(tmp_path / "here.sqlite") as here, open_store(tmp_path / "there.sqlite") as there:
        zoolens.evaluate(model, "demo", store=here, **options)
        (ours,) = zoolens.trace(model, store=here, **traced)
        rows = build_index(here, refresh=True).rows
        with running_on(on):
            (outcome,) = zoolens.evaluate(model, "demo", store=there, shards=3, **options)
            (theirs,) = zoolens.trace(model, store=there, **traced)
            their_rows = build_index(there, refresh=True).rows
        assert facts(there) == facts(here)
        assert [row.figures["flops"].value for row in their_rows] == [row.figures["flops"].value for row in rows]
        assert len(there.parts(outcome.run.id, "predictions")) == 3
    assert described(theirs) == described(ours)


def test_a_comparison_is_the_same_there(on):
    pytest.importorskip("onnxruntime")
    sides = "demo:lenet-torch@onnxruntime", "demo:lenet-int8@onnxruntime"
    ours = zoolens.diverge(*sides, "demo", limit=20, examined=1)
    with running_on(on):
        theirs = zoolens.diverge(*sides, "demo", limit=20, examined=1)
    assert theirs == ours


@pytest.mark.usefixtures("cluster")
class TestRay(ExecutorContract):
    def executor(self):
        return open_executor("ray")


class TestRayClient(ExecutorContract):
    @pytest.fixture(autouse=True)
    def reached(self, cluster):
        self.address = cluster.client

    def executor(self):
        return open_executor(self.address)


def test_seeds_of_a_pair_are_the_same_there(on, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    (tmp_path / "nets.py").write_text(NETWORKS)
    monkeypatch.chdir(tmp_path)
    asked = {"inputs": ["1x28x28"], "limits": (120, 50), "batch": 40, "seeds": 2}
    ours = port.train("nets.py:slow", "nets.py:quick", **asked, store="here.sqlite")
    with running_on(on):
        theirs = port.train("nets.py:slow", "nets.py:quick", **asked, store="there.sqlite")
    assert trained(theirs) == trained(ours)


def test_a_study_is_the_same_there(cluster, tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("jax")
    from zoolens.training.crosstrain.study.plan_runner import run_plan
    from zoolens.training.crosstrain.study.study_plan import Dimension, Plan, Search
    from zoolens.training.crosstrain.training.manner import Manner
    from zoolens.training.crosstrain.training.recipe import Recipe

    recipe = Recipe(architecture="mlp", dataset="demo", learning_rate=0.01, batch_size=64, epochs=1)
    plan = Plan(
        name="tiny",
        frameworks=("torch", "jax"),
        recipe=recipe,
        space=(Dimension(name="learning_rate", choices=(0.001, 0.01)),),
        search=Search(sampler="design", trials=2),
    )
    ways = {"here": {"backend": "local"}, "there": {"backend": "ray"}}
    found = {
        name: run_plan(plan, tmp_path / f"{name}.sqlite", manner=Manner(threads=1), **way) for name, way in ways.items()
    }
    told = {
        name: [(one.trial, one.asked, one.told.delta, one.told.accuracies) for one in study.search.finished]
        for name, study in found.items()
    }
    assert told["there"] == told["here"]
    assert len(told["here"]) == 2


def offer(store, name, node, **different):
    facts = replace(describe_agent(), node=node, **different)
    publish_agent(store, AgentRecord(name, name, facts.kind, facts.as_data(), 600.0))


def nodes_with_cores(executor):
    return [str(node["NodeID"]) for node in executor._ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]


def test_a_machine_of_the_same_kind_does_the_work_of_a_node_that_is_gone(cluster, tmp_path):
    pytest.importorskip("onnxruntime")
    with open_store(tmp_path / "store.sqlite") as store, running_on("ray"):
        first, *_ = nodes_with_cores(current_executor())
        offer(store, "a gone", "0" * len(first))
        offer(store, "b instead", first)
        offer(store, "c another kind", first, machine=replace(describe_agent().machine, cpu="another"))
        with running_on("each-kind"):
            outcomes = zoolens.evaluate(["demo:mlp-small"], "demo", store=store, **{**OPTIONS, "batches": (1,)})
        done, refused = sorted(outcomes, key=lambda outcome: outcome.title == "demo:mlp-small on c another kind")
        assert (done.errors, done.run.id) == ((), store.runs()[0].id)
        assert "its agent promised" in refused.errors[0]


def test_this_machine_is_a_node_of_the_cluster(cluster):
    with running_on("ray"):
        known = {str(node["NodeID"]) for node in current_executor()._ray.nodes()}
    assert node_at(cluster.address) in known


def test_the_cluster_does_not_hold_the_password_of_a_store(cluster, monkeypatch):
    import psutil
    import ray

    words = ["zoolens", "eval", "--store", "postgresql://ada:open-sesame@db/x"]
    told = psutil.Process.cmdline
    monkeypatch.setattr(psutil.Process, "cmdline", lambda self: words if self.pid == os.getpid() else told(self))
    with running_on("ray"):
        current_executor()
        jobs = str(ray._private.state.jobs())
    assert "postgresql://***@db/x" in jobs
    assert "open-sesame" not in jobs


LISTENING = """
import psutil
from zoolens.base.engine.executors.ray import RayExecutor

executor = RayExecutor.open(None)
for process in psutil.Process().children(recursive=True):
    for connection in process.net_connections():
        if connection.status == "LISTEN":
            print(connection.laddr.ip)
executor.close()
"""


def test_a_cluster_that_we_start_is_not_open_to_other_machines(tmp_path):
    pytest.importorskip("ray", reason="RAY ABSENT: install zoolens[ray] to test running on it")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environment["HOME"] = str(tmp_path)
    command = [sys.executable, "-c", LISTENING]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    addresses = {address.removeprefix("::ffff:") for address in done.stdout.split()}
    assert addresses == {"127.0.0.1"}
