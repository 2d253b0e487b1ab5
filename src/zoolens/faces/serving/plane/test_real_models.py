"""The data plane over real frameworks: answers are the session's own, also for models that must not be batched."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from zoolens.base.protocol.errors import ServingError
from zoolens.base.protocol.messages import InferRequest
from zoolens.conftest import ASSETS
from zoolens.faces.serving.plane import served_model
from zoolens.faces.serving.plane.data_plane import open_plane
from zoolens.faces.serving.plane.plane_settings import ModelSpec
from zoolens.faces.serving.plane.served_model import ModelKey, open_model
from zoolens.inventory import catalog
from zoolens.inventory.runtimes.runtime import Yielding

pytest.importorskip("onnxruntime")
MINILM = ASSETS / "tasks/embeddings/models/all-MiniLM-L6-v2_int8.onnx"


def test_a_demo_model_answers_many_at_a_time_as_it_does_alone():
    images = np.random.default_rng(0).random((40, 1, 28, 28), np.float32)

    async def serve():
        async with open_plane([ModelSpec("m=demo:mlp-small", "onnxruntime")]) as plane:
            spec = plane.model_metadata("m").inputs[0]
            requests = [InferRequest("m", {spec.name: image.reshape(1, *spec.shape[1:])}) for image in images]
            answers = await asyncio.gather(*map(plane.infer, requests))
            assert plane.statistics("m")[0].execution_count < len(images)
            return spec, np.concatenate([next(iter(answer.outputs.values())) for answer in answers])

    spec, answers = asyncio.run(serve())
    with catalog.open_session("demo:mlp-small", runtime="onnxruntime") as session:
        expected = next(iter(session.predict({spec.name: images.reshape(-1, *spec.shape[1:])}).values()))
    np.testing.assert_allclose(answers, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("short_call", "yielding"), [(10.0, Yielding.ALWAYS), (0.0, Yielding.AFTER_CALLS)])
def test_threads_of_a_model_with_short_calls_sleep(monkeypatch, short_call, yielding):
    """They spun within calls of 0.06 ms, and waited for each other until the scheduler's next tick."""
    monkeypatch.setattr(served_model, "_SHORT_CALL", short_call)
    opened = open_model(ModelKey(ModelSpec("demo:mlp-small", "onnxruntime"), instances=2))
    try:
        assert opened.yielding is yielding
        assert [session.yielding for session in opened.sessions] == [yielding, yielding]
    finally:
        for session in opened.sessions:
            session.close()


@pytest.mark.slow
@pytest.mark.skipif(not MINILM.exists(), reason="the reference models are not here (ZOOLENS_ASSETS)")
def test_a_network_whose_scales_depend_on_the_batch_answers_each_request_alone():
    def feeds(seed):
        ids = np.random.default_rng(seed).integers(1000, 2000, (1, 6))
        return {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}

    async def serve():
        async with open_plane([f"minilm={MINILM}"]) as plane:
            config = plane.model_config("minilm")
            assert config["max_batch_size"] == 0
            assert "differs by" in config["parameters"]["zoolens_batching"]["string_value"]
            requests = [InferRequest("minilm", feeds(seed)) for seed in range(4)]
            return await asyncio.gather(*map(plane.infer, requests))

    answers = asyncio.run(serve())
    with catalog.open_session(MINILM) as session:
        for seed, answer in enumerate(answers):
            expected = session.predict(feeds(seed))["last_hidden_state"]
            np.testing.assert_array_equal(answer.outputs["last_hidden_state"], expected)


def written(path, nodes, inputs, outputs):
    onnx = pytest.importorskip("onnx")
    from onnx import helper

    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info(*one) for one in inputs],
        [helper.make_tensor_value_info(*one) for one in outputs],
    )  # fmt: skip
    versions = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(graph, opset_imports=versions)
    model.ir_version = 9
    onnx.save(model, path)
    return str(path)


def test_texts_and_bfloat16_are_inputs_too(tmp_path, monkeypatch):
    """Texts beside numbers, and bfloat16 in and out; each answered as the file computes it."""
    pytest.importorskip("onnx")
    import ml_dtypes
    from onnx import TensorProto as Types
    from onnx import helper

    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    known = {"domain": "ai.onnx.ml", "keys_strings": ["yes", "ü"], "values_floats": [1.0, 2.0], "default_float": -1.0}
    texts = written(
        tmp_path / "texts.onnx",
        [helper.make_node("LabelEncoder", ["t"], ["n"], **known), helper.make_node("Add", ["n", "x"], ["y"])],
        [("t", Types.STRING, ["b", 2]), ("x", Types.FLOAT, ["b", 2])],
        [("y", Types.FLOAT, ["b", 2])],
    )
    halves = written(
        tmp_path / "halves.onnx",
        [
            helper.make_node("Cast", ["x"], ["wide"], to=Types.FLOAT),
            helper.make_node("Add", ["wide", "wide"], ["twice"]),
            helper.make_node("Cast", ["twice"], ["y"], to=Types.BFLOAT16),
        ],
        [("x", Types.BFLOAT16, ["b", 3])],
        [("y", Types.BFLOAT16, ["b", 3]), ("twice", Types.FLOAT, ["b", 3])],
    )
    words = np.array([[b"yes", "ü".encode()], [b"", b"no"]], object)
    numbers = np.array([[1.5, -2, 0]], np.float32)

    async def serve():
        async with open_plane([f"texts={texts}", f"halves={halves}"]) as plane:
            kinds = {name: [i.datatype for i in plane.model_metadata(name).inputs] for name in ("texts", "halves")}
            asked = InferRequest("texts", {"t": words, "x": np.ones((2, 2), np.float32)})
            several = [InferRequest("halves", {"x": (numbers * n).astype(ml_dtypes.bfloat16)}) for n in range(1, 9)]
            answers = await asyncio.gather(*map(plane.infer, several))
            bad = InferRequest("texts", {"t": np.array([[b"\xff", b""]], object), "x": np.ones((1, 2), np.float32)})
            with pytest.raises(ServingError, match="is not UTF-8 text"):
                await plane.infer(bad)
            return kinds, (await plane.infer(asked)).outputs["y"], [answer.outputs for answer in answers]

    kinds, encoded, doubled = asyncio.run(serve())
    assert kinds == {"texts": ["BYTES", "FP32"], "halves": ["BF16"]}
    np.testing.assert_array_equal(encoded, [[2, 3], [0, 0]])
    for place, outputs in enumerate(doubled, 1):
        np.testing.assert_array_equal(outputs["y"], 2 * numbers * place)
        np.testing.assert_array_equal(outputs["twice"], 2 * numbers * place)
