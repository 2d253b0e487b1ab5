"""A front before replicas with real data planes on one event loop; a real cluster is in tests/test_serve_ray.py."""

import asyncio
import os
from dataclasses import replace

import numpy as np
import pytest

from zoolens.base.errors import ZoolensError
from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.messages import BatchStatistics, Duration, InferRequest, ModelStatistics
from zoolens.faces.serving.cluster.cluster_plan import ClusterPlan, ReplicaCount, absolute_models
from zoolens.faces.serving.cluster.controller import Controller
from zoolens.faces.serving.cluster.front import ClusterPlane, ReplicaLost
from zoolens.faces.serving.cluster.metrics import ClusterMetrics
from zoolens.faces.serving.cluster.replica import Replica
from zoolens.faces.serving.cluster.reports import RefusedRequest, merged_statistics
from zoolens.faces.serving.conftest import write_fake
from zoolens.faces.serving.plane.plane_settings import ModelSpec

REQUEST = InferRequest("tiny", {"input": np.ones((1, 4), np.float32)}, id="one")


class Cluster:
    """Two replicas, asked in turn. A replica in `lost` dies with the request that it is given."""

    def __init__(self, plan):
        self.controller = Controller(plan)
        self.replicas = [Replica(plan, self.controller, name) for name in ("first", "second")]
        self.metrics = ClusterMetrics()
        self.plane = ClusterPlane(self.send, self.controller.view, self.label, self.metrics)
        self.lost = set()
        self.sent = 0

    async def send(self, request):
        self.sent += 1
        number = self.sent % 2
        if number in self.lost:
            raise ReplicaLost("the process was killed")
        try:
            return await self.replicas[number].infer(request)
        except ServingError as error:
            return RefusedRequest(error.refusal, error.message, error.hint)

    async def label(self, model, labels):
        return [await labelled(replica, model, labels) for replica in self.replicas]

    async def report(self):
        for replica in self.replicas:
            await replica._report()
        await self.plane.look()


async def labelled(replica, model, labels):
    try:
        return await replica.feedback(model, labels)
    except ServingError as error:
        return RefusedRequest(error.refusal, error.message, error.hint)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a test's coroutine with a cluster that serves the model `tiny`."""
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))

    def run(test, **settings):
        models = settings.pop("models", None) or (ModelSpec(write_fake(tmp_path, "tiny", **settings)),)

        async def main():
            cluster = Cluster(ClusterPlan(models=models))
            await cluster.controller.start()
            for replica in cluster.replicas:
                await replica.start()
            await cluster.plane.start()
            try:
                return await test(cluster)
            finally:
                await cluster.plane.close()
                for replica in cluster.replicas:
                    await replica.close(1)
                await cluster.controller.close()

        return asyncio.run(asyncio.wait_for(main(), 60))

    return run


def test_a_request_whose_replica_is_lost_is_answered_by_another(run):
    async def check(cluster):
        expected = await cluster.replicas[0].infer(REQUEST)
        cluster.lost = {1}
        answers = [await cluster.plane.infer(REQUEST) for _ in range(5)]
        assert cluster.sent == 10
        for answer in answers:
            assert np.array_equal(answer.outputs["logits"], expected.outputs["logits"])

    run(check)


def test_a_request_that_every_replica_is_lost_with_gets_a_clear_error(run):
    async def check(cluster):
        cluster.lost = {0, 1}
        with pytest.raises(ServingError, match="5 replicas were lost one after another") as error:
            await cluster.plane.infer(REQUEST)
        assert error.value.refusal is Refusal.UNAVAILABLE
        with pytest.raises(ServingError) as error:
            await cluster.plane.infer(replace(REQUEST, deadline=0.2))
        assert error.value.refusal is Refusal.TOO_LATE

    run(check)


def test_what_a_replica_refuses_is_refused_in_its_words_and_not_tried_again(run):
    async def check(cluster):
        with pytest.raises(ServingError) as ours:
            await cluster.replicas[0].infer(replace(REQUEST, inputs={}))
        with pytest.raises(ServingError) as theirs:
            await cluster.plane.infer(replace(REQUEST, inputs={}))
        assert str(theirs.value) == str(ours.value)
        assert theirs.value.refusal is Refusal.INVALID
        assert cluster.sent == 1

    run(check)


def test_a_cluster_describes_itself_as_one_server_does(run):
    async def check(cluster):
        await cluster.report()
        plane, single = cluster.plane, cluster.replicas[0]._plane
        assert plane.ready()
        assert plane.model_ready("tiny")
        assert plane.repository() == single.repository()
        assert plane.model_metadata("tiny") == single.model_metadata("tiny")
        assert plane.model_config("tiny", "1") == single.model_config("tiny")
        for asked in (plane.model_ready, plane.model_metadata, plane.model_config, plane.statistics):
            with pytest.raises(ServingError) as error:
                asked("nobody")
            assert error.value.refusal is Refusal.NOT_FOUND
        for work in (plane.load("tiny", {}), plane.unload("tiny"), plane.feedback("tiny", {})):
            with pytest.raises(ServingError) as error:
                await work
            assert error.value.refusal is Refusal.UNSUPPORTED

    run(check)


def test_statistics_are_those_of_all_replicas_also_of_lost_ones(run):
    async def check(cluster):
        for _ in range(6):
            await cluster.plane.infer(REQUEST)
        await cluster.report()
        (statistics,) = cluster.plane.statistics("tiny")
        assert (statistics.inference_count, statistics.success.count) == (6, 6)
        cluster.replicas.pop()  # it reports nothing more
        await cluster.report()
        assert cluster.plane.statistics() == [statistics]

    run(check)


def test_what_the_front_counts(run):
    """Requests by what became of them, and the line of the terminal; names that clients make up are not kept."""
    pytest.importorskip("prometheus_client")

    async def check(cluster):
        await cluster.report()
        for _ in range(3):
            await cluster.plane.infer(REQUEST)
        for wrong in (replace(REQUEST, inputs={}), replace(REQUEST, model="nobody")):
            with pytest.raises(ServingError):
                await cluster.plane.infer(wrong)
        content, _ = cluster.metrics.text()
        return content.decode(), cluster.metrics.line()

    text, line = run(check)
    assert 'zoolens_requests_total{endpoint="tiny",outcome="answered"} 3.0' in text
    assert 'zoolens_requests_total{endpoint="tiny",outcome="invalid"} 1.0' in text
    assert 'zoolens_requests_total{endpoint="",outcome="not_found"} 1.0' in text
    assert 'zoolens_answer_seconds_count{endpoint="tiny",model="file:tiny@1.0.0",runtime="fake"} 3.0' in text
    assert "zoolens_ready_replicas 2.0" in text
    assert "nobody" not in text
    assert "2 of 2 replicas ready" in line
    assert "tiny: " in line


def test_labels_reach_every_replica_for_each_remembers_its_own_answers(run):
    class Remembering:
        def __init__(self, known):
            self.known = known

        async def feedback(self, model, labels):
            if "wrong" in labels.values():
                raise ServingError(Refusal.INVALID, "It is no class.")
            return len(self.known & labels.keys())

    async def check(cluster):
        await cluster.report()
        real, cluster.replicas = cluster.replicas, [Remembering({"a", "b"}), Remembering({"c"})]
        try:
            assert await cluster.plane.feedback("tiny", {"a": 1, "c": 2, "z": 3}) == 2
            with pytest.raises(ServingError) as error:
                await cluster.plane.feedback("tiny", {"a": "wrong"})
            assert error.value.refusal is Refusal.INVALID
            with pytest.raises(ServingError) as error:
                await cluster.plane.feedback("nobody", {})
            assert error.value.refusal is Refusal.NOT_FOUND
        finally:
            cluster.replicas = real

    run(check)


def test_draining_answers_what_was_accepted_and_takes_no_more(run):
    async def check(cluster):
        accepted = asyncio.ensure_future(cluster.plane.infer(REQUEST))
        await asyncio.sleep(0)
        await cluster.plane.drain(10)
        assert accepted.done()
        assert accepted.result().id == "one"
        with pytest.raises(ServingError) as error:
            await cluster.plane.infer(REQUEST)
        assert error.value.refusal is Refusal.UNAVAILABLE
        assert not cluster.plane.ready()

    run(check, latency_us=50_000)


def test_a_replica_that_cannot_open_its_model_says_why(run, tmp_path):
    missing = ModelSpec(str(tmp_path / "nothing.yaml"))

    async def check(cluster):
        assert "nothing.yaml" in cluster.plane.view.problem
        with pytest.raises(ServingError, match=r"nothing\.yaml") as error:
            await cluster.plane.infer(REQUEST)
        assert error.value.refusal is Refusal.UNAVAILABLE

    run(check, models=(missing,))


def test_sums_of_statistics():
    def duration(count):
        return Duration(count, 10 * count)

    def statistics(count, *sizes):
        batches = tuple(BatchStatistics(size, duration(1), duration(2), duration(3)) for size in sizes)
        return ModelStatistics("m", "1", count, count, count, *([duration(count)] * 6), batches=batches)

    (total,) = merged_statistics([statistics(1, 1, 2), statistics(5, 2, 4)])
    assert total == replace(
        statistics(6, 1, 2, 4),
        last_inference_ms=5,
        batches=(
            BatchStatistics(1, duration(1), duration(2), duration(3)),
            BatchStatistics(2, duration(2), duration(4), duration(6)),
            BatchStatistics(4, duration(1), duration(2), duration(3)),
        ),
    )


@pytest.mark.parametrize(("text", "count"), [("3", ReplicaCount(3, 3)), ("1:4", ReplicaCount(1, 4))])
def test_numbers_of_replicas(text, count):
    assert ReplicaCount.parse(text) == count
    assert count.scales == (":" in text)


@pytest.mark.parametrize("text", ["", "0", "-1", "4:1", "1:", ":2", "two", "1:2:3"])
def test_what_is_no_number_of_replicas(text):
    with pytest.raises(ZoolensError, match="not a number of replicas"):
        ReplicaCount.parse(text)


def test_files_are_named_by_absolute_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.onnx").write_bytes(b"")
    named = absolute_models(["model.onnx", ModelSpec("digits=model.onnx", "onnxruntime"), "demo:lenet-torch"])
    path = str(tmp_path / "model.onnx")
    assert named == (ModelSpec(path), ModelSpec(f"digits={path}", "onnxruntime"), ModelSpec("demo:lenet-torch"))


def test_threads_are_those_of_whoever_started_the_cluster(run, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")

    async def check(_):
        return os.environ["OMP_NUM_THREADS"]

    assert run(check) == "7"
