"""What changes while requests come: models that are loaded and unloaded at the same time, ladders, memory limits."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal

import numpy as np
import psutil
import pytest

from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.messages import InferRequest, RequestedOutput
from zoolens.faces.serving.contracts.ladder import LatencyProfile, Rung
from zoolens.faces.serving.plane import instance, pool
from zoolens.faces.serving.plane.data_plane import open_plane
from zoolens.faces.serving.plane.plane_settings import EndpointSettings, ModelSpec
from zoolens.faces.serving.plane.test_faults import EXIT, FAIL, SLOW, begun, outcomes, request, worker
from zoolens.faces.serving.plane.test_pool import ask, opened, service
from zoolens.faces.serving.policies.policy import Choice


@pytest.fixture
def faulty(fake_model):
    return fake_model(behaviour="faulty")


@pytest.fixture
def paths(fake_model):
    return [fake_model(name, behaviour="faulty", seed=seed) for seed, name in enumerate(("large", "small", "other"))]


def workers():
    """The processes of workers that run. One may end between the list and the question for its name, and one that has
    ended stays in the list until its parent has asked how."""
    found = set()
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):
            if child.name() != "sh" and child.status() != psutil.STATUS_ZOMBIE:
                found.add(child.pid)
    return found


async def left(before, most):
    """Wait until no more than so many workers are there. One that was replaced is closed beside what goes on, after its
    last batch and whenever its process gets a core, so that a load or an unload may return before."""
    while len(workers() - before) > most:
        await asyncio.sleep(0.01)


def test_loads_and_unloads_at_the_same_time_leave_one_worker_or_none(fake_model):
    path = fake_model()

    async def serve():
        before = workers()
        async with open_plane([path]) as plane:
            await asyncio.gather(plane.load("tiny", {}), plane.load("tiny", {}))
            await left(before, 1)
            await asyncio.gather(plane.unload("tiny"), plane.unload("tiny"))
            await left(before, 0)
            await asyncio.gather(plane.load("tiny", {}), plane.load("tiny", {}))
            assert (await plane.infer(request())).outputs
            await plane.unload("tiny")
            await left(before, 0)
            loading = asyncio.ensure_future(plane.load("tiny", {}))
            await asyncio.sleep(0)
            await asyncio.gather(plane.unload("tiny"), loading)
            assert not plane.model_ready("tiny")
            assert plane.ready()  # nobody wants it any more
            await left(before, 0)

    asyncio.run(asyncio.wait_for(serve(), 120))


def test_a_restart_that_fails_unforeseen_is_a_reason_and_not_a_model_that_waits_for_ever(faulty, monkeypatch):
    monkeypatch.setattr(instance, "FIRST_PAUSE", 0.0)

    def no_more_files():
        raise OSError(24, "Too many open files")

    async def serve():
        async with open_plane([faulty]) as plane:
            worker(plane)._open_session = no_more_files
            os.kill(worker(plane).process_id, signal.SIGKILL)
            while worker(plane).idle:
                await asyncio.sleep(0.01)
            with pytest.raises(ServingError, match="Too many open files") as error:
                await plane.infer(request())
            assert error.value.refusal is Refusal.UNAVAILABLE
            assert not plane.ready()

    asyncio.run(serve())


def test_a_model_that_was_given_up_is_tried_again_after_a_while(faulty, monkeypatch):
    monkeypatch.setattr(instance, "MOST_DEATHS", 0)
    monkeypatch.setattr(pool, "_BEFORE_RETRY", 3600.0)

    async def serve():
        async with open_plane([faulty]) as plane:
            await outcomes(plane, request(EXIT))
            with pytest.raises(ServingError, match="exited with code 3"):
                await plane.infer(request())
            plane.endpoint("tiny").reference.retry_at = 0.0  # the hour is over
            assert (await plane.infer(request())).outputs
            assert plane.ready()

    asyncio.run(serve())


def test_a_busy_model_that_is_too_large_gets_no_more_batches_and_one_timer(faulty):
    async def serve():
        async with open_plane([faulty]) as plane:
            running = await begun(plane, request(SLOW))
            waiting = asyncio.ensure_future(plane.infer(request()))
            await asyncio.sleep(0)
            for _ in range(5):
                plane.pool.limit_memory(1000)
            timer = plane.pool._evicting
            plane.pool._evict(None)
            assert plane.pool._evicting is timer is not None
            assert (await running).outputs
            with pytest.raises(ServingError, match="all models together may take"):
                await waiting
            assert plane.endpoint("tiny").reference.model is None

    asyncio.run(serve())


def test_a_policy_that_names_rungs_that_do_not_exist_loses_no_request(paths):
    async def serve():
        async with open_plane() as plane:
            endpoint = await plane.add_service(service(paths[:2]))
            for choice in (Choice(7, "?", (9,)), Choice(-1, "?"), None):
                endpoint.policy.choose = lambda situation, choice=choice: choice
                answers = await asyncio.gather(ask(plane), ask(plane), return_exceptions=True)
                assert all(isinstance(answer, ServingError) or answer.outputs for answer in answers)
            del endpoint.policy.choose
            assert (await ask(plane)).outputs

    asyncio.run(serve())


def test_requests_of_a_failed_batch_keep_their_model_when_the_ladder_changes_meanwhile(paths):
    def pinned(first):
        inputs = {"input": np.array([[first, 1, 2, 3]], np.float32)}
        return InferRequest("answers", inputs, parameters={"zoolens_model": paths[1]})

    async def serve():
        async with open_plane() as plane:
            endpoint = await plane.add_service(service(paths))
            await plane.pool.ensure(endpoint.rungs[1].slot)
            blocking = asyncio.ensure_future(plane.infer(pinned(SLOW)))
            await asyncio.sleep(0)
            together = [asyncio.ensure_future(plane.infer(pinned(first))) for first in (SLOW, FAIL)]
            await blocking
            turned = service([paths[0], paths[2], paths[1]])
            endpoint.replace_ladder(turned, plane.slots(turned))
            kept, failed = await asyncio.gather(*together, return_exceptions=True)
            assert kept.parameters["zoolens_model"] == "file:small@1.0.0"
            assert failed.refusal is Refusal.INTERNAL

    asyncio.run(serve())


def test_a_model_that_left_the_ladder_is_closed(paths):
    async def serve():
        before = workers()
        async with open_plane() as plane:
            endpoint = await plane.add_service(service(paths[:2]))
            plane.pool.preload(endpoint.rungs[1].slot)
            await opened(endpoint.rungs[1].slot)
            alone = service(paths[:1])
            endpoint.replace_ladder(alone, plane.slots(alone))
            while len(workers() - before) > 1:
                await asyncio.sleep(0.01)
            assert len(plane.pool.slots) == 1
            assert (await ask(plane)).outputs
            with pytest.raises(ServingError, match="is a service and cannot be unloaded"):
                await plane.unload("answers")
            endpoint.unwatch()
            endpoint.unwatch()

    asyncio.run(serve())


def test_a_service_is_not_ready_because_of_a_candidate_that_it_never_chooses(paths, tmp_path):
    async def serve():
        async with open_plane() as plane:
            rung = Rung(paths[1], "fake", 0.5, None, LatencyProfile({1: 0.001}))
            spec = service(paths[:1], extra=(rung,))
            spec = type(spec)(**{**spec.__dict__, "specs": [ModelSpec(path) for path in paths[:2]]})
            endpoint = await plane.add_service(spec)
            await plane.pool.ensure(endpoint.rungs[1].slot)
            await plane.pool.unload(endpoint.rungs[0].slot)
            assert not endpoint.ready

    asyncio.run(serve())


def test_observers_hear_only_of_requests_that_were_answered(faulty):
    class Watching:
        def __init__(self):
            self.reports, self.refusals = [], []

        def answered(self, report):
            self.reports.append(report)

        def refused(self, endpoint, request, reason):
            self.refusals.append(request.id)

    watching = Watching()

    async def serve():
        async with open_plane([faulty], observers=[watching]) as plane:
            await begun(plane, request(SLOW, id="first"))
            await outcomes(
                plane, request(SLOW, id="late", deadline=0.15), request(SLOW, id="kept"), request(3, id="also")
            )
            await asyncio.sleep(0)

    asyncio.run(serve())
    assert watching.refusals == ["late"]
    assert [[asked.id for asked in report.requests] for report in watching.reports] == [["first"], ["kept", "also"]]
    assert watching.reports[1].inputs["input"][:, 0].tolist() == [SLOW, 3]
    assert len(watching.reports[1].outputs["logits"]) == 2


def test_an_answer_that_cannot_be_made_spoils_no_other(faulty, monkeypatch):
    from zoolens.faces.serving.plane import plane_answers as module

    def fails(*_):
        raise ValueError("cannot reshape")

    monkeypatch.setattr(module, "largest", fails)

    async def serve():
        async with open_plane([faulty]) as plane:
            await begun(plane, request(SLOW))
            bad, good = await outcomes(plane, request(1, outputs=(RequestedOutput("logits", classes=1),)), request(2))
            assert bad.refusal is Refusal.INTERNAL
            assert good.outputs

    asyncio.run(serve())


def test_what_waits_while_a_model_of_other_shapes_is_loaded_is_refused(fake_model, tmp_path):
    path = fake_model(behaviour="faulty")

    async def serve():
        async with open_plane([path], EndpointSettings(max_delay=30, max_batch=8)) as plane:
            waiting = asyncio.ensure_future(plane.infer(request()))
            await asyncio.sleep(0)
            (tmp_path / "tiny-1.0.0.json").write_text(json.dumps({"classes": 3, "input": [5]}))
            await plane.load("tiny", {})
            with pytest.raises(ServingError, match=r"expects \[-1,5\]") as error:
                await waiting
            assert error.value.refusal is Refusal.INVALID

    asyncio.run(serve())


def test_whoever_waits_for_a_model_that_is_unloaded_meanwhile_is_told_so(paths):
    async def serve():
        async with open_plane() as plane:
            endpoint = await plane.add_service(service(paths[:2]))
            slot = endpoint.rungs[1].slot
            waiting = asyncio.ensure_future(plane.pool.ensure(slot))
            await asyncio.sleep(0)
            await plane.pool.unload(slot)
            with pytest.raises(Exception, match="was closed while it was being opened"):
                await waiting

    asyncio.run(serve())


def test_an_evicted_model_whose_files_changed_is_not_opened_by_a_request(fake_model, tmp_path):
    path = fake_model(behaviour="constant", seed=0)

    async def serve():
        async with open_plane([path]) as plane:
            plane.pool.limit_memory(1000)
            plane.pool.limit_memory(None)
            assert plane.endpoint("tiny").reference.model is None
            fake_model(behaviour="constant", seed=1, latency_us=1)
            with pytest.raises(ServingError, match="have changed since it was loaded"):
                await plane.infer(request())
            await plane.load("tiny", {})
            assert (await plane.infer(request())).outputs["logits"].argmax() == 1

    asyncio.run(serve())
