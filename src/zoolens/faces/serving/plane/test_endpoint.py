"""Queues and batches: deadlines, shedding, waiting for company, and the end of serving."""

from __future__ import annotations

import asyncio
import gc
import weakref

import numpy as np
import pytest

from zoolens.base.errors import ZoolensError
from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.messages import InferRequest
from zoolens.faces.serving.contracts.adapter import Adapter, Fed
from zoolens.faces.serving.plane.data_plane import open_plane
from zoolens.faces.serving.plane.plane_settings import EndpointSettings
from zoolens.faces.serving.plane.test_faults import HANG, SLOW, begun, outcomes, refusal, request
from zoolens.faces.serving.plane.test_pool import ask, opened, service
from zoolens.faces.serving.policies.policy import Choice


@pytest.fixture
def faulty(fake_model):
    return fake_model(behaviour="faulty")


def test_a_request_whose_deadline_passes_while_it_waits_is_not_run(faulty):
    async def serve():
        async with open_plane([faulty]) as plane:
            running = await begun(plane, request(SLOW))
            with pytest.raises(ServingError, match="passed while it waited") as late:
                await plane.infer(request(deadline=0.02))
            assert late.value.refusal is Refusal.TOO_LATE
            assert not running.done()
            await running
            assert plane.statistics()[0].execution_count == 1

    asyncio.run(serve())


def test_a_client_with_a_deadline_does_not_wait_for_a_model_that_hangs(faulty):
    async def serve():
        async with open_plane([faulty]) as plane:
            with pytest.raises(ServingError, match="passed while it was being answered"):
                await plane.infer(request(HANG, deadline=0.05))

    asyncio.run(serve())


def test_what_cannot_be_answered_in_time_is_refused_at_once(faulty):
    async def serve():
        async with open_plane([faulty], EndpointSettings(max_batch=1)) as plane:
            await plane.infer(request(SLOW))  # so that a row is known to take some 100 ms at times
            running = await begun(plane, request(SLOW))
            waiting = [asyncio.ensure_future(plane.infer(request())) for _ in range(100)]
            await asyncio.sleep(0)
            with pytest.raises(ServingError, match="100 requests wait, and an answer would take about") as shed:
                await plane.infer(request(deadline=0.05))
            assert shed.value.refusal is Refusal.OVERLOADED
            assert not running.done()
            assert all(answer.outputs for answer in await asyncio.gather(*waiting))

    asyncio.run(serve())


def test_a_request_that_need_not_wait_is_tried_whatever_was_predicted(faulty):
    async def serve():
        async with open_plane([faulty]) as plane:
            await plane.infer(request(SLOW))
            assert (await plane.infer(request(deadline=0.05))).outputs

    asyncio.run(serve())


@pytest.mark.parametrize("settings", [EndpointSettings(max_queue=2), EndpointSettings(max_queue_bytes=32)])
def test_a_full_queue_refuses(faulty, settings):
    async def serve():
        async with open_plane([faulty], settings) as plane:
            await begun(plane, request(SLOW))
            answers = await outcomes(plane, *[request()] * 4)
            assert [isinstance(answer, ServingError) for answer in answers] == [False, False, True, True]
            assert refusal(answers[2]) is Refusal.OVERLOADED
            assert plane.endpoint("tiny").counters.refusals == {Refusal.OVERLOADED: 2}

    asyncio.run(serve())


def test_with_a_delay_requests_wait_for_company_until_the_batch_is_full(fake_model):
    async def serve():
        async with open_plane([fake_model()], EndpointSettings(max_batch=4, max_delay=30)) as plane:
            await outcomes(plane, *[request()] * 4)
            assert [batch.size for batch in plane.statistics()[0].batches] == [4]

    asyncio.run(serve())


def test_a_delay_ends_and_the_batch_runs_as_it_is(fake_model):
    async def serve():
        async with open_plane([fake_model()], EndpointSettings(max_batch=4, max_delay=0.01)) as plane:
            await outcomes(plane, *[request()] * 3)
            assert [batch.size for batch in plane.statistics()[0].batches] == [3]

    asyncio.run(serve())


def test_several_instances_run_at_a_time(faulty):
    async def serve():
        async with open_plane([faulty], EndpointSettings(concurrency=2)) as plane:
            hanging = await begun(plane, request(HANG))
            assert (await plane.infer(request())).outputs
            assert not hanging.done()
            hanging.cancel()

    asyncio.run(serve())


def test_a_drained_plane_has_answered_what_it_accepted_and_accepts_no_more(faulty):
    async def serve():
        async with open_plane([faulty], EndpointSettings(max_delay=30, max_batch=8)) as plane:
            accepted = [asyncio.ensure_future(plane.infer(request(first))) for first in (SLOW, 1, 2)]
            await asyncio.sleep(0)
            await plane.drain(30)
            assert all(task.done() and task.result().outputs for task in accepted)
            with pytest.raises(ServingError, match="shutting down") as refused:
                await plane.infer(request())
            assert refused.value.refusal is Refusal.UNAVAILABLE
            assert plane.live()
            assert not plane.ready()

    asyncio.run(serve())


def test_what_is_not_answered_when_draining_ends_gets_an_error(faulty):
    async def serve():
        async with open_plane([faulty]) as plane:
            running = await begun(plane, request(HANG))
            waiting = asyncio.ensure_future(plane.infer(request()))
            await asyncio.sleep(0)
            await plane.drain(0.05)
            for task in (running, waiting):
                with pytest.raises(ServingError, match=r"waited 0\.05 s"):
                    await task

    asyncio.run(serve())


def test_settings_that_make_no_sense_are_refused():
    for wrong in ({"max_batch": 0}, {"max_delay": -1}, {"batching": "maybe"}, {"max_delay": float("nan")}):
        with pytest.raises(ZoolensError, match=next(iter(wrong))):
            EndpointSettings(**wrong)


def test_rows_of_other_shapes_do_not_share_a_batch(tmp_path, fake_model):
    path = fake_model(input=[None, None])
    (tmp_path / "tiny-1.0.0.json").write_text('{"classes": 3, "input": [null, null, 2]}')

    async def serve():
        async with open_plane([path]) as plane:
            wide = InferRequest("tiny", {"input": np.ones((1, 3, 2), np.float32)})
            narrow = InferRequest("tiny", {"input": np.ones((1, 2, 2), np.float32)})
            answers = await outcomes(plane, wide, narrow, wide, narrow)
            for first, second in ((0, 2), (1, 3)):
                np.testing.assert_array_equal(answers[first].outputs["logits"], answers[second].outputs["logits"])

    asyncio.run(serve())


def test_a_policy_may_have_a_part_of_a_batch_answered_first(fake_model):
    paths = [fake_model(name, behaviour="faulty", seed=seed) for seed, name in enumerate(("large", "small"))]

    async def serve():
        async with open_plane() as plane:
            endpoint = await plane.add_service(service(paths, settings=EndpointSettings(max_batch=8)))
            await opened(endpoint.rungs[0].slot)
            sizes = []
            endpoint.policy.served = lambda rung, batch, seconds: sizes.append(batch)
            endpoint.policy.choose = lambda situation: Choice(0, "The test says so.", batch=2)
            answers = await asyncio.gather(*(ask(plane) for _ in range(6)))
            assert len({next(iter(answer.outputs.values())).tobytes() for answer in answers}) == 1
            assert sizes == [1, 2, 2, 1]  # the first did not wait for company

    asyncio.run(serve())


class Converting(Adapter):
    """Notes what it converts; an input that begins with 7 cannot be converted."""

    def __init__(self):
        self.converted = []

    def feeds(self, inputs):
        (tensor,) = inputs.values()
        self.converted.append(tensor[:, 0].tolist())
        if 7 in tensor[:, 0]:
            raise ServingError(Refusal.INVALID, "This is no image.")
        return Fed(inputs)


def test_inputs_are_converted_while_the_batch_before_runs(fake_model):
    paths = [fake_model(name, behaviour="faulty", seed=seed) for seed, name in enumerate(("large", "small"))]

    async def serve():
        adapter = Converting()
        async with open_plane() as plane:
            endpoint = await plane.add_service(service(paths, adapters=[adapter, None]))
            await opened(endpoint.rungs[0].slot)

            def infer(first):
                inputs = {"input": np.array([[first, 1, 2, 3]], np.float32)}
                return asyncio.ensure_future(plane.infer(InferRequest("answers", inputs)))

            running = infer(SLOW)
            while not endpoint.running:
                await asyncio.sleep(0)
            waiting = infer(1)
            bad = infer(7)
            while [1.0] not in adapter.converted:
                await asyncio.sleep(0.001)
            assert not running.done()
            assert (await waiting).outputs
            with pytest.raises(ServingError, match="no image"):
                await bad
            assert (await infer(2)).outputs
            assert adapter.converted.count([1.0]) == 1

    asyncio.run(serve())


@pytest.mark.parametrize("leaves", [False, True])
def test_a_client_and_its_inputs_are_let_go_as_soon_as_it_is_answered_or_has_left(faulty, leaves):
    """It holds what cancels the request, which holds the client: such circles stayed for minutes, with the inputs."""

    class Client:
        def __init__(self, plane):
            self.answered = asyncio.Event()
            self.cancel = plane.submit(request(SLOW), self.done)

        def done(self, _):
            self.answered.set()

    async def serve():
        async with open_plane([faulty]) as plane:
            client = Client(plane)
            if leaves:
                client.cancel()
            else:
                await client.answered.wait()
            left = weakref.ref(client)
            del client
            return left() is None

    gc.disable()
    try:
        assert asyncio.run(serve())
    finally:
        gc.enable()


def test_requests_run_one_by_one_where_batches_do_not_serve_them(fake_model):
    async def serve():
        async with open_plane([fake_model()]) as plane:
            endpoint = plane.endpoint("tiny")
            await plane.infer(request())
            assert endpoint.shares_batches
            endpoint.sharing.together = False
            assert not endpoint.shares_batches
            await asyncio.gather(*(plane.infer(request()) for _ in range(6)))
            assert plane.statistics()[0].execution_count == 7

    asyncio.run(serve())


def test_only_plain_models_that_batch_by_themselves_are_tried_both_ways(fake_model):
    async def serve():
        for settings in (EndpointSettings(batching="force"), EndpointSettings(max_batch=1)):
            async with open_plane([fake_model()], settings) as plane:
                assert plane.endpoint("tiny").sharing is None

    asyncio.run(serve())
