"""Bodies of REST: what was encoded is decoded the same, and whatever else comes is refused in one sentence."""

from __future__ import annotations

import json
from contextlib import suppress

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from zoolens.base.protocol.datatypes import DATATYPES, datatype_of, from_bytes, numpy_type, to_bytes
from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.limits import Limits
from zoolens.base.protocol.messages import InferRequest, InferResponse, RequestedOutput
from zoolens.base.protocol.rest import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    parse_header_length,
)

QUICK = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)


def tensors(datatype, finite=False):
    if datatype == "BYTES":
        element = (
            st.text(st.characters(exclude_categories=["Cs"]), max_size=6).map(str.encode) if finite else st.binary()
        )
        return hnp.arrays(object, SHAPES, elements=element)
    if datatype == "BF16":
        return hnp.arrays(np.float32, SHAPES, elements=st.floats(-1e3, 1e3, width=16)).map(
            lambda array: array.astype(ml_dtypes.bfloat16)
        )
    dtype = numpy_type(datatype)
    if dtype.kind == "f":
        numbers = st.floats(allow_nan=not finite, allow_infinity=not finite, width=dtype.itemsize * 8)
        return hnp.arrays(dtype, SHAPES, elements=numbers)
    return hnp.arrays(dtype, SHAPES)


def any_tensor(finite=False):
    return st.sampled_from(DATATYPES).flatmap(lambda datatype: tensors(datatype, finite))


PARAMETERS = st.dictionaries(
    NAMES.filter(lambda name: name not in ("timeout", "binary_data_output")),
    st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.floats(allow_nan=False, allow_infinity=False) | NAMES,
    max_size=3,
)


def requests(finite=False):
    return st.builds(
        InferRequest,
        model=st.just("m"),
        version=st.just("2"),
        id=NAMES,
        inputs=st.dictionaries(NAMES, any_tensor(finite), max_size=3),
        outputs=st.lists(
            st.builds(RequestedOutput, NAMES, st.integers(0, 5), st.booleans()),
            max_size=3,
            unique_by=lambda output: output.name,
        ).map(tuple),
        parameters=PARAMETERS,
    )


def same(one, other):
    assert one.dtype == other.dtype
    assert one.shape == other.shape
    assert bytes(to_bytes(one)) == bytes(to_bytes(other))


def same_request(one, other):
    assert list(one.inputs) == list(other.inputs)
    for name in one.inputs:
        same(one.inputs[name], other.inputs[name])
    for field in ("model", "version", "id", "outputs", "parameters"):
        assert getattr(one, field) == getattr(other, field)


@QUICK
@given(requests())
def test_a_binary_request_comes_back(request):
    body = encode_request(request)
    same_request(decode_request("m", "2", body.content(), body.header_length), request)


@QUICK
@given(requests(finite=True))
def test_a_json_request_comes_back(request):
    body = encode_request(request, binary=False)
    assert body.header_length is None
    same_request(decode_request("m", "2", body.content()), request)


@QUICK
@given(st.dictionaries(NAMES, any_tensor(finite=True), max_size=3), st.booleans(), PARAMETERS)
def test_a_response_comes_back(outputs, binary, parameters):
    response = InferResponse("m", "1", outputs, "id", parameters)
    request = InferRequest("m", {}, parameters={"binary_data_output": binary})
    body = encode_response(response, request)
    assert (body.header_length is not None) == (binary and bool(outputs))
    decoded = decode_response(body.content(), body.header_length)
    assert (decoded.model, decoded.version, decoded.id, decoded.parameters) == ("m", "1", "id", parameters)
    assert list(decoded.outputs) == list(outputs)
    for name, tensor in outputs.items():
        same(decoded.outputs[name], tensor)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(requests(), st.data())
def test_a_spoilt_body_is_decoded_or_refused(request, data):
    """Whatever happens to the bytes or to the header, nothing but a ServingError comes out."""
    body = encode_request(request)
    content, length = bytearray(body.content()), body.header_length
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content)))
        content[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    length = data.draw(st.sampled_from([length, None]) | st.integers(-1, len(content) + 1))
    with suppress(ServingError):
        decode_request("m", "", bytes(content), length)
    with suppress(ServingError):
        decode_response(bytes(content), length)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "id": JSON_VALUES,
            "parameters": JSON_VALUES,
            "outputs": JSON_VALUES,
            "inputs": JSON_VALUES
            | st.lists(
                st.fixed_dictionaries(
                    {"name": JSON_VALUES | st.just("x")},
                    optional={
                        "datatype": st.sampled_from(DATATYPES) | JSON_VALUES,
                        "shape": st.lists(st.integers(-1, 3), max_size=3) | JSON_VALUES,
                        "data": JSON_VALUES,
                        "parameters": JSON_VALUES,
                    },
                ),
                max_size=3,
            ),
        },
    )
)
def test_json_of_other_shapes_is_decoded_or_refused(document):
    with suppress(ServingError):
        decode_request("m", "", json.dumps(document).encode())


def body_of(**tensor):
    described = {"name": "x", "datatype": "FP32", "shape": [2], "data": [1, 2], **tensor}
    return json.dumps({"inputs": [described]}).encode()


@pytest.mark.parametrize(
    ("tensor", "sentence"),
    [
        ({"data": [1, "2"]}, "not of type FP32"),
        ({"data": [1, None]}, "not of type FP32"),
        ({"data": [1, True]}, "not of type FP32"),
        ({"data": [1, 1e39]}, "beyond the range of FP32"),
        ({"data": [1, 10**400]}, "beyond the range of FP32"),
        ({"data": [[1], [2, 3]]}, "not of type FP32"),
        ({"data": [1, 2, 3]}, "has 2 elements, but 3 were sent"),
        ({"data": [[1, 2]]}, "is nested as [1, 2], but its shape is [2]"),
        ({"data": 1}, "must be a list"),
        ({"datatype": "INT8", "data": [1, 300]}, "beyond the range of INT8"),
        ({"datatype": "UINT64", "data": [1, -1]}, "beyond the range of UINT64"),
        ({"datatype": "INT32", "data": [1, 1.5]}, "not of type INT32"),
        ({"datatype": "BOOL", "data": [1, 0]}, "not of type BOOL"),
        ({"datatype": "FP31"}, "There is no data type 'FP31'"),
        ({"datatype": None}, "must be a text"),
        ({"shape": [-2]}, "negative dimension"),
        ({"shape": [1 << 40, 1 << 40]}, "too many elements"),
        ({"shape": [0, 1 << 60]}, "too many elements"),
        ({"shape": [1] * 40}, "40 dimensions"),
        ({"shape": [2.0]}, "list of integers"),
        ({"name": "\ud800"}, "surrogate"),
        ({"datatype": "BYTES", "data": ["a", "\ud800"]}, "surrogate"),
        ({"parameters": {"shared_memory_region": "r"}}, "shared memory"),
        ({"parameters": {"binary_data_size": 8}}, "in the JSON and behind it"),
    ],
)
def test_a_tensor_that_does_not_fit_is_refused(tensor, sentence):
    with pytest.raises(ServingError, match=sentence.replace("[", r"\[").replace("]", r"\]")):
        decode_request("m", "", body_of(**tensor))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [NaN]}]}', "holds NaN"),
        (b'{"inputs": [], "inputs": []}', "same key twice"),
        (b"\xff", "not UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[]", "object is expected"),
        (b'{"inputs": [], "parameters": {"a": ' + b"9" * 5000 + b"}}", "too many digits"),
        (b'{"inputs": [], "parameters": {"a": 1e999}}', "beyond the range"),
        (b'{"inputs": [], "parameters": {"timeout": 1.5}}', "microseconds"),
        (b'{"inputs": [], "outputs": [{"name": "y"}, {"name": "y"}]}', "named twice"),
        (b'{"inputs": [], "outputs": [{"name": "y", "parameters": {"classification": -1}}]}', "classification"),
        (b"{}", "'inputs' must be a list"),
    ],
)
def test_json_that_is_not_a_request_is_refused(text, sentence):
    with pytest.raises(ServingError, match=sentence):
        decode_request("m", "", text)


def test_long_texts_among_numbers_take_no_room():
    """numpy alone would make room for the longest text at each place: 2 terabytes here."""
    with pytest.raises(ServingError, match="not of type FP32"):
        decode_request("m", "", body_of(shape=[100_001], data=["a" * 5_000_000, *[1] * 100_000]))


def test_whole_numbers_of_64_bits_stay_exact():
    values = [2**63, 1, 2**64 - 1]
    request = decode_request("m", "", body_of(datatype="UINT64", shape=[3], data=values))
    assert request.inputs["x"].tolist() == values


@pytest.mark.parametrize("lie", [b"\xff\xff\xff\xff", b"\x03\x00\x00\x00ab", b"\x00\x00", b"\x00\x00\x00\x00\x00"])
def test_lengths_in_bytes_tensors_that_lie(lie):
    with pytest.raises(ServingError):
        from_bytes("x", "BYTES", (1,), lie)


def test_sizes_have_limits():
    small = Limits(body_bytes=100, tensor_bytes=8, tensors=1, json_values=10, strings=1)
    two = encode_request(InferRequest("m", {"a": np.zeros(1), "b": np.zeros(1)})).content()
    for content, length, refusal in [
        (b" " * 101, None, Refusal.TOO_LARGE),
        (b'{"inputs": [{}, {}]}', None, Refusal.INVALID),
        (b"[" * 20, None, Refusal.INVALID),
        (two, None, Refusal.TOO_LARGE),
    ]:
        with pytest.raises(ServingError) as caught:
            decode_request("m", "", content, length, small)
        assert caught.value.refusal is refusal
    with pytest.raises(ServingError, match="at most 8"):
        from_bytes("x", "FP64", (2,), bytes(16), small)
    with pytest.raises(ServingError, match="at most 1 "):
        from_bytes("x", "BYTES", (2,), bytes(8), small)


def test_binary_tensors_are_views_of_the_body():
    tensor = np.arange(12, dtype=np.float32).reshape(3, 4)
    body = encode_request(InferRequest("m", {"x": tensor}))
    content = body.content()
    decoded = decode_request("m", "", content, body.header_length).inputs["x"]
    assert not decoded.flags.owndata
    assert np.shares_memory(decoded, np.frombuffer(content, np.uint8))


def test_other_byte_orders_and_strides_are_sent_in_the_protocols_order():
    tensor = np.arange(6, dtype=">i4").reshape(2, 3).T
    assert datatype_of(tensor.dtype) == "INT32"
    assert from_bytes("x", "INT32", (3, 2), to_bytes(tensor)).tolist() == tensor.tolist()


def test_headers_that_were_read_before_mean_the_same_and_share_no_values():
    bodies = [encode_request(InferRequest("m", {"x": np.full(4, value, np.float32)})) for value in (1, 2)]
    first, second = (decode_request("m", "", body.content(), body.header_length).inputs["x"] for body in bodies)
    assert (first.tolist(), second.tolist()) == ([1] * 4, [2] * 4)
    with pytest.raises(ServingError, match="ends before"):
        decode_request("m", "", bodies[0].content()[:-1], bodies[0].header_length)
    with pytest.raises(ServingError, match="belong to no tensor"):
        decode_request("m", "", bodies[0].content() + b"x", bodies[0].header_length)


def test_answers_whose_parameters_are_equal_but_of_other_types_are_written_differently():
    request = InferRequest("m", {}, parameters={"binary_data_output": True})
    for value in (True, 1, 1.0):
        body = encode_response(InferResponse("m", "1", {"y": np.zeros(1)}, parameters={"a": value}), request)
        assert type(decode_response(body.content(), body.header_length).parameters["a"]) is type(value)


def test_a_json_answer_cannot_hold_nan():
    response = InferResponse("m", "1", {"y": np.array([np.nan], np.float32)})
    with pytest.raises(ServingError, match="ask for binary data"):
        encode_response(response, InferRequest("m", {}))
    assert encode_response(response, InferRequest("m", {}, parameters={"binary_data_output": True}))


def test_the_timeout_is_the_deadline():
    assert decode_request("m", "", b'{"inputs": [], "parameters": {"timeout": 2500}}').deadline == 0.0025
    assert decode_request("m", "", b'{"inputs": [], "parameters": {"timeout": 0}}').deadline is None


@pytest.mark.parametrize("value", ["-1", "1.0", "", "1e3", "٣", "9" * 30])
def test_a_header_length_is_a_whole_number(value):
    with pytest.raises(ServingError):
        parse_header_length(value)
    assert parse_header_length("12") == 12
