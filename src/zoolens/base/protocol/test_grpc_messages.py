"""Protobuf messages: what was written is read the same, by our classes and by those of strangers."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("google.protobuf")

from google.protobuf.message import DecodeError

from zoolens.base.protocol import documents
from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.grpc_messages import (
    request_from_protobuf,
    request_to_protobuf,
    response_from_protobuf,
    response_to_protobuf,
)
from zoolens.base.protocol.limits import Limits
from zoolens.base.protocol.messages import (
    BatchStatistics,
    Duration,
    InferRequest,
    InferResponse,
    ModelMetadata,
    ModelStatistics,
    RepositoryEntry,
    ServerMetadata,
    TensorMetadata,
)
from zoolens.base.protocol.protobuf import HEALTH, INFERENCE, message, methods, pool
from zoolens.base.protocol.test_rest import PARAMETERS, any_tensor, requests, same, same_request

QUICK = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@QUICK
@given(requests())
def test_a_request_comes_back(request):
    wire = request_to_protobuf(request).SerializeToString()
    decoded = request_from_protobuf(message("ModelInferRequest").FromString(wire))
    same_request(decoded, replace(request, outputs=decoded.outputs))
    assert [(output.name, output.classes) for output in decoded.outputs] == [
        (output.name, output.classes) for output in request.outputs
    ]


@QUICK
@given(
    st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), any_tensor(), max_size=3), PARAMETERS
)
def test_a_response_comes_back(outputs, parameters):
    wire = response_to_protobuf(InferResponse("m", "1", outputs, "id", parameters)).SerializeToString()
    decoded = response_from_protobuf(message("ModelInferResponse").FromString(wire))
    assert (decoded.model, decoded.version, decoded.id, decoded.parameters) == ("m", "1", "id", parameters)
    for name, tensor in outputs.items():
        same(decoded.outputs[name], tensor)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(requests(), st.data())
def test_a_spoilt_message_is_decoded_or_refused(request, data):
    content = bytearray(request_to_protobuf(request).SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content)))
        content[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    with suppress(ServingError, DecodeError):
        request_from_protobuf(message("ModelInferRequest").FromString(bytes(content)))


def typed(datatype, shape, **contents):
    protobuf = message("ModelInferRequest")(model_name="m")
    tensor = protobuf.inputs.add(name="x", datatype=datatype, shape=shape)
    for field, values in contents.items():
        getattr(tensor.contents, field).extend(values)
    return protobuf


@pytest.mark.parametrize(
    ("datatype", "field", "values"),
    [
        ("BOOL", "bool_contents", [True, False]),
        ("INT8", "int_contents", [-128, 127]),
        ("UINT16", "uint_contents", [0, 65535]),
        ("INT64", "int64_contents", [-(2**63), 2**63 - 1]),
        ("UINT64", "uint64_contents", [1, 2**64 - 1]),
        ("FP32", "fp32_contents", [1.5, -2.0]),
        ("FP64", "fp64_contents", [0.1, 1e300]),
        ("BYTES", "bytes_contents", [b"a", b"\xff"]),
    ],
)
def test_typed_contents(datatype, field, values):
    decoded = request_from_protobuf(typed(datatype, [2, 1], **{field: values})).inputs["x"]
    assert decoded.shape == (2, 1)
    assert decoded.reshape(-1).tolist() == values


@pytest.mark.parametrize(
    ("protobuf", "sentence"),
    [
        (typed("INT8", [1], int_contents=[300]), "beyond the range"),
        (typed("FP32", [1], int_contents=[1]), "in int_contents instead of fp32_contents"),
        (typed("FP32", [3], fp32_contents=[1]), "but 1 were sent"),
        (typed("FP16", [1]), "must be sent as raw contents"),
        (typed("FP32", [-1]), "negative"),
        (typed("FP7", [1]), "no data type"),
    ],
)
def test_typed_contents_that_do_not_fit(protobuf, sentence):
    with pytest.raises(ServingError, match=sentence):
        request_from_protobuf(protobuf)


def test_raw_contents_that_do_not_fit():
    protobuf = request_to_protobuf(InferRequest("m", {"x": np.zeros(2, np.float32)}))
    protobuf.raw_input_contents.append(b"")
    with pytest.raises(ServingError, match="1 tensors, but raw contents for 2"):
        request_from_protobuf(protobuf)
    del protobuf.raw_input_contents[1]
    protobuf.inputs[0].contents.fp32_contents.extend([1, 2])
    with pytest.raises(ServingError, match="raw and typed"):
        request_from_protobuf(protobuf)


@QUICK
@given(
    st.sampled_from(
        [("INT32", "int_contents", -(2**31), 2**31 - 1), ("INT64", "int64_contents", -(2**63), 2**63 - 1),
         ("UINT32", "uint_contents", 0, 2**32 - 1), ("UINT64", "uint64_contents", 0, 2**64 - 1)]
    ),
    st.data(),
)  # fmt: skip
def test_typed_whole_numbers_come_back(kind, data):
    datatype, field, low, high = kind
    values = data.draw(st.lists(st.integers(low, high) | st.integers(max(low, -9), 300), max_size=40))
    decoded = request_from_protobuf(typed(datatype, [len(values)], **{field: values})).inputs["x"]
    assert decoded.dtype.name == datatype.lower()
    assert decoded.tolist() == values


def test_typed_contents_have_a_limit_and_are_not_read_one_by_one():
    protobuf = typed("UINT8", [2_000_000], uint_contents=[200] * 2_000_000)
    with pytest.raises(ServingError, match="at most 1,000,000"):
        request_from_protobuf(protobuf, Limits(json_values=1_000_000))
    assert request_from_protobuf(protobuf).inputs["x"].sum(dtype=int) == 400_000_000


def test_the_descriptors_are_those_of_the_proto_files():
    if find_spec("grpc_tools") is None:
        pytest.skip("grpcio-tools is not installed: the compiled descriptors are not compared with the .proto files")
    from scripts.compile_protocol import TARGET, compiled

    assert TARGET.read_bytes() == compiled(), "run: python -m scripts.compile_protocol"


def test_the_pool_is_our_own():
    """Another package may put messages of the same names into the default pool."""
    from google.protobuf import descriptor_pool

    assert pool() is not descriptor_pool.Default()
    with pytest.raises(KeyError):
        descriptor_pool.Default().FindMessageTypeByName("inference.ModelInferRequest")
    assert methods(INFERENCE)["ModelStreamInfer"].client_streams
    assert methods(HEALTH)["Check"].path == "/grpc.health.v1.Health/Check"


STATISTICS = ModelStatistics(
    "m", "1", 5, 6, 7, *(Duration(place, 10 * place) for place in range(6)),
    (BatchStatistics(4, Duration(1, 2), Duration(3, 4), Duration(5, 6)),),
)  # fmt: skip
METADATA = ModelMetadata(
    "m", ("1", "2"), "onnx", (TensorMetadata("x", "FP32", (-1, 3)),), (TensorMetadata("y", "INT8", ()),)
)


def test_documents_come_back():
    server = ServerMetadata("zoolens", "1.0", ("statistics",))
    entries = [RepositoryEntry("m", "1", "UNAVAILABLE", "no file")]
    assert documents.server_from_data(documents.server_to_data(server)) == server
    assert documents.model_from_data(documents.model_to_data(METADATA)) == METADATA
    assert documents.repository_from_data(documents.repository_to_data(entries)) == entries


def test_documents_come_back_through_protobuf():
    model = documents.to_protobuf("ModelMetadataResponse", documents.model_to_data(METADATA))
    assert documents.model_from_data(documents.from_protobuf(model)) == METADATA
    statistics = documents.to_protobuf("ModelStatisticsResponse", documents.statistics_to_data([STATISTICS]))
    (model,) = documents.from_protobuf(statistics)["model_stats"]
    assert (model["name"], model["version"], model["inference_count"]) == ("m", "1", "6")  # JSON has int64 as text
    assert model["inference_stats"]["compute_output"] == {"count": "5", "ns": "50"}
    assert model["batch_stats"][0]["compute_infer"] == {"count": "3", "ns": "4"}
    config = {"name": "m", "input": [{"name": "x", "data_type": "TYPE_FP32", "dims": [3]}], "unheard_of": 1}
    assert documents.to_protobuf("ModelConfig", config).input[0].data_type == 11


def test_errors_come_back():
    error = ServingError(Refusal.OVERLOADED, "The queue is full.", hint="Try again later.")
    assert documents.error_body(error) == b'{"error":"The queue is full. Try again later."}'
    back = documents.error_from(429, documents.error_body(error))
    assert (back.refusal, str(back)) == (Refusal.OVERLOADED, str(error))
    assert documents.error_from(502, b"<html>").refusal is Refusal.INTERNAL
    assert documents.error_from(418, b"{}").refusal is Refusal.INVALID


def test_empty_typed_contents_beside_raw_ones_are_fine():
    """MLServer answers so."""
    protobuf = message("ModelInferResponse")(model_name="net")
    protobuf.outputs.add(name="y", datatype="FP32", shape=[1]).contents.SetInParent()
    protobuf.raw_output_contents.append(np.ones(1, np.float32).tobytes())
    assert response_from_protobuf(protobuf).outputs["y"].tolist() == [1]
