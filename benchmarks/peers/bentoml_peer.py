"""BentoML with onnxruntime: MODEL.onnx HTTP-PORT GRPC-PORT BATCH."""

import base64
import os
import sys
from pathlib import Path

import bentoml
import numpy as np

BATCH = int(os.environ.get("PEER_BATCH", "1"))


def decode(text: str, shape: list[int]) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), np.float32).reshape(shape)


@bentoml.service(workers=1, traffic={"timeout": 600})
class Peer:
    def __init__(self) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(os.environ["PEER_MODEL"], options)
        (source,) = self._session.get_inputs()
        self._name, self._shape = source.name, [-1, *source.shape[1:]]

    @bentoml.api(batchable=BATCH > 1, max_batch_size=max(BATCH, 2), max_latency_ms=60_000)
    def predict(self, x: list[str]) -> list[list[float]]:
        batch = np.concatenate([decode(text, self._shape) for text in x])
        return self._session.run(None, {self._name: batch})[0].tolist()


def main() -> None:
    model, http, _, batch = sys.argv[1:]
    os.environ |= {"PEER_MODEL": model, "PEER_BATCH": batch, "BENTOML_DO_NOT_TRACK": "True"}
    folder = Path(__file__).parent
    arguments = ["serve", "bentoml_peer:Peer", "--working-dir", str(folder), "--host", "127.0.0.1", "--port", http]
    os.execv(sys.executable, [sys.executable, "-m", "bentoml", *arguments])


if __name__ == "__main__":
    main()
