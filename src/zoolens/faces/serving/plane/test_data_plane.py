"""Models behind the data plane: what is served, how it describes itself, and what a request gets."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from zoolens.base.errors import ZoolensError
from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.messages import InferRequest, RequestedOutput
from zoolens.faces.serving.plane.data_plane import open_plane
from zoolens.faces.serving.plane.plane_settings import EndpointSettings
from zoolens.inventory import catalog


def rows(count=1, seed=0):
    return np.random.default_rng(seed).random((count, 4), np.float32)


def request(inputs, **more):
    return InferRequest("tiny", {"input": inputs}, **more)


def test_answers_are_those_of_the_session_and_say_which_model_gave_them(fake_model):
    path = fake_model()

    async def answered():
        async with open_plane([path]) as plane:
            return await plane.infer(request(rows(2), id="7"))

    response = asyncio.run(answered())
    with catalog.open_session(path) as session:
        np.testing.assert_array_equal(response.outputs["logits"], session.predict({"input": rows(2)})["logits"])
    assert (response.model, response.version, response.id) == ("tiny", "1", "7")
    assert response.parameters == {"zoolens_model": "file:tiny@1.0.0", "zoolens_runtime": "fake"}


def test_requests_that_arrive_together_share_batches_and_get_their_own_rows(fake_model):
    async def answered():
        async with open_plane([fake_model()], EndpointSettings(max_batch=8)) as plane:
            inputs = [rows(1 + seed % 3, seed) for seed in range(30)]
            together = await asyncio.gather(*(plane.infer(request(own)) for own in inputs))
            alone = [await plane.infer(request(own)) for own in inputs]
            return together, alone, plane.statistics("tiny")[0]

    together, alone, statistics = asyncio.run(answered())
    for batched, single in zip(together, alone, strict=True):
        np.testing.assert_array_equal(batched.outputs["logits"], single.outputs["logits"])
    assert statistics.success.count == 60
    assert statistics.inference_count == 120
    assert statistics.execution_count < 60
    assert max(batch.size for batch in statistics.batches) <= 8
    assert sum(batch.compute_infer.count for batch in statistics.batches) == statistics.execution_count


def test_it_describes_its_models_as_triton_does(fake_model):
    async def described():
        async with open_plane([f"other={fake_model()}"]) as plane:
            return plane.model_metadata("other"), plane.model_config("other"), plane.repository(), plane.ready()

    metadata, config, repository, ready = asyncio.run(described())
    assert [(spec.name, spec.datatype, spec.shape) for spec in metadata.inputs] == [("input", "FP32", (-1, 4))]
    assert config["max_batch_size"] == 64
    assert config["input"] == [{"name": "input", "data_type": "TYPE_FP32", "dims": [4]}]
    assert [(entry.name, entry.version, entry.state) for entry in repository] == [("other", "1", "READY")]
    assert ready


@pytest.mark.parametrize(
    ("inputs", "sentence"),
    [
        ({}, "'input' is missing"),
        ({"input": rows(), "more": rows()}, "has no input 'more'"),
        ({"input": rows().astype(np.float64)}, "has datatype FP64, but the model expects FP32"),
        ({"input": rows()[0]}, r"has shape \[4\], but the model expects \[-1,4\]"),
        ({"input": np.zeros((0, 4), np.float32)}, "at least one row"),
        ({"input": rows(65)}, "takes at most 64"),
    ],
)
def test_requests_that_do_not_fit_are_refused_in_a_sentence(fake_model, inputs, sentence):
    async def refused():
        async with open_plane([fake_model()]) as plane:
            with pytest.raises(ServingError, match=sentence) as error:
                await plane.infer(InferRequest("tiny", inputs))
            assert error.value.refusal is Refusal.INVALID
            assert plane.statistics("tiny")[0].fail.count == 1

    asyncio.run(refused())


def test_unknown_names_versions_and_outputs(fake_model):
    async def refused():
        async with open_plane([fake_model()]) as plane:
            for asked, refusal in [
                (InferRequest("tinny", {}), Refusal.NOT_FOUND),
                (InferRequest("tiny", {}, version="9"), Refusal.NOT_FOUND),
                (request(rows(), outputs=(RequestedOutput("nope"),)), Refusal.INVALID),
                (request(rows(), outputs=(RequestedOutput("logits"), RequestedOutput("logits"))), Refusal.INVALID),
            ]:
                with pytest.raises(ServingError) as error:
                    await plane.infer(asked)
                assert error.value.refusal is refusal

    asyncio.run(refused())


def test_the_largest_values_come_with_their_labels(fake_model):
    async def answered():
        async with open_plane([fake_model(behaviour="constant", seed=1)]) as plane:
            return await plane.infer(request(rows(2), outputs=(RequestedOutput("logits", classes=2),)))

    values = asyncio.run(answered()).outputs["logits"]
    assert values.tolist() == [[b"1.000000:1:bee", b"0.000000:0:ant"]] * 2


def test_versions_stand_side_by_side_and_the_newest_answers(fake_model):
    async def answered():
        async with open_plane([fake_model(version="1.10.0"), fake_model(version="1.9.0")]) as plane:
            newest = await plane.infer(request(rows()))
            old = await plane.infer(request(rows(), version="1.9.0"))
            assert (await plane.infer(request(rows(), version="1"))).parameters == old.parameters
            return newest, old, plane.model_metadata("tiny").versions

    newest, old, versions = asyncio.run(answered())
    assert (newest.version, old.version, versions) == ("2", "1", ("1", "2"))
    assert newest.parameters["zoolens_model"] == "file:tiny@1.10.0"
    assert old.parameters["zoolens_model"] == "file:tiny@1.9.0"


def test_two_models_of_one_name_need_another_name(fake_model):
    async def opened():
        async with open_plane([fake_model(), fake_model()]):
            pass

    with pytest.raises(ZoolensError, match="NAME=MODEL"):
        asyncio.run(opened())


def test_unloading_and_loading_again(fake_model):
    async def cycle():
        async with open_plane([fake_model()]) as plane:
            accepted = asyncio.ensure_future(plane.infer(request(rows())))
            await asyncio.sleep(0)
            await plane.unload("tiny")
            assert (await accepted).outputs
            assert not plane.model_ready("tiny")
            assert [entry.state for entry in plane.repository()] == ["UNAVAILABLE"]
            with pytest.raises(ServingError, match="not loaded"):
                await plane.infer(request(rows()))
            await plane.load("tiny", {})
            assert (await plane.infer(request(rows()))).outputs
            with pytest.raises(ServingError, match="no model 'other' in the repository"):
                await plane.load("other", {})

    asyncio.run(cycle())


@pytest.fixture
def broken_model(fake_model, tmp_path):
    """A model whose file is no model."""
    path = fake_model("broken")
    (tmp_path / "broken-1.0.0.json").write_text("{")
    return path


def test_a_model_that_cannot_be_opened_does_not_end_the_start_of_the_others(fake_model, broken_model, tmp_path):
    """One that is broken, one whose file is missing, another version of one that is served, and a file that cannot even
    be read."""
    missing = fake_model("missing")
    (tmp_path / "missing-1.0.0.json").unlink()
    other = fake_model("tiny", "2.0.0")
    (tmp_path / "tiny-2.0.0.json").write_text("[]")

    unread = tmp_path / "unread.yaml"
    unread.write_text("zoolens: 1\nname: [")

    async def served():
        models = [broken_model, fake_model(), missing, other, f"unread={unread}"]
        async with open_plane(models, strict=False) as plane:
            answer = await plane.infer(request(rows()))
            with pytest.raises(ServingError, match=r"Model 'broken' is not loaded: .+\. Load it first"):
                plane.endpoint("broken")
            return answer.model, plane.ready(), {(e.name, e.version): (e.state, e.reason) for e in plane.repository()}

    model, ready, states = asyncio.run(served())
    assert (model, ready) == ("tiny", True)
    assert {key: state for key, (state, _) in states.items()} == {
        ("tiny", "1"): "READY", ("tiny", "2"): "UNAVAILABLE",
        ("broken", "1"): "UNAVAILABLE", ("missing", "1"): "UNAVAILABLE", ("unread", "1"): "UNAVAILABLE",
    }  # fmt: skip
    assert "does not exist" in states["missing", "1"][1]


def test_where_no_model_can_be_opened_nothing_is_served(broken_model):
    async def served(**how):
        async with open_plane([broken_model], **how):
            raise AssertionError("it must not start")

    for how in ({}, {"strict": False}):
        with pytest.raises(ZoolensError, match="Model 'broken' cannot be loaded"):
            asyncio.run(served(**how))


def test_a_service_that_cannot_be_started_says_why(fake_model):
    async def served():
        async with open_plane([fake_model()]) as plane:
            plane.leave_out("fashion", "Its reference is gone.")
            with pytest.raises(ServingError, match="'fashion' could not be started: Its reference is gone") as refused:
                plane.endpoint("fashion")
            return refused.value.refusal, plane.repository()[-1]

    refusal, entry = asyncio.run(served())
    assert refusal is Refusal.UNAVAILABLE
    assert (entry.name, entry.state, entry.reason) == ("fashion", "UNAVAILABLE", "Its reference is gone.")
