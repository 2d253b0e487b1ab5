"""A real Ray cluster on this machine with two replicas, one of which is killed under load: no request is lost."""

import asyncio
import contextlib
import os
import signal
import threading
import time
import urllib.request

import numpy as np
import pytest

import zoolens
from zoolens.base.protocol.errors import ServingError
from zoolens.base.protocol.messages import InferRequest
from zoolens.base.store.store import open_store
from zoolens.faces.serving.cluster.cluster_plan import ReplicaCount
from zoolens.faces.serving.options import ServerOptions
from zoolens.faces.serving.plane.plane_settings import EndpointSettings, ModelSpec
from zoolens.faces.serving.serve_request import ServeRequest
from zoolens.faces.serving.services.events import sessions

pytestmark = pytest.mark.slow

SERVICE = """\
services:
  fashion:
    reference: demo:lenet-wide
    runtime: onnxruntime
    within: 50%
    objectives:
      latency: {percentile: 99, bound: 500 ms}
    splits:
      - {model: demo:lenet-narrow, weight: 10%}
"""
CLIENTS = 8


@pytest.fixture(scope="module")
def ray_home(tmp_path_factory):
    """One for all tests of this process: Ray keeps a token there, which it reads once."""
    return tmp_path_factory.mktemp("ray")


@pytest.fixture
def service(tmp_path, monkeypatch, ray_home):
    """A file of services, and a store with its reference and a fallback."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("ray.serve", reason="RAY SERVE ABSENT: install zoolens[ray-serve] to test serving on it")
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "zoolens"))
    monkeypatch.setenv("HOME", str(ray_home))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    store = tmp_path / "store.sqlite"
    models = ["demo:lenet-wide", "demo:lenet-narrow"]
    zoolens.evaluate(models, "demo", runtimes=["onnxruntime"], limit=60, batches=(), cold=False, store=store)
    (tmp_path / "service.yaml").write_text(SERVICE)
    return tmp_path / "service.yaml", store


def test_a_replica_that_is_killed_under_load_loses_no_request(service):
    from zoolens.faces.serving.cluster.ray import RaySettings, running_on_ray

    file, store = service
    image = np.zeros((1, 28, 28), np.float32)

    async def main():
        models = [ModelSpec("digits=demo:lenet-torch", "onnxruntime")]
        options = ServerOptions(http_port=0, grpc_port=None, drain_seconds=10)
        request = ServeRequest(models, options, services=[file], store=store)
        cluster = RaySettings(replicas=ReplicaCount(2, 2))
        async with running_on_ray(request, cluster) as server:
            plane = server.plane
            assert {entry.name: entry.state for entry in plane.repository()} == {"digits": "READY", "fashion": "READY"}
            await labels_and_metrics(server, image)
            victim, other = (replica.pid for replica in plane.view.replicas)
            assert victim != other
            answers, refusals = await under_load(plane, lambda: os.kill(victim, signal.SIGKILL), image)
            await until(lambda: len({replica.pid for replica in plane.view.replicas} - {victim}) == 2)
            statistics = plane.statistics("fashion")[0]
            controller = plane.view.pid
            more, refused = await under_load(plane, lambda: os.kill(controller, signal.SIGKILL), image)
            await until(lambda: plane.view.pid != controller and len(plane.view.replicas) == 2)
            return answers + more, refusals + refused, server.urls, statistics

    answers, refusals, urls, statistics = asyncio.run(asyncio.wait_for(main(), 400))
    assert len(answers) > 100
    rounded = {answer.outputs["probabilities"].round(3).tobytes() for answer in answers}  # batches round differently
    assert len(rounded) <= 2  # of the reference or fallback
    assert all(answer.parameters["zoolens_model"].startswith("demo:lenet-") for answer in answers)
    assert not refusals  # each was sent again to the replica that was left
    assert urls["http"].startswith("http://127.0.0.1:")
    assert 0 < statistics.success.count <= len(answers) + CLIENTS
    with open_store(store) as opened:
        after, before = sessions(opened)  # of both controllers
    # Two replicas, and the one that followed, unless the controller was killed before it had written that.
    assert [event.kind for event in before.events].count("start") in (2, 3)
    assert sum(answered.requests for answered in (*before.answers, *after.answers)) > 100


def test_a_replica_is_added_when_requests_pile_up(service):
    from zoolens.faces.serving.cluster.ray import RaySettings, running_on_ray

    image = np.zeros((1, 28, 28), np.float32)

    async def main():
        models = [ModelSpec("fashion=demo:lenet-deep", "onnxruntime")]
        options = ServerOptions(http_port=0, grpc_port=None, drain_seconds=5)
        request = ServeRequest(models, options, EndpointSettings(max_batch=1))
        cluster = RaySettings(replicas=ReplicaCount(1, 2))
        async with running_on_ray(request, cluster) as server:
            assert len(server.plane.view.replicas) == 1
            over = asyncio.Event()

            async def ask():
                while not over.is_set():
                    await server.plane.infer(InferRequest("fashion", {"input": image}))

            asking = [asyncio.ensure_future(ask()) for _ in range(CLIENTS)]
            await until(lambda: sum(replica.ready for replica in server.plane.view.replicas) == 2)
            over.set()
            await asyncio.gather(*asking)

    asyncio.run(asyncio.wait_for(main(), 300))


async def labels_and_metrics(server, image):
    """Whichever replica answered a request, its label is counted; and the front counts what became of requests."""
    for number in range(4):
        await server.plane.infer(InferRequest("fashion", {"input": image}, id=f"request-{number}"))
    labels = {f"request-{number}": number for number in range(5)}
    assert await server.plane.feedback("fashion", labels) == 4
    with pytest.raises(ServingError, match="not a class of service"):
        await server.plane.feedback("fashion", {"request-0": "no such class"})

    def scraped():
        with urllib.request.urlopen(f"{server.urls['http']}/metrics") as response:
            return response.read().decode()

    text = await asyncio.to_thread(scraped)
    assert 'zoolens_requests_total{endpoint="fashion",outcome="answered"} 4.0' in text
    assert "zoolens_ready_replicas 2.0" in text


async def under_load(plane, disturb, image):
    """What `CLIENTS` clients get before and after a disturbance; an exception of another kind fails the test."""
    answers, refusals, over = [], [], asyncio.Event()

    async def ask():
        while not over.is_set():
            try:
                answers.append(await plane.infer(InferRequest("fashion", {"input": image})))
            except ServingError as error:
                refusals.append(error)

    asking = [asyncio.ensure_future(ask()) for _ in range(CLIENTS)]
    await until(lambda: len(answers) > 50)
    disturb()
    before = len(answers)
    await until(lambda: len(answers) > before + 200)
    over.set()
    await asyncio.gather(*asking)
    return answers, refusals


async def until(fulfilled, seconds=120):
    deadline = time.monotonic() + seconds
    while not fulfilled():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.1)


def test_the_command_serves_on_ray_and_says_what_is_wrong(service, zoolens_process):
    file, store = service
    lines, end = zoolens_process("serve", str(file), "--on", "ray", "--replicas", "1", "--http", "0", "--grpc", "off",
                                 "--store", str(store))  # fmt: skip
    assert any(line.startswith("REST: http://127.0.0.1:") for line in lines)
    assert end() == 0


@pytest.fixture
def zoolens_process():
    """Starts a command that serves: what it printed until it was ready, and a function that ends it."""
    import subprocess
    import sys

    with contextlib.ExitStack() as stack:

        def start(*arguments):
            process = stack.enter_context(
                subprocess.Popen([sys.executable, "-m", "zoolens", *arguments], stdout=subprocess.PIPE, text=True)
            )
            stack.callback(process.kill)
            guard = threading.Timer(200, process.kill)
            guard.start()
            stack.callback(guard.cancel)
            lines = []
            for line in process.stdout:
                lines.append(line)
                if line.startswith("REST:"):
                    break

            def end():
                process.send_signal(signal.SIGTERM)
                return process.wait(100)

            return lines, end

        yield start
