"""What a gRPC server answers to calls that do not fit, as JSON. Argument: its address."""

import json
import queue
import sys

import numpy as np
import tritonclient.grpc as tg
from tritonclient.utils import InferenceServerException

MODEL = "lenet-torch"
X = np.random.default_rng(0).random((2, 28, 28)).astype(np.float32)
client = tg.InferenceServerClient(sys.argv[1])


def inputs(data=X, name="input", datatype="FP32"):
    tensor = tg.InferInput(name, data.shape, datatype)
    tensor.set_data_from_numpy(data)
    return [tensor]


def status(call, *arguments):
    try:
        return str(call(*arguments))
    except InferenceServerException as error:
        return str(error.status())


def streamed(model):
    answers = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    client.async_stream_infer(model, inputs(), request_id="7")
    result, error = answers.get(timeout=30)
    client.stop_stream()
    if error is not None:
        return "error"
    response = result.get_response()
    return [response.id, response.parameters["triton_final_response"].bool_param]


print(
    json.dumps(
        {
            "unknown model ready": status(client.is_model_ready, "absent"),
            "unknown version ready": status(client.is_model_ready, MODEL, "7"),
            "metadata of an unknown model": status(client.get_model_metadata, "absent"),
            "configuration of an unknown model": status(client.get_model_config, "absent"),
            "infer, unknown model": status(client.infer, "absent", inputs()),
            "infer, wrong name": status(client.infer, MODEL, inputs(name="x")),
            "infer, wrong shape": status(client.infer, MODEL, inputs(X[:, :3])),
            "infer, wrong type": status(client.infer, MODEL, inputs(X.astype(np.float64), datatype="FP64")),
            "infer, too many rows": status(client.infer, MODEL, inputs(np.zeros((65, 28, 28), np.float32))),
            "stream": streamed(MODEL),
            "stream, unknown model": streamed("absent"),
        }
    )
)
