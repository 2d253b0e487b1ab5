"""The REST and gRPC clients of kserve."""

import asyncio
import logging

from harness import GRPC, HTTP, INPUT, MODEL, X, check, error_of, run, same
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest
from kserve.inference_client import RESTConfig

logging.disable(logging.CRITICAL)
BASE = f"http://{HTTP}"


def request(binary, model=MODEL):
    tensor = InferInput(INPUT, list(X.shape), "FP32")
    tensor.set_data_from_numpy(X, binary_data=binary)
    return InferRequest(model_name=model, infer_inputs=[tensor])


def rest(ask):
    async def session():
        async with InferenceRESTClient(RESTConfig(protocol="v2")) as client:
            return await ask(client)

    return asyncio.run(session())


def grpc(ask):
    async def session():
        async with InferenceGRPCClient(GRPC) as client:
            return await ask(client)

    return asyncio.run(session())


@check("rest: health")
def _():
    assert rest(lambda client: client.is_server_live(BASE)) is True
    assert rest(lambda client: client.is_server_ready(BASE)) is True
    assert rest(lambda client: client.is_model_ready(BASE, MODEL)) is True
    assert rest(lambda client: client.is_model_ready(BASE, "absent")) is False


@check("rest: infer, JSON")
def _():
    same(rest(lambda client: client.infer(BASE, request(False), model_name=MODEL)).outputs[0].as_numpy())


@check("rest: infer, binary")
def _():
    same(rest(lambda client: client.infer(BASE, request(True), model_name=MODEL)).outputs[0].as_numpy())


@check("rest: errors")
def _():
    error = error_of(lambda: rest(lambda client: client.infer(BASE, request(False, "absent"), model_name="absent")))
    assert error.response.status_code == 404
    assert "no model 'absent'" in str(error)


@check("grpc: health")
def _():
    assert grpc(lambda client: client.is_server_live()) is True
    assert grpc(lambda client: client.is_server_ready()) is True
    assert grpc(lambda client: client.is_model_ready(MODEL)) is True


@check("grpc: infer, raw and typed contents")
def _():
    same(grpc(lambda client: client.infer(request(True))).outputs[0].as_numpy())
    same(grpc(lambda client: client.infer(request(False))).outputs[0].as_numpy())


@check("grpc: errors")
def _():
    assert error_of(lambda: grpc(lambda client: client.infer(request(True, "absent")))).code().name == "NOT_FOUND"


run()
