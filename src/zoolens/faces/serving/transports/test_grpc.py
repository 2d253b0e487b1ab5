"""gRPC: what a client calls, and what it gets."""

from __future__ import annotations

import numpy as np
import pytest

from zoolens.base.protocol import documents
from zoolens.base.protocol.grpc_messages import request_to_protobuf, response_from_protobuf
from zoolens.base.protocol.messages import InferRequest
from zoolens.base.protocol.protobuf import HEALTH, INFERENCE, message, methods
from zoolens.inventory import catalog

grpc = pytest.importorskip("grpc")
pytest.importorskip("google.protobuf")

X = np.random.default_rng(0).random((2, 4), np.float32)


@pytest.fixture(scope="module")
def channel(server):
    with grpc.insecure_channel(server.urls["grpc"].removeprefix("grpc://")) as opened:
        yield opened


@pytest.fixture(scope="module")
def expected(server, served_folder):
    with catalog.open_session(str(served_folder / "tiny.yaml")) as session:
        return session.predict({"input": X})["logits"]


def call(channel, name, request=None, service=INFERENCE, **options):
    method = methods(service)[name]
    stub = channel.unary_unary(
        method.path,
        request_serializer=lambda given: given if isinstance(given, bytes) else given.SerializeToString(),
        response_deserializer=method.response.FromString,
    )
    return stub(method.request() if request is None else request, **{"timeout": 20, **options})


def code_of(channel, name, request=None, **options):
    with pytest.raises(grpc.RpcError) as caught:
        call(channel, name, request, **options)
    assert caught.value.details()
    return caught.value.code().name


def test_inference(channel, expected):
    protobuf = call(channel, "ModelInfer", request_to_protobuf(InferRequest("tiny", {"input": X}, id="7")))
    assert len(protobuf.raw_output_contents) == 1
    response = response_from_protobuf(protobuf)
    np.testing.assert_array_equal(response.outputs["logits"], expected)
    assert (response.id, response.parameters["zoolens_model"]) == ("7", "file:tiny@1.0.0")


def test_typed_contents(channel, expected):
    request = message("ModelInferRequest")(model_name="tiny")
    request.inputs.add(name="input", datatype="FP32", shape=[2, 4]).contents.fp32_contents.extend(X.ravel())
    response = response_from_protobuf(call(channel, "ModelInfer", request))
    np.testing.assert_array_equal(response.outputs["logits"], expected)


def test_health_and_descriptions(channel):
    assert call(channel, "ServerLive").live
    assert call(channel, "ServerReady").ready
    assert call(channel, "ModelReady", message("ModelReadyRequest")(name="tiny", version="1.0.0")).ready
    assert call(channel, "ServerMetadata").name == "zoolens"
    metadata = call(channel, "ModelMetadata", message("ModelMetadataRequest")(name="tiny"))
    assert documents.model_from_data(documents.from_protobuf(metadata)).inputs[0].shape == (-1, 4)
    config = call(channel, "ModelConfig", message("ModelConfigRequest")(name="tiny")).config
    assert (config.input[0].data_type, list(config.input[0].dims)) == (11, [4])
    statistics = call(channel, "ModelStatistics", message("ModelStatisticsRequest")())
    assert {model.name for model in statistics.model_stats} == {"tiny", "slow"}
    assert {model.state for model in call(channel, "RepositoryIndex").models} == {"READY"}
    assert list(call(channel, "TraceSetting").settings["trace_level"].value) == ["OFF"]
    assert call(channel, "Check", service=HEALTH).status == 1


def test_the_repository(channel):
    call(channel, "RepositoryModelUnload", message("RepositoryModelUnloadRequest")(model_name="tiny"))
    assert not call(channel, "ModelReady", message("ModelReadyRequest")(name="tiny")).ready
    call(channel, "RepositoryModelLoad", message("RepositoryModelLoadRequest")(model_name="tiny"))
    assert call(channel, "ModelReady", message("ModelReadyRequest")(name="tiny")).ready
    assert (
        code_of(channel, "RepositoryModelLoad", message("RepositoryModelLoadRequest")(model_name="no")) == "NOT_FOUND"
    )


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (request_to_protobuf(InferRequest("absent", {"input": X})), "NOT_FOUND"),
        (request_to_protobuf(InferRequest("tiny", {"x": X})), "INVALID_ARGUMENT"),
        (request_to_protobuf(InferRequest("tiny", {"input": X.astype(np.int8)})), "INVALID_ARGUMENT"),
        (b"\xff\xff\xff", "INVALID_ARGUMENT"),
        (request_to_protobuf(InferRequest("tiny", {"input": np.zeros((2, 50_000), np.float32)})), "RESOURCE_EXHAUSTED"),
    ],
)
def test_requests_that_do_not_fit(channel, request_, code):
    assert code_of(channel, "ModelInfer", request_) == code


def test_a_long_error_is_cut_and_keeps_its_code(channel):
    names = {f"{place}" * 2000: X for place in range(10, 30)}
    assert code_of(channel, "ModelInfer", request_to_protobuf(InferRequest("tiny", names))) == "INVALID_ARGUMENT"


def test_the_calls_deadline_counts(channel):
    assert code_of(channel, "ModelInfer", request_to_protobuf(InferRequest("slow", {"input": X})), timeout=0.05) == (
        "DEADLINE_EXCEEDED"
    )


def test_a_stream_answers_in_order_and_survives_errors(channel, expected):
    method = methods(INFERENCE)["ModelStreamInfer"]
    stream = channel.stream_stream(
        method.path,
        request_serializer=lambda given: given.SerializeToString(),
        response_deserializer=method.response.FromString,
    )
    names = ["tiny", "absent", "slow"] * 30
    requests = [request_to_protobuf(InferRequest(name, {"input": X}, id=str(i))) for i, name in enumerate(names)]
    answers = list(stream(iter(requests), timeout=60))
    assert [answer.infer_response.id for answer in answers] == [str(place) for place in range(len(names))]
    for name, answer in zip(names, answers, strict=True):
        assert bool(answer.error_message) == (name == "absent")
        if name == "tiny":
            np.testing.assert_array_equal(response_from_protobuf(answer.infer_response).outputs["logits"], expected)


def test_the_trace_is_returned(channel):
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    method = methods(INFERENCE)["ModelInfer"]
    request = request_to_protobuf(InferRequest("tiny", {"input": X})).SerializeToString()
    _, made = channel.unary_unary(method.path).with_call(request, metadata=(("traceparent", trace),), timeout=20)
    assert ("traceparent", trace) in made.trailing_metadata()


def test_a_stream_that_waits_for_its_client_does_not_hold_up_the_end(tmp_path, monkeypatch):
    import asyncio

    from zoolens.faces.serving.options import ServerOptions
    from zoolens.faces.serving.plane.data_plane import open_plane
    from zoolens.faces.serving.server import Server

    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))

    async def session():
        async with open_plane() as plane:
            server = Server(plane, ServerOptions(http_port=None, grpc_port=0, drain_seconds=600))
            async with server, grpc.aio.insecure_channel(server.urls["grpc"].removeprefix("grpc://")) as channel:
                stream = channel.stream_stream(methods(INFERENCE)["ModelStreamInfer"].path)()
                await stream.write(request_to_protobuf(InferRequest("absent", {"x": X})).SerializeToString())
                await stream.read()
                watch = channel.unary_stream(methods(HEALTH)["Watch"].path)(b"")
                await watch.read()
                await asyncio.wait_for(server.stop(), 30)
                return await stream.read(), await watch.read()

    assert asyncio.run(session()) == (grpc.aio.EOF, grpc.aio.EOF)


def test_no_memory_is_shared_and_clients_that_tidy_up_first_are_not_refused(tmp_path, monkeypatch):
    import asyncio

    from zoolens.faces.serving.options import ServerOptions
    from zoolens.faces.serving.plane.data_plane import open_plane
    from zoolens.faces.serving.server import Server

    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))

    async def called(channel, call, content=b""):
        try:
            return await channel.unary_unary(f"/{INFERENCE}/{call}")(content, timeout=20)
        except grpc.RpcError as error:
            return error.code().name

    async def session():
        async with (
            open_plane() as plane,
            Server(plane, ServerOptions(http_port=None, grpc_port=0)) as server,
            grpc.aio.insecure_channel(server.urls["grpc"].removeprefix("grpc://")) as channel,
        ):
            for kind in ("System", "Cuda"):
                assert await called(channel, f"{kind}SharedMemoryStatus") == b""
                assert await called(channel, f"{kind}SharedMemoryStatus", b"\n\x01a") == "INVALID_ARGUMENT"
                assert await called(channel, f"{kind}SharedMemoryUnregister") == b""
                assert await called(channel, f"{kind}SharedMemoryUnregister", b"\n\x01a") == b""
                assert await called(channel, f"{kind}SharedMemoryRegister", b"\n\x01a") == "UNIMPLEMENTED"

    asyncio.run(session())


def test_messages_count_in_the_memory_of_all_bodies_and_need_the_token(tmp_path, monkeypatch):
    import asyncio

    from zoolens.faces.serving.options import ServerOptions
    from zoolens.faces.serving.plane.data_plane import open_plane
    from zoolens.faces.serving.server import Server

    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))
    token = "a" * 40
    asked = request_to_protobuf(InferRequest("absent", {"x": X})).SerializeToString()

    async def session(**headers):
        async with open_plane() as plane:
            options = ServerOptions(http_port=None, grpc_port=0, held_bytes=20, token=token)
            async with (
                Server(plane, options) as server,
                grpc.aio.insecure_channel(server.urls["grpc"].removeprefix("grpc://")) as channel,
            ):
                stub = channel.unary_unary(methods(INFERENCE)["ModelInfer"].path)
                with pytest.raises(grpc.RpcError) as caught:
                    await stub(asked, metadata=tuple(headers.items()), timeout=20)
                return caught.value.code().name

    assert asyncio.run(session()) == "UNAUTHENTICATED"
    assert asyncio.run(session(authorization=f"Bearer {token}")) == "RESOURCE_EXHAUSTED"
