"""The data plane over real frameworks: answers are the session's own, also for models that must not be batched."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import numpy as np
import pytest

from zoolens import catalog
from zoolens.errors import ZoolensError
from zoolens.protocol.messages import InferRequest
from zoolens.serving.plane.data_plane import open_plane
from zoolens.serving.plane.settings import ModelSpec

pytest.importorskip("onnxruntime")
ASSETS = Path(os.environ.get("ZOOLENS_ASSETS", "../shared/assets"))
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


def test_a_model_that_takes_texts_is_not_called_ready(tmp_path):
    onnx = pytest.importorskip("onnx")
    ends = [
        onnx.helper.make_tensor_value_info(name, kind, [None, 1])
        for name, kind in (("text", onnx.TensorProto.STRING), ("same", onnx.TensorProto.FLOAT))
    ]
    nodes = [
        onnx.helper.make_node("Equal", ["text", "text"], ["equal"]),
        onnx.helper.make_node("Cast", ["equal"], ["same"], to=onnx.TensorProto.FLOAT),
    ]
    graph = onnx.helper.make_graph(nodes, "texts", ends[:1], ends[1:])
    opset = [onnx.helper.make_opsetid("", 19)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=9), tmp_path / "texts.onnx")

    async def serve():
        async with open_plane([ModelSpec(f"texts={tmp_path / 'texts.onnx'}", "onnxruntime")]):
            pass

    with pytest.raises(ZoolensError, match="its input 'text' holds texts, which no runtime here takes"):
        asyncio.run(serve())


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
