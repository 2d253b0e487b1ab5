"""LitServe with onnxruntime: MODEL.onnx HTTP-PORT GRPC-PORT BATCH."""

import base64
import sys
from typing import Any

import litserve as ls
import numpy as np


class Api(ls.LitAPI):
    def setup(self, device: str) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(sys.argv[1], options)
        (source,) = self._session.get_inputs()
        self._name, self._shape = source.name, source.shape[1:]

    def decode_request(self, request: dict[str, str]) -> Any:
        return np.frombuffer(base64.b64decode(request["x"]), np.float32).reshape(self._shape)

    def batch(self, inputs: list[Any]) -> Any:
        return np.stack(inputs)

    def predict(self, x: Any) -> Any:
        return self._session.run(None, {self._name: x if self.max_batch_size > 1 else x[np.newaxis]})[0]

    def unbatch(self, output: Any) -> list[Any]:
        return list(output)

    def encode_response(self, output: Any) -> dict[str, Any]:
        return {"y": output.tolist()}


def main() -> None:
    _, http, _, batch = sys.argv[1:]
    api = Api(max_batch_size=int(batch), batch_timeout=0.001 if int(batch) > 1 else 0.0)
    server = ls.LitServer(api, accelerator="cpu", workers_per_device=1, timeout=600)
    server.run(host="127.0.0.1", port=int(http), generate_client_file=False, log_level="error")


if __name__ == "__main__":
    main()
