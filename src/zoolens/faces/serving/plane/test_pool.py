"""The warm pool: what is open within a budget of memory, and what a switch finds there."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from zoolens.base.errors import ZoolensError
from zoolens.base.protocol.errors import ServingError
from zoolens.base.protocol.messages import InferRequest
from zoolens.faces.serving.contracts.ladder import Ladder, LatencyProfile, Rung
from zoolens.faces.serving.plane.data_plane import open_plane
from zoolens.faces.serving.plane.plane_settings import ModelSpec
from zoolens.faces.serving.plane.service_spec import ServiceSpec
from zoolens.faces.serving.policies.policy import Choice, Policy

INPUT = np.array([[0, 1, 2, 3]], np.float32)


class Obedient(Policy):
    """Chooses the tier that the test says."""

    name = "obedient"
    summary = "a test's own"
    wanted = 0

    def choose(self, situation):
        self.situation = situation
        return Choice(self.wanted, "The test says so.")


def service(paths, **more):
    equivalences = (1.0, 0.9, 0.8)
    rungs = tuple(
        Rung(path, "fake", share, None if share == 1 else share - 0.05, LatencyProfile({1: 0.001}))
        for path, share in zip(paths, equivalences, strict=False)
    )
    ladder = Ladder(rungs)
    return ServiceSpec("answers", ladder, Obedient(ladder, {}), [ModelSpec(path) for path in paths], **more)


def ask(plane, name="answers", **parameters):
    return plane.infer(InferRequest(name, {"input": INPUT}, parameters=parameters))


async def opened(slot):
    while not slot.ready:
        await asyncio.sleep(0.01)


@pytest.fixture
def paths(fake_model):
    return [fake_model(name, behaviour="constant", seed=seed) for seed, name in enumerate(("large", "small"))]


def test_a_switch_never_waits_for_a_model_to_be_opened(paths):
    async def serve():
        async with open_plane() as plane:
            endpoint = await plane.add_service(service(paths))
            endpoint.policy.wanted = 1
            first = await ask(plane)  # the small one is not open: the large one answers meanwhile
            assert first.parameters["zoolens_rung"] == 0
            await opened(endpoint.rungs[1].slot)
            second = await ask(plane)
            assert endpoint.policy.situation.loaded == {0, 1}
            assert second.parameters == {
                "zoolens_model": "file:small@1.0.0",
                "zoolens_runtime": "fake",
                "zoolens_rung": 1,
                "zoolens_switched": True,
                "zoolens_equivalence": 0.9,
                "zoolens_equivalence_lower": pytest.approx(0.85),
            }
            assert second.outputs["logits"].argmax() == 1
            assert endpoint.current == 1

    asyncio.run(serve())


def test_a_pinned_model_is_opened_for_who_asks_and_a_floor_is_kept(paths):
    async def serve():
        async with open_plane() as plane:
            endpoint = await plane.add_service(service(paths))
            pinned = await ask(plane, zoolens_model=paths[1])
            assert pinned.parameters["zoolens_model"] == "file:small@1.0.0"
            assert endpoint.current == 0
            endpoint.policy.wanted = 1
            floored = await ask(plane, zoolens_min_equivalence=0.88)
            assert floored.parameters["zoolens_rung"] == 0
            for wrong in ({"zoolens_model": "other"}, {"zoolens_min_equivalence": "much"}):
                with pytest.raises(ServingError, match=r"no model that is as the request asks|must be a number"):
                    await ask(plane, **wrong)

    asyncio.run(serve())


def test_a_rung_that_cannot_be_opened_is_not_tried_at_every_batch(paths, tmp_path):
    async def serve():
        async with open_plane() as plane:
            endpoint = await plane.add_service(service(paths))
            (tmp_path / "small-1.0.0.json").write_text("{")
            endpoint.policy.wanted = 1
            await ask(plane)
            slot = endpoint.rungs[1].slot
            while slot.loading is not None:
                await asyncio.sleep(0.01)
            assert "not a fake model" in str(slot.error)
            assert (await ask(plane)).parameters["zoolens_rung"] == 0
            assert slot.loading is None
            with pytest.raises(ServingError, match="not a fake model"):
                await ask(plane, zoolens_model=paths[1])
            assert endpoint.ready

    asyncio.run(serve())


def test_the_least_recently_used_model_is_closed_and_opened_again_when_it_is_asked(paths):
    async def serve():
        async with open_plane(paths) as plane:
            await ask(plane, "large")
            await ask(plane, "small")
            one = plane.endpoint("small").reference.model.memory_bytes
            plane.pool.limit_memory(round(1.5 * one))
            assert plane.endpoint("large").reference.model is None
            assert plane.ready()
            assert plane.model_metadata("large").inputs
            [entry] = [entry for entry in plane.repository() if entry.name == "large"]
            assert (entry.state, "to save memory" in entry.reason) == ("READY", True)
            assert (await ask(plane, "large")).outputs["logits"].argmax() == 0
            assert plane.endpoint("small").reference.model is None

    asyncio.run(serve())


def test_a_model_that_is_larger_than_the_budget_says_so(paths):
    async def serve():
        async with open_plane(paths[:1], memory_limit=1000):
            pass

    with pytest.raises(ServingError, match=r"of the memory budget of 0 MB only 0 MB can be freed"):
        asyncio.run(serve())


def test_a_ladder_is_replaced_between_two_batches(paths):
    async def serve():
        async with open_plane() as plane:
            endpoint = await plane.add_service(service(paths))
            await ask(plane)
            turned = service(paths[::-1])
            slots = plane.slots(turned)
            await plane.pool.ensure(slots[0])
            endpoint.replace_ladder(turned, slots)
            answer = await ask(plane)
            assert answer.parameters["zoolens_model"] == "file:small@1.0.0"
            assert endpoint.rungs[1].requests == 1

    asyncio.run(serve())


def test_models_that_a_new_ladder_does_not_have_are_closed(paths):
    async def serve():
        async with open_plane() as plane:
            endpoint = await plane.add_service(service(paths))
            small = endpoint.rungs[1].slot
            plane.pool.preload(small)
            await opened(small)
            model = small.model
            shorter = service(paths[:1])
            endpoint.replace_ladder(shorter, plane.slots(shorter))
            assert list(plane.pool.slots.values()) == [endpoint.rungs[0].slot]
            while model.instances[0].process_id is not None:
                await asyncio.sleep(0.01)
            assert (await ask(plane)).outputs
            longer = service(paths)
            endpoint.replace_ladder(longer, plane.slots(longer))
            plane.pool.preload(endpoint.rungs[1].slot)
            await opened(endpoint.rungs[1].slot)

    asyncio.run(serve())


def test_a_background_answer_that_fails_is_not_taken_for_a_busy_model(fake_model):
    async def serve():
        async with open_plane() as plane:
            endpoint = await plane.add_service(service([fake_model("large", behaviour="constant")]))
            with pytest.raises(ZoolensError):
                await endpoint.answer_in_background(0, {"input": np.zeros((1, 7), np.float32)})
            assert await endpoint.answer_in_background(0, {"input": INPUT}) is not None

    asyncio.run(serve())


def test_background_answers_give_way_to_requests(paths):
    async def serve():
        async with open_plane() as plane:
            endpoint = await plane.add_service(service(paths))
            told = await endpoint.answer_in_background(0, {"input": INPUT})
            assert told.tensors["logits"].argmax() == 0
            assert await endpoint.answer_in_background(1, {"input": INPUT}) is None
            real = asyncio.ensure_future(ask(plane))
            await asyncio.sleep(0)
            assert await endpoint.answer_in_background(0, {"input": INPUT}) is None
            assert (await real).outputs
            assert endpoint.counters.successes == 1

    asyncio.run(serve())


def test_a_falling_limit_closes_what_is_too_large_by_itself_and_keeps_what_fits(paths):
    async def serve():
        async with open_plane() as plane:
            endpoint = await plane.add_service(service(paths))
            large, small = (state.slot for state in endpoint.rungs)
            plane.pool.preload(small)
            await opened(small)
            for slot, size in ((large, 200), (small, 100)):
                slot.known_bytes = slot.model.memory_bytes = size
            large.last_used = small.last_used + 1  # the large one answered last
            plane.pool.limit_memory(150)
            assert (large.ready, small.ready) == (False, True)
            plane.pool.preload(large)  # it is known to be too large: nothing is closed for it
            while large.loading is not None:
                await asyncio.sleep(0.01)
            assert (large.ready, small.ready) == (False, True)
            plane.pool.limit_memory(None)
            plane.pool.preload(large)
            await opened(large)

    asyncio.run(serve())
