"""One controller and two replicas with real data planes: they serve the same ladder, and tell one store."""

import asyncio

import numpy as np
import pytest

from zoolens.base.protocol.messages import InferRequest
from zoolens.base.store.store import open_store
from zoolens.faces.serving.cluster.cluster_plan import ClusterPlan
from zoolens.faces.serving.cluster.controller import Controller
from zoolens.faces.serving.cluster.replica import Replica
from zoolens.faces.serving.services.definition import Service
from zoolens.faces.serving.services.events import sessions
from zoolens.faces.serving.services.hosting import HostSettings
from zoolens.findings.measure.evaluate import evaluate
from zoolens.findings.measure.latency import LatencySettings

QUICK = LatencySettings(min_samples=10, max_samples=40, max_seconds=0.1, warmup_calls=1, warmup_seconds=0.0)
STAND_IN = ("demo:lenet-narrow@1.0.0", "onnxruntime")


@pytest.fixture
def store_path(tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime")
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    path = tmp_path / "store.sqlite"
    models = ["demo:lenet-wide", "demo:lenet-narrow"]
    evaluate(models, "demo", runtimes=["onnxruntime"], limit=60, batches=(), cold=False, store=path)
    return path


def test_replicas_share_the_ladder_and_what_happens_is_in_the_store(store_path):
    service = Service(reference="demo:lenet-wide", within=0.5, runtime="onnxruntime", batch={"size": 2})
    plan = ClusterPlan(services={"fashion": service}, store=str(store_path))

    def rungs(replica):
        return [state.rung.model for state in replica._hosted["fashion"].endpoint.rungs]

    async def main():
        controller = Controller(plan, HostSettings(refresh=0, latency=QUICK))
        await controller.start()
        replicas = [Replica(plan, controller, name) for name in ("first", "second")]
        for replica in replicas:
            await replica.start()
        before = [rungs(replica) for replica in replicas]
        for replica in replicas:
            await replica.infer(InferRequest("fashion", {"input": np.zeros((1, 28, 28), np.float32)}))
        replicas[0]._hosted["fashion"].broken(*STAND_IN, "It broke its promise.")
        while any(len(rungs(replica)) > 1 for replica in replicas):  # the report of each replica brings it
            await asyncio.sleep(0.05)
        view = await controller.view()
        for replica in replicas:
            await replica.close(5)
        await controller.close()
        return before, view

    before, view = asyncio.run(asyncio.wait_for(main(), 60))
    assert before == [["demo:lenet-wide@1.0.0", STAND_IN[0]]] * 2
    assert [entry.name for entry in view.repository] == ["fashion"]
    assert len(view.replicas) == 2
    with open_store(store_path) as store:
        (session,) = sessions(store)
    kinds = [event.kind for event in session.events]
    assert kinds.count("start") == kinds.count("stop") == kinds.count("ladder") == 2  # one of each replica
    assert sum(answered.requests for answered in session.answers) == 2


@pytest.mark.slow  # the test above starts the same replicas, and waits for their answers
def test_what_was_answered_is_told_before_the_controller_ends(store_path):
    """A cluster ends both at once, and counts are written every few seconds only."""
    service = Service(reference="demo:lenet-wide", within=0.5, runtime="onnxruntime", batch={"size": 2})
    plan = ClusterPlan(services={"fashion": service}, store=str(store_path))

    async def main():
        controller = Controller(plan, HostSettings(refresh=0, latency=QUICK))
        await controller.start()
        replica = Replica(plan, controller, "only")
        await replica.start()
        await replica.infer(InferRequest("fashion", {"input": np.zeros((1, 28, 28), np.float32)}))
        await replica.flush()
        await controller.close()
        await replica.close(5)

    asyncio.run(asyncio.wait_for(main(), 60))
    with open_store(store_path) as store:
        (session,) = sessions(store)
    assert session.answered == {("demo:lenet-wide@1.0.0", "onnxruntime"): 1}


def test_a_service_without_a_measured_reference_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    plan = ClusterPlan(
        services={"fashion": Service(reference="demo:lenet-wide", within=0.5)}, store=str(tmp_path / "s")
    )

    async def main():
        controller = Controller(plan)
        await controller.start()
        replica = Replica(plan, controller, "first")
        await replica.start()
        view = await controller.view()
        await replica.close(1)
        await controller.close()
        return view

    view = asyncio.run(asyncio.wait_for(main(), 60))
    assert view.problem
    assert not view.ready
