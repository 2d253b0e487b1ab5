"""Bytes of gRPC: read and written as protobuf does it, whatever they hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("google.protobuf")

from google.protobuf.message import DecodeError

from zoolens.base.protocol.errors import ServingError
from zoolens.base.protocol.grpc_messages import (
    request_from_protobuf,
    request_to_protobuf,
    response_from_protobuf,
    response_to_protobuf,
)
from zoolens.base.protocol.grpc_wire import decode_request, encode_response, encode_streamed, split
from zoolens.base.protocol.messages import InferRequest, InferResponse
from zoolens.base.protocol.protobuf import message
from zoolens.base.protocol.test_rest import PARAMETERS, any_tensor, requests, same_request

QUICK = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def by_protobuf(content):
    return request_from_protobuf(message("ModelInferRequest").FromString(content))


@QUICK
@given(requests())
def test_a_request_is_read_as_protobuf_reads_it(request):
    content = request_to_protobuf(request).SerializeToString()
    assert (split(content) is None) == (not request.inputs)
    same_request(decode_request(content), by_protobuf(content))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(requests(), st.data())
def test_a_spoilt_request_is_read_or_refused_as_by_protobuf(request, data):
    content = bytearray(request_to_protobuf(request).SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content)))
        content[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    try:
        expected = by_protobuf(bytes(content))
    except (ServingError, DecodeError):
        with pytest.raises(ServingError):
            decode_request(bytes(content))
    else:
        same_request(decode_request(bytes(content)), expected)


def test_raw_contents_that_do_not_come_last_are_read():
    protobuf = request_to_protobuf(InferRequest("m", {"x": X}, id="7"))
    protobuf.ClearField("id")
    content = protobuf.SerializeToString() + message("ModelInferRequest")(id="7").SerializeToString()
    assert split(content) is None
    same_request(decode_request(content), InferRequest("m", {"x": X}, id="7"))


def test_messages_of_one_length_are_each_read_by_what_they_say():
    """What a message began with is remembered by its length."""
    for name in ("x", "y", "x"):
        for model in ("m", "n"):
            content = request_to_protobuf(InferRequest(model, {name: X})).SerializeToString()
            for spoilt in (content, content[:-1], content[:-1] + b"?", content):
                try:
                    expected = by_protobuf(spoilt)
                except (ServingError, DecodeError):
                    with pytest.raises(ServingError):
                        decode_request(spoilt)
                else:
                    same_request(decode_request(spoilt), expected)


def test_raw_contents_are_used_where_they_lie():
    content = request_to_protobuf(InferRequest("m", {"x": X})).SerializeToString()
    first, second = decode_request(content), decode_request(content)
    assert first.inputs["x"].base is not None
    assert np.shares_memory(first.inputs["x"], second.inputs["x"])


@pytest.mark.parametrize("missing", [1, 4, 20])
def test_a_request_that_is_cut_off_is_refused(missing):
    content = request_to_protobuf(InferRequest("m", {"x": X})).SerializeToString()
    with pytest.raises(ServingError):
        decode_request(content[:-missing])


@QUICK
@given(st.dictionaries(st.text("ab", max_size=2), any_tensor(), max_size=3), PARAMETERS)
def test_a_response_is_written_as_protobuf_writes_it(outputs, parameters):
    response = InferResponse("m", "1", outputs, "id", parameters)
    expected = response_to_protobuf(response)
    assert message("ModelInferResponse").FromString(encode_response(response)) == expected
    assert message("ModelStreamInferResponse").FromString(encode_streamed(response)).infer_response == expected


def test_a_long_response_and_parameters_of_equal_value_but_other_type():
    long = np.zeros(100_000, np.float32)
    for value in (True, 1, 1.0):
        response = InferResponse("m", "1", {"y": long}, parameters={"p": value})
        decoded = response_from_protobuf(message("ModelInferResponse").FromString(encode_response(response)))
        assert type(decoded.parameters["p"]) is type(value)
        assert decoded.outputs["y"].shape == long.shape
