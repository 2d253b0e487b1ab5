"""What goes wrong while serving: every accepted request gets an answer or a clear error, and the plane goes on."""

from __future__ import annotations

import asyncio
import os
import signal

import numpy as np
import pytest

from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.messages import InferRequest
from zoolens.faces.serving.plane import instance
from zoolens.faces.serving.plane.data_plane import open_plane
from zoolens.faces.serving.plane.plane_settings import EndpointSettings

PLAIN, SLOW, HANG, EXIT, FAIL, NAN = 0, 1001, 1002, 1003, 1004, 1005  # see the fake runtime


def request(first=PLAIN, **more):
    return InferRequest("tiny", {"input": np.array([[first, 1, 2, 3]], np.float32)}, **more)


def refusal(answer):
    assert isinstance(answer, ServingError), answer
    return answer.refusal


async def outcomes(plane, *requests):
    return await asyncio.gather(*map(plane.infer, requests), return_exceptions=True)


async def begun(plane, asked):
    """A request that runs, as a task."""
    task = asyncio.ensure_future(plane.infer(asked))
    while not plane.endpoint("tiny").running:
        await asyncio.sleep(0)
    return task


def worker(plane):
    return plane.endpoint("tiny").reference.model.instances[0]


@pytest.fixture
def faulty(fake_model):
    return fake_model(behaviour="faulty")


def test_a_killed_worker_loses_what_it_ran_and_the_next_one_answers_what_waited(faulty):
    async def serve():
        async with open_plane([faulty]) as plane:
            running = await begun(plane, request(HANG))
            waiting = [asyncio.ensure_future(plane.infer(request())) for _ in range(3)]
            await asyncio.sleep(0)
            os.kill(worker(plane).process_id, signal.SIGKILL)
            with pytest.raises(ServingError, match=r"died with signal 9 \(SIGKILL\)") as lost:
                await running
            assert lost.value.refusal is Refusal.UNAVAILABLE
            assert "Is there enough memory?" not in str(lost.value)  # hints are for the log, not for clients
            assert all(answer.outputs for answer in await asyncio.gather(*waiting))
            assert worker(plane).restarts == 1

    asyncio.run(serve())


def test_a_worker_that_dies_while_idle_is_replaced_before_anybody_asks(faulty):
    async def serve():
        async with open_plane([faulty]) as plane:
            os.kill(worker(plane).process_id, signal.SIGKILL)
            while not worker(plane).restarts:
                await asyncio.sleep(0.01)
            assert (await plane.infer(request())).outputs
            assert plane.statistics()[0].fail.count == 0

    asyncio.run(serve())


def test_a_model_that_hangs_is_stopped_at_the_limit_and_started_again(faulty):
    async def serve():
        async with open_plane([faulty], EndpointSettings(call_limit=0.2)) as plane:
            with pytest.raises(ServingError, match=r"did not answer within 0\.2 s") as stopped:
                await plane.infer(request(HANG))
            assert stopped.value.refusal is Refusal.UNAVAILABLE
            assert (await plane.infer(request())).outputs

    asyncio.run(serve())


def test_a_model_that_dies_again_and_again_is_given_up_until_it_is_loaded_again(faulty, monkeypatch):
    monkeypatch.setattr(instance, "MOST_DEATHS", 2)
    monkeypatch.setattr(instance, "FIRST_PAUSE", 0.0)

    async def serve():
        async with open_plane([faulty], EndpointSettings(batching="off")) as plane:
            answers = await outcomes(plane, *[request(EXIT)] * 5)
            assert {refusal(answer) for answer in answers} == {Refusal.UNAVAILABLE}
            assert not plane.ready()
            assert not plane.model_ready("tiny")
            [entry] = plane.repository()
            assert (entry.state, "exited with code 3" in entry.reason) == ("UNAVAILABLE", True)
            with pytest.raises(ServingError, match="exited with code 3"):
                await plane.infer(request())
            await plane.load("tiny", {})
            assert (await plane.infer(request())).outputs
            assert plane.ready()

    asyncio.run(serve())


def test_one_request_on_which_the_model_fails_does_not_spoil_the_others_of_its_batch(faulty):
    async def serve():
        async with open_plane([faulty]) as plane:
            await begun(plane, request(SLOW))
            answers = await outcomes(plane, request(1), request(FAIL), request(2))
            assert answers[0].outputs
            assert answers[2].outputs
            assert refusal(answers[1]) is Refusal.INTERNAL
            assert "as it was configured to" in str(answers[1])
            assert worker(plane).restarts == 0

    asyncio.run(serve())


def test_values_that_are_not_a_number_pass_and_are_flagged_for_their_own_request_only(faulty):
    async def serve():
        async with open_plane([faulty]) as plane:
            await begun(plane, request(SLOW))
            good, bad = await outcomes(plane, request(), request(NAN))
            assert "zoolens_nan_outputs" not in good.parameters
            assert bad.parameters["zoolens_nan_outputs"] == 3
            assert np.isnan(bad.outputs["logits"]).all()
            assert plane.endpoint("tiny").counters.nan_values == 3

    asyncio.run(serve())


def test_a_model_that_is_corrupt_when_it_is_loaded_again_leaves_the_old_one_in_place(fake_model, tmp_path):
    path = fake_model()

    async def serve():
        async with open_plane([path]) as plane:
            before = await plane.infer(request())
            (tmp_path / "tiny-1.0.0.json").write_text("{")
            with pytest.raises(ServingError, match="the old one goes on answering"):
                await plane.load("tiny", {})
            after = await plane.infer(request())
            np.testing.assert_array_equal(before.outputs["logits"], after.outputs["logits"])
            assert plane.ready()

    asyncio.run(serve())


def test_a_worker_is_not_replaced_by_one_of_other_files_under_the_same_name(fake_model, monkeypatch):
    monkeypatch.setattr(instance, "FIRST_PAUSE", 0.0)
    path = fake_model(behaviour="constant", seed=0)

    async def serve():
        async with open_plane([path]) as plane:
            fake_model(behaviour="constant", seed=1, latency_us=1)
            assert (await plane.infer(request())).outputs["logits"].argmax() == 0
            os.kill(worker(plane).process_id, signal.SIGKILL)
            while plane.ready():
                await asyncio.sleep(0.01)
            with pytest.raises(ServingError, match="have changed since it was loaded"):
                await plane.infer(request())
            await plane.load("tiny", {})
            assert (await plane.infer(request())).outputs["logits"].argmax() == 1

    asyncio.run(serve())


def test_loading_again_takes_the_new_file_and_loses_no_request(fake_model, tmp_path):
    path = fake_model(behaviour="constant", seed=0)

    async def serve():
        async with open_plane([path]) as plane:
            fake_model(behaviour="constant", seed=1)
            loading = asyncio.ensure_future(plane.load("tiny", {}))
            answers = []
            while not loading.done():
                answers.append(await plane.infer(request()))
            await loading
            answers.append(await plane.infer(request()))
            classes = [int(answer.outputs["logits"].argmax()) for answer in answers]
            assert classes == sorted(classes)
            assert (classes[0], classes[-1]) == (0, 1)

    asyncio.run(serve())


def test_a_client_that_goes_away_is_not_answered(faulty):
    async def serve():
        async with open_plane([faulty]) as plane:
            running = await begun(plane, request(SLOW))
            waiting = asyncio.ensure_future(plane.infer(request()))
            await asyncio.sleep(0)
            waiting.cancel()
            running.cancel()
            await asyncio.wait([waiting, running])
            assert plane.endpoint("tiny").queue.requests == 0
            assert (await plane.infer(request())).outputs
            statistics = plane.statistics()[0]
            assert (statistics.success.count, statistics.fail.count, statistics.execution_count) == (1, 2, 2)

    asyncio.run(serve())
