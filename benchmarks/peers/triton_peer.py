"""A real Triton through nvidia-pytriton, which calls onnxruntime in Python: MODEL.onnx HTTP-PORT GRPC-PORT BATCH."""

import sys

import numpy as np
import onnxruntime
from pytriton.decorators import batch
from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig


def main() -> None:
    model, http, grpc, most = sys.argv[1:]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options)
    (source,), (target,) = session.get_inputs(), session.get_outputs()

    @batch
    def infer(**inputs: np.ndarray) -> list[np.ndarray]:
        return session.run(None, inputs)

    settings = ModelConfig(max_batch_size=max(int(most), 1), batcher=DynamicBatcher(max_queue_delay_microseconds=0))
    config = TritonConfig(http_port=int(http), grpc_port=int(grpc), http_address="127.0.0.1", allow_metrics=False)
    with Triton(config=config) as triton:
        triton.bind(
            model_name="peer",
            infer_func=infer,
            inputs=[Tensor(name=source.name, dtype=np.float32, shape=tuple(source.shape[1:]))],
            outputs=[Tensor(name=target.name, dtype=np.float32, shape=tuple(target.shape[1:]))],
            config=settings,
        )
        triton.serve()


if __name__ == "__main__":
    main()
