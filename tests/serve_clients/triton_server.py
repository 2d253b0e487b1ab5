"""A real Triton that serves one ONNX file, through pytriton: run by a Python that has nvidia-pytriton and onnxruntime.

Arguments: the file, the name to serve it by, and the ports of HTTP and gRPC. Ends when its standard input does.
"""

import sys

import numpy as np
import onnxruntime
from pytriton.decorators import batch
from pytriton.model_config import ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig

FILE, NAME, HTTP, GRPC = sys.argv[1:5]
session = onnxruntime.InferenceSession(FILE)
(source,), (target,) = session.get_inputs(), session.get_outputs()


@batch
def infer(**inputs):
    return {target.name: session.run([target.name], {source.name: inputs[source.name]})[0]}


config = TritonConfig(
    http_address="127.0.0.1", http_port=int(HTTP), grpc_port=int(GRPC), allow_metrics=False, strict_readiness=True
)
with Triton(config=config) as triton:
    triton.bind(
        model_name=NAME,
        infer_func=infer,
        inputs=[Tensor(name=source.name, dtype=np.float32, shape=tuple(source.shape[1:]))],
        outputs=[Tensor(name=target.name, dtype=np.float32, shape=tuple(target.shape[1:]))],
        config=ModelConfig(max_batch_size=64),
    )
    triton.run()
    print("ready", flush=True)
    sys.stdin.read()
