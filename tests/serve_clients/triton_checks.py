"""tritonclient: HTTP with binary tensors and JSON, gRPC, asyncio and streaming."""

import asyncio
import queue

import tritonclient.grpc as tg
import tritonclient.grpc.aio as tga
import tritonclient.http as th
import tritonclient.http.aio as tha
from harness import GRPC, HTTP, INPUT, MODEL, OUTPUT, X, check, error_of, run, same
from tritonclient.utils import InferenceServerException

http = th.InferenceServerClient(HTTP)
grpc = tg.InferenceServerClient(GRPC)


def inputs(module, data=X, name=INPUT, datatype="FP32", **options):
    tensor = module.InferInput(name, data.shape, datatype)
    tensor.set_data_from_numpy(data, **options)
    return [tensor]


def status_of(call):
    error = error_of(call)
    assert error.message()
    return str(error.status())


@check("http: health")
def _():
    assert http.is_server_live()
    assert http.is_server_ready()
    assert http.is_model_ready(MODEL)
    assert http.is_model_ready(MODEL, "1")
    assert not http.is_model_ready("absent")


@check("http: metadata, config, statistics")
def _():
    assert "binary_tensor_data" in http.get_server_metadata()["extensions"]
    assert http.get_model_metadata(MODEL)["inputs"][0]["name"] == INPUT
    assert http.get_model_config(MODEL)["input"][0]["dims"] == list(X.shape[1:])
    assert http.get_inference_statistics(MODEL)["model_stats"][0]["name"] == MODEL
    assert http.get_inference_statistics()["model_stats"]


@check("http: repository")
def _():
    assert http.get_model_repository_index()[0]["state"] == "READY"
    http.load_model(MODEL)
    http.unload_model(MODEL)
    assert not http.is_model_ready(MODEL)
    http.load_model(MODEL)
    assert http.is_model_ready(MODEL)


@check("http: trace settings")
def _():
    assert http.get_trace_settings()["trace_level"] == ["OFF"]
    assert http.update_trace_settings(MODEL, {"trace_level": ["OFF"]})["trace_level"] == ["OFF"]


@check("http: infer, binary")
def _():
    same(http.infer(MODEL, inputs(th)).as_numpy(OUTPUT))
    wanted = [th.InferRequestedOutput(OUTPUT, binary_data=True)]
    same(http.infer(MODEL, inputs(th), outputs=wanted, request_id="7", model_version="1").as_numpy(OUTPUT))


@check("http: infer, JSON")
def _():
    wanted = [th.InferRequestedOutput(OUTPUT, binary_data=False)]
    same(http.infer(MODEL, inputs(th, binary_data=False), outputs=wanted).as_numpy(OUTPUT))


@check("http: infer, compressed")
def _():
    for algorithm in ("gzip", "deflate"):
        packed = {"request_compression_algorithm": algorithm, "response_compression_algorithm": algorithm}
        same(http.infer(MODEL, inputs(th), **packed).as_numpy(OUTPUT))


@check("http: infer, asynchronous")
def _():
    same(http.async_infer(MODEL, inputs(th)).get_result().as_numpy(OUTPUT))


@check("http: classification")
def _():
    wanted = [th.InferRequestedOutput(OUTPUT, binary_data=True, class_count=3)]
    classes = http.infer(MODEL, inputs(th), outputs=wanted).as_numpy(OUTPUT)
    assert classes.shape == (len(X), 3)
    assert classes[0][0].count(b":") in (1, 2)


@check("http: errors")
def _():
    assert status_of(lambda: http.infer("absent", inputs(th))) == "404"
    assert status_of(lambda: http.infer(MODEL, inputs(th, name="absent"))) == "400"
    assert status_of(lambda: http.infer(MODEL, inputs(th, X[:, :2]))) == "400"
    assert status_of(lambda: http.infer(MODEL, inputs(th, X.astype("float64"), datatype="FP64"))) == "400"
    assert status_of(lambda: http.get_model_metadata("absent")) == "404"


@check("http: infer, asyncio")
def _():
    async def ask():
        async with tha.InferenceServerClient(HTTP) as client:
            assert await client.is_server_ready()
            return (await client.infer(MODEL, inputs(tha))).as_numpy(OUTPUT)

    same(asyncio.run(ask()))


@check("grpc: health")
def _():
    assert grpc.is_server_live()
    assert grpc.is_server_ready()
    assert grpc.is_model_ready(MODEL)
    assert not grpc.is_model_ready("absent")


@check("grpc: metadata, config, statistics")
def _():
    assert grpc.get_server_metadata().name == "zoolens"
    assert grpc.get_model_metadata(MODEL).inputs[0].name == INPUT
    assert list(grpc.get_model_config(MODEL).config.input[0].dims) == list(X.shape[1:])
    assert grpc.get_inference_statistics(MODEL).model_stats[0].name == MODEL


@check("grpc: repository")
def _():
    assert grpc.get_model_repository_index().models[0].state == "READY"
    grpc.unload_model(MODEL)
    assert not grpc.is_model_ready(MODEL)
    grpc.load_model(MODEL)
    assert grpc.is_model_ready(MODEL)


@check("grpc: trace settings")
def _():
    assert list(grpc.get_trace_settings().settings["trace_level"].value) == ["OFF"]


@check("grpc: infer")
def _():
    same(grpc.infer(MODEL, inputs(tg)).as_numpy(OUTPUT))
    same(grpc.infer(MODEL, inputs(tg), compression_algorithm="gzip", client_timeout=20).as_numpy(OUTPUT))


@check("grpc: errors")
def _():
    assert status_of(lambda: grpc.infer("absent", inputs(tg))) == "StatusCode.NOT_FOUND"
    assert status_of(lambda: grpc.infer(MODEL, inputs(tg, name="absent"))) == "StatusCode.INVALID_ARGUMENT"
    assert status_of(lambda: grpc.infer(MODEL, inputs(tg, X[:, :2]))) == "StatusCode.INVALID_ARGUMENT"


@check("grpc: streaming")
def _():
    answers = queue.Queue()
    grpc.start_stream(lambda result, error: answers.put((result, error)))
    for place in range(20):
        grpc.async_stream_infer("absent" if place == 3 else MODEL, inputs(tg), request_id=str(place))
    for place in range(20):
        result, error = answers.get(timeout=20)
        if place == 3:
            assert isinstance(error, InferenceServerException)
        else:
            assert result.get_response().id == str(place)
            same(result.as_numpy(OUTPUT))
    grpc.stop_stream()


@check("grpc: infer and streaming, asyncio")
def _():
    async def requests():
        for place in range(5):
            yield {"model_name": MODEL, "inputs": inputs(tga), "request_id": str(place)}

    async def ask():
        async with tga.InferenceServerClient(GRPC) as client:
            same((await client.infer(MODEL, inputs(tga))).as_numpy(OUTPUT))
            async for result, error in client.stream_infer(requests()):
                assert error is None
                same(result.as_numpy(OUTPUT))

    asyncio.run(ask())


run()
