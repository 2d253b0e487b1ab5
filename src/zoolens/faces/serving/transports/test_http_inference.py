"""Answers over HTTP: those that are made from what an answer before them said are the same as all others."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("uvicorn")

from zoolens.base.protocol.datatypes import strings
from zoolens.base.protocol.messages import InferRequest, InferResponse
from zoolens.base.protocol.rest import encode_response
from zoolens.faces.serving.options import ServerOptions
from zoolens.faces.serving.transports.http_inference import Inference, _encoded

BINARY = InferRequest("tiny", {}, parameters={"binary_data_output": True})
ROWS = np.arange(6, dtype=np.float32).reshape(2, 3)


def responses():
    """Each differs from another one in one thing only."""
    parameters = {"zoolens_model": "demo:tiny", "zoolens_switched": True}
    tensors = {
        "same": {"logits": ROWS},
        "name": {"scores": ROWS},
        "type": {"logits": ROWS.astype(np.int32)},
        "byte order": {"logits": ROWS.astype(">f4")},
        "shape": {"logits": ROWS.reshape(3, 2)},
        "two": {"logits": ROWS, "scores": ROWS},
        "order": {"scores": ROWS, "logits": ROWS},
        "none": {},
        "texts": {"labels": strings([b"a", b"bc"], (2,))},
        "longer texts": {"labels": strings([b"a", b"bcd"], (2,))},
    }
    for outputs in tensors.values():
        yield InferResponse("tiny", "1", outputs, "", parameters)
    outputs = tensors["same"]
    yield InferResponse("other", "1", outputs, "", parameters)
    yield InferResponse("tiny", "2", outputs, "", parameters)
    yield InferResponse("tiny", "1", outputs, "", {**parameters, "zoolens_switched": 1})
    yield InferResponse("tiny", "1", outputs, "", {**parameters, "zoolens_nan_outputs": 1})
    yield InferResponse("tiny", "1", outputs, "", {})


def sent(answer):
    return answer.status, answer.lines, b"".join(answer.parts), dict(answer.fields)


def test_an_answer_from_kept_headers_is_as_if_it_were_made_anew():
    inference = Inference(object(), ServerOptions())
    for _ in range(3):
        for response in responses():
            anew = _encoded(encode_response(response, BINARY), response, BINARY)
            assert sent(inference._binary_answer(response, BINARY)) == sent(anew)


def test_kept_headers_are_bounded():
    inference = Inference(object(), ServerOptions())
    for size in range(2000):
        inference._binary_answer(InferResponse("tiny", "1", {"logits": np.zeros(size, np.uint8)}), BINARY)
    assert len(inference._known) <= 512
