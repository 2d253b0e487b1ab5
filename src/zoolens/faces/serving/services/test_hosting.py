"""Services on the real data plane, with demo models in their own processes."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing
from dataclasses import replace

import numpy as np
import pytest

from zoolens.base.errors import ZoolensError
from zoolens.base.protocol.errors import ServingError
from zoolens.base.protocol.messages import InferRequest, RequestedOutput
from zoolens.base.store.store import open_store
from zoolens.faces.serving.contracts.observer import BatchReport
from zoolens.faces.serving.plane.data_plane import open_plane
from zoolens.faces.serving.services.comparison import ModelPair
from zoolens.faces.serving.services.definition import PolicyChoice, Service
from zoolens.faces.serving.services.events import sessions
from zoolens.faces.serving.services.hosting import HostSettings, host_services
from zoolens.faces.serving.services.ladder_query import LadderBuilder
from zoolens.faces.serving.services.ladder_refresh import rebuild_ladder
from zoolens.faces.serving.services.splits import hashed_share
from zoolens.inventory.datasets.opening import open_dataset
from zoolens.inventory.preprocess.pipeline import build_prepare

REFERENCE, CHEAP = "demo:lenet-wide@1.0.0", "demo:mlp-wide@1.0.0"
COUNT = 60


@pytest.fixture(scope="module")
def samples():
    with closing(open_dataset("demo", limit=COUNT)) as data:
        return [data.read(place).value for place in range(COUNT)], np.asarray(data.labels()[:COUNT])


@pytest.fixture
def run(measured_store, store_path, quick, samples):
    """Run a test's coroutine with a service, and the tensors and labels of some images."""

    def run(test, refresh=0.0, store=store_path, **settings):
        usual = {"reference": "demo:lenet-wide", "within": 0.8, "batch": {"size": 4}, "where": "name = 'mlp-wide'"}
        service = Service(**{**usual, **settings})

        @asynccontextmanager
        async def hosted():
            how = HostSettings(refresh=refresh, latency=quick, seed=0)
            async with (
                open_plane() as plane,
                host_services(plane, {"fashion": service}, store=store, settings=how) as services,
            ):
                yield plane, services["fashion"]

        async def main():
            async with hosted() as (plane, hosted_service):
                reference = hosted_service.built.candidates[0]
                prepare = build_prepare(reference.input, reference.source)
                tensors = np.stack([prepare(image) for image in samples[0]])
                return await test(plane, hosted_service, tensors)

        return asyncio.run(asyncio.wait_for(main(), 100))

    return run


def request(tensor, identity="", **parameters):
    return InferRequest("fashion", {"input": tensor[None]}, id=identity, parameters=parameters)


async def until(condition):
    while not (value := await condition()):
        await asyncio.sleep(0.02)
    return value


def last_session(store_path):
    with open_store(store_path) as store:
        return sessions(store, "fashion", 1)[0]


def test_every_answer_says_who_gave_it_and_clients_may_choose(run, store_path):
    async def test(plane, service, tensors):
        free = await plane.infer(request(tensors[0]))
        assert free.parameters["zoolens_model"] == REFERENCE
        assert (free.parameters["zoolens_rung"], free.parameters["zoolens_switched"]) == (0, False)
        assert free.outputs["probabilities"].shape == (1, 10)
        assert free.outputs["probabilities"].sum() == pytest.approx(1, abs=1e-5)
        pinned = await plane.infer(request(tensors[0], zoolens_model="demo:mlp-wide"))
        assert pinned.parameters["zoolens_model"] == CHEAP
        lowest = next(rung for rung in service.built.ladder.rungs if rung.model == CHEAP)
        assert pinned.parameters["zoolens_equivalence"] == lowest.equivalence
        assert pinned.parameters["zoolens_equivalence_lower"] == lowest.equivalence_lower
        floored = await plane.infer(request(tensors[0], zoolens_min_equivalence=0.99))
        assert floored.parameters["zoolens_rung"] == 0
        with pytest.raises(ServingError, match="has no model that is as the request asks"):
            await plane.infer(request(tensors[0], zoolens_model="demo:lenet-jax"))
        named = await plane.infer(replace(request(tensors[0]), outputs=(RequestedOutput("probabilities", classes=1),)))
        label = service.built.labels[int(free.outputs["probabilities"].argmax())]
        assert named.outputs["probabilities"].reshape(-1)[0].decode().endswith(f":{label}")

    run(test)
    assert last_session(store_path).answered == {(REFERENCE, "onnxruntime"): 3, (CHEAP, "onnxruntime"): 1}


def test_a_policy_switches_and_comes_back_and_every_switch_is_an_event(run, store_path, tmp_path):
    battery = tmp_path / "capacity"
    battery.write_text("100")

    async def test(plane, service, tensors):
        async def answered_by(model):
            return (await plane.infer(request(tensors[0]))).parameters["zoolens_model"] == model

        assert await answered_by(REFERENCE)
        battery.write_text("10")
        await until(lambda: answered_by(CHEAP))
        battery.write_text("100")
        await until(lambda: answered_by(REFERENCE))

    rules = {"battery": [{"below": "20%", "within": 0.8}], "battery_file": str(battery)}
    run(test, policy={"name": "time-of-day", **rules, "battery_every": 0.05, "hold": 0.1})
    switches = [event for event in last_session(store_path).events if event.kind == "switch"]
    assert [(event.previous, event.model) for event in switches] == [(REFERENCE, CHEAP), (CHEAP, REFERENCE)]
    assert switches[0].reason == "The battery has 10 %: 0.8 is equivalent enough."


def test_a_switch_is_an_event_although_its_first_batch_failed(run, store_path):
    """Then the endpoint has moved on before anything was answered: its report says that nothing has changed."""

    async def test(plane, service, tensors):
        cheap = service.built.ladder.rungs[1]
        nothing = {"probabilities": np.zeros((0, 10), np.float32)}
        for _ in range(2):
            service.answered(BatchReport("fashion", 1, 1, "It was busy.", [], [], {}, nothing, answered_by=cheap))

    run(test)
    switches = [event for event in last_session(store_path).events if event.kind == "switch"]
    assert [(event.previous, event.model) for event in switches] == [(REFERENCE, CHEAP)]


def test_what_was_compared_of_a_model_is_forgotten_with_its_promise(run):
    """A model that was measured again has another promise: old answers do not count against it, nor silence it."""

    async def test(plane, service, tensors):
        key = (CHEAP, REFERENCE)
        service.comparisons.pairs[key] = ModelPair(*key)
        service.comparisons._warned.add((CHEAP, "onnxruntime"))
        reference, cheap = service.built.ladder.rungs
        rungs = (reference, replace(cheap, equivalence_lower=0.5))
        assert service.replace(
            replace(service.built, ladder=replace(service.built.ladder, rungs=rungs)), "It is a test."
        )
        assert not service.comparisons.pairs
        assert not service.comparisons._warned
        with pytest.raises(ServingError, match="is a service and cannot be unloaded"):
            await plane.unload("fashion")

    run(test)


def test_under_a_burst_every_request_is_answered_by_a_rung_of_the_ladder(run, store_path):
    async def test(plane, service, tensors):
        every = [request(tensors[place % COUNT]) for place in range(200)]
        answers = await asyncio.gather(*(plane.infer(one) for one in every), return_exceptions=True)
        models = {rung.model for rung in service.built.ladder.rungs}
        assert all(not isinstance(answer, Exception) for answer in answers)
        assert {answer.parameters["zoolens_model"] for answer in answers} <= models
        total = sum(requests for requests, _ in service.answered_by.values())
        assert total == 200

    run(test, objectives={"latency": {"bound": "5 ms"}}, fallback="best effort")
    kept = last_session(store_path).kept
    assert (kept.requests, kept.refused, kept.bound, kept.percentile) == (200, 0, 0.005, 99.0)
    assert 0 <= kept.within <= 200


def test_a_split_is_sticky_by_id_and_labels_say_who_is_right(run, samples, store_path):
    async def test(plane, service, tensors):
        arms = {}
        for place, tensor in enumerate(tensors):
            answer = await plane.infer(request(tensor, f"id-{place}"))
            arms[place] = answer.parameters["zoolens_model"]
        again = await plane.infer(request(tensors[0], "id-0"))
        assert again.parameters["zoolens_model"] == arms[0]
        in_arm = [place for place in arms if hashed_share("fashion", f"id-{place}") < 0.5]
        assert [place for place, model in arms.items() if model == CHEAP] == in_arm
        await service.comparisons.shadow.idle()
        pair = service.comparisons.pairs[CHEAP, REFERENCE]
        assert pair.n + pair.dropped == len(in_arm) + (0 in in_arm)
        labels = {f"id-{place}": int(samples[1][place]) for place in arms}
        assert await plane.feedback("fashion", {**labels, "unknown": 3}) == COUNT
        assert pair.labelled > 0
        assert await plane.feedback("fashion", labels) == 0  # each counts once
        await plane.infer(request(tensors[0], "id-0"))
        await service.comparisons.shadow.idle()
        for wrong, why in (("no such class", "is not a class"), ([1, 2], "had 1 inputs, but 2 labels")):
            with pytest.raises(ServingError, match=why):
                await plane.feedback("fashion", {"id-0": 1, "x": wrong} if why == "is not a class" else {"id-0": wrong})
        assert await plane.feedback("fashion", {"id-0": 1}) == 1  # nothing of the wrong posts has counted
        chosen = InferRequest("fashion", {"input": tensors[:1]}, headers={"x-tester": "yes"})
        assert (await plane.infer(chosen)).parameters["zoolens_model"] == "demo:lenet-torch@1.0.0"

    splits = [
        {"model": "demo:mlp-wide", "weight": "50%"},
        {"model": "demo:lenet-torch", "header": {"name": "X-Tester", "value": "yes"}},
    ]
    run(test, within=0.999, splits=splits, promise={"share": 0})
    compared = [row for row in last_session(store_path).comparisons if row.model == CHEAP][-1]
    assert compared.other == REFERENCE
    assert compared.labelled > 0
    assert compared.low <= compared.agreement <= compared.high


def test_a_model_that_fails_is_replaced_and_said(run, store_path):
    """A split's, also for requests that wait for it to open, and the reference: no request is refused."""

    async def test(plane, service, tensors):
        state = service.endpoint.rungs[service.built.arms["demo:lenet-torch"]]
        await plane.pool.ensure(state.slot)
        await plane.pool.unload(state.slot)
        opening = asyncio.get_running_loop().create_task(asyncio.sleep(0.05))
        state.slot.loading = opening
        waiting = [asyncio.ensure_future(plane.infer(request(tensor))) for tensor in tensors[:5]]
        await opening
        state.slot.loading, state.slot.retry_at = None, float("inf")
        state.slot.error = ZoolensError("Its file is broken.")
        state.slot.tell()
        answers = [*await asyncio.gather(*waiting), await plane.infer(request(tensors[6]))]
        assert {answer.parameters["zoolens_model"] for answer in answers} == {REFERENCE}
        (entry,) = plane.repository()
        assert (entry.state, entry.reason) == (
            "READY", "demo:lenet-torch@1.0.0 cannot answer: Its file is broken.",
        )  # fmt: skip
        with pytest.raises(ServingError, match="Its file is broken"):  # who pins it gets no other model
            await plane.infer(request(tensors[0], zoolens_model="demo:lenet-torch"))
        await plane.pool.ensure(state.slot)
        assert (await plane.infer(request(tensors[0]))).parameters["zoolens_model"] == "demo:lenet-torch@1.0.0"
        assert plane.repository()[0].reason == ""
        await reference_fails(plane, service, tensors[0])

    async def reference_fails(plane, service, tensor):
        free = replace(request(tensor, zoolens_min_equivalence=0), id="")
        state = service.endpoint.rungs[0]
        await plane.pool.ensure(service.endpoint.rungs[1].slot)
        await plane.pool.unload(state.slot)
        state.slot.error, state.slot.retry_at = ZoolensError("Its file is gone."), float("inf")
        assert (await plane.infer(free)).parameters["zoolens_model"] == CHEAP
        service.replace(service.built, "Its file is back.")  # the same ladder: what has failed is tried at once
        await plane.pool.ensure(state.slot)
        assert (await plane.infer(free)).parameters["zoolens_model"] == REFERENCE

    run(test, splits=[{"model": "demo:lenet-torch", "weight": "100%"}], promise={"share": 0})
    reasons = [event.reason for event in last_session(store_path).events if event.kind == "ladder"]
    assert reasons[0].startswith("Requests of the split demo:lenet-torch@1.0.0 are left to the policy: ")
    assert reasons[1:] == ["demo:lenet-torch@1.0.0 answers the requests of its split again."]
    switches = [event for event in last_session(store_path).events if event.kind == "switch"]
    assert switches[0].reason == "demo:lenet-wide@1.0.0 cannot answer: Its file is gone."


def test_a_shadow_is_asked_after_the_answer_and_never_answers_itself(run):
    async def test(plane, service, tensors):
        for tensor in tensors:
            answer = await plane.infer(request(tensor))
            assert answer.parameters["zoolens_model"] == REFERENCE
        await service.comparisons.shadow.idle()
        pair = service.comparisons.pairs[REFERENCE, "demo:lenet-deep@1.0.0"]
        assert pair.n + pair.dropped == COUNT
        assert pair.n > 0
        assert 0.5 < pair.agreement <= 1

    run(test, within=0.999, shadow={"model": "demo:lenet-deep", "share": 1.0})


def test_a_rung_that_breaks_its_promise_is_told_and_taken_off(run, store_path):
    async def test(plane, service, tensors):
        rungs = service.built.ladder.rungs
        promised = replace(rungs[-1], equivalence=1.0, equivalence_lower=0.999)
        service.built = replace(service.built, ladder=replace(service.built.ladder, rungs=(*rungs[:-1], promised)))
        service.endpoint.rungs[-1].rung = promised

        async def removed():
            for tensor in tensors:
                if CHEAP not in [rung.model for rung in service.built.ladder.rungs]:
                    return True
                await plane.infer(request(tensor, zoolens_model=CHEAP))
            await service.comparisons.shadow.idle()
            return False

        await until(removed)
        with pytest.raises(ServingError, match="has no model"):
            await plane.infer(request(tensors[0], zoolens_model=CHEAP))

    run(test, promise={"share": 1.0, "violated": "remove"})
    kinds = [event.kind for event in last_session(store_path).events]
    assert kinds == ["start", "promise", "ladder", "stop"]


@pytest.mark.slow
def test_the_ladder_follows_the_store(run, copied_store, tmp_path, quick):
    from zoolens.base.progress import Silent
    from zoolens.findings.measure.job_runner import carry_out_entries
    from zoolens.findings.measure.plan import EvaluationPlan
    from zoolens.inventory.catalog.lookup import find_all
    from zoolens.inventory.catalog.sessions import RunOptions

    plan = EvaluationPlan(
        models=(), data="demo", limit=300, wanted=RunOptions(runtimes=("onnxruntime",)), batches=(1, 4), cold=False,
        latency=quick,
    )  # fmt: skip

    async def test(plane, service, tensors):
        before = [rung.model for rung in service.built.ladder.rungs]
        assert "demo:mlp-small@1.0.0" not in before
        entries = find_all(["demo:mlp-small"])
        await asyncio.to_thread(lambda: list(carry_out_entries(entries, plan, copied_store, Silent())))

        async def changed():
            return [rung.model for rung in service.built.ladder.rungs] != before

        await until(changed)
        answer = await plane.infer(request(tensors[0], zoolens_model="demo:mlp-small"))
        assert answer.parameters["zoolens_rung"] == len(before)

    path = tmp_path / "copied" / "store.sqlite"
    run(test, refresh=0.1, store=path, within=0.7, where="name LIKE 'mlp-%'")
    assert "ladder" in [event.kind for event in last_session(path).events]


def test_a_ladder_that_cannot_be_served_leaves_the_old_one_whole(run, measured_store, quick, store_path):
    """Whatever fails while a ladder is refreshed, answers go on, and the next refresh is tried."""

    async def test(plane, service, tensors):
        stricter = service.service.model_copy(update={"within": 0.95})
        wrong = stricter.model_copy(update={"policy": PolicyChoice(name="memory", room="a lot")})
        builder = LadderBuilder("fashion", wrong, measured_store, latency=quick)
        before, rungs = service.built, service.endpoint.rungs
        with ThreadPoolExecutor(1) as thread:
            assert not await rebuild_ladder(builder, service, thread, "It is a test.")
            assert not await rebuild_ladder(builder, service, thread, "It is a test.")
            assert (service.built, service.endpoint.rungs) == (before, rungs)
            assert "cannot take room" in builder.problem
            assert (await plane.infer(request(tensors[0]))).parameters["zoolens_model"] == REFERENCE
            builder.service = stricter
            assert await rebuild_ladder(builder, service, thread, "It is a test.")
        assert len(service.built.ladder.rungs) < len(before.ladder.rungs)
        assert builder.problem == ""

    run(test)
    reasons = [event.reason for event in last_session(store_path).events if event.kind == "ladder"]
    assert reasons[0].startswith("The ladder stays as it was: The policy memory cannot take room")
    assert len(reasons) == 2  # the same reason is said once


def test_a_service_that_does_not_start_leaves_no_task_behind(measured_store, store_path, quick):
    async def main():
        async with open_plane(["fashion=demo:mlp-small"]) as plane:
            before = asyncio.all_tasks()
            service = Service(reference="demo:lenet-wide", within=0.8, where="name = 'mlp-wide'")
            how = HostSettings(refresh=0, latency=quick)
            with pytest.raises(ZoolensError, match="two models or services named fashion"):
                async with host_services(plane, {"fashion": service}, store=store_path, settings=how):
                    pass
            assert asyncio.all_tasks() == before

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_service_that_cannot_be_served_is_one_sentence(run):
    async def test(plane, service, tensors):
        raise AssertionError("it must not start")

    with pytest.raises(ZoolensError, match="The split demo:lenet-jax of the service fashion was not measured"):
        run(test, splits=[{"model": "demo:lenet-jax", "weight": 0.1}])


def test_a_service_that_cannot_be_served_does_not_end_the_start_of_another(measured_store, store_path, quick):
    usual = {"within": 0.999, "where": "name = 'mlp-wide'", "batch": {"size": 4}}
    services = {
        "gone": Service(reference="demo:lenet-jax", **usual),
        "fashion": Service(reference="demo:mlp-wide", **usual),
    }

    async def main():
        how = HostSettings(refresh=0, latency=quick)
        async with (
            open_plane() as plane,
            host_services(plane, services, store=store_path, settings=how, strict=False) as hosted,
        ):
            return list(hosted), plane.ready(), {entry.name: entry.state for entry in plane.repository()}

    served, ready, states = asyncio.run(asyncio.wait_for(main(), 60))
    assert (served, ready, states) == (["fashion"], True, {"fashion": "READY", "gone": "UNAVAILABLE"})


def test_a_service_whose_reference_cannot_be_opened_leaves_nothing_behind(measured_store, store_path, quick):
    """Its ladder is known, so that only its start tells."""
    usual = {"within": 0.999, "where": "name = 'mlp-wide'", "batch": {"size": 4}}
    services = {name: Service(reference="demo:mlp-wide", **usual) for name in ("first", "second")}

    async def main():
        how = HostSettings(refresh=0, latency=quick)
        async with open_plane(memory_limit=1 << 20) as plane:
            with pytest.raises(ZoolensError, match="of the memory budget"):
                async with host_services(plane, services, store=store_path, settings=how, strict=False):
                    raise AssertionError("nothing is served")
            return plane.endpoints, [(entry.name, entry.state) for entry in plane.repository()]

    endpoints, entries = asyncio.run(asyncio.wait_for(main(), 60))
    assert endpoints == []
    assert entries == [("first", "UNAVAILABLE"), ("second", "UNAVAILABLE")]


def test_a_server_that_is_stopped_while_it_builds_ladders_does_not_finish_them(
    measured_store, store_path, quick, monkeypatch
):
    usual = {"within": 0.5, "batch": {"size": 4}}
    services = {f"service{place}": Service(reference="demo:lenet-wide", **usual) for place in range(3)}
    built = []
    build = LadderBuilder.build

    def slowly(builder):
        loop.call_soon_threadsafe(began.set)
        builder.stopped.wait(20)
        built.append(builder.stopped.is_set())
        return build(builder)

    monkeypatch.setattr(LadderBuilder, "build", slowly)

    async def main():
        nonlocal loop, began
        loop, began = asyncio.get_running_loop(), asyncio.Event()

        async def serve():
            how = HostSettings(refresh=0, latency=quick)
            async with open_plane() as plane, host_services(plane, services, store=store_path, settings=how):
                raise AssertionError("it is stopped before")

        serving = asyncio.ensure_future(serve())
        await began.wait()
        serving.cancel()
        await asyncio.wait([serving])
        return serving.cancelled()

    loop = began = None
    assert asyncio.run(asyncio.wait_for(main(), 15))
    assert built == [True]
