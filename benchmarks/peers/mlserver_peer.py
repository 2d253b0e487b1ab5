"""MLServer with a runtime of its own for onnxruntime: MODEL.onnx HTTP-PORT GRPC-PORT BATCH."""

import json
import os
import sys
import tempfile
from pathlib import Path

from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse


class Onnx(MLModel):
    async def load(self) -> bool:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(os.environ["PEER_MODEL"], options)
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        name = self._session.get_inputs()[0].name
        (answer,) = self._session.run(None, {name: NumpyCodec.decode_input(payload.inputs[0])})
        return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output("output", answer)])


def main() -> None:
    model, http, grpc, batch = sys.argv[1:]
    os.environ["PEER_MODEL"] = model
    folder = Path(tempfile.mkdtemp())
    server = {
        "http_port": int(http), "grpc_port": int(grpc), "host": "127.0.0.1", "parallel_workers": 0, "debug": False,
        "metrics_endpoint": None, "grpc_max_message_length": 1 << 30,
    }  # fmt: skip
    settings = {"name": "peer", "implementation": "mlserver_peer.Onnx"}
    if int(batch) > 1:
        settings |= {"max_batch_size": int(batch), "max_batch_time": 0.001}
    (folder / "settings.json").write_text(json.dumps(server))
    (folder / "model-settings.json").write_text(json.dumps(settings))
    sys.path.insert(0, str(Path(__file__).parent))
    sys.argv = ["mlserver", "start", str(folder)]
    from mlserver.cli import main as start

    start()


if __name__ == "__main__":
    main()
