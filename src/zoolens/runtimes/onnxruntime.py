"""ONNX models in ONNX Runtime (CPU)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from zoolens.errors import MissingDependency, ModelError
from zoolens.runtimes.base import (
    Effective,
    ModelFiles,
    Options,
    Runtime,
    Session,
    Tensor,
    Tensors,
    TensorSpec,
    check_feeds,
    first_line,
)

_DTYPES = {
    "float": "float32",
    "double": "float64",
}  # every other ONNX Runtime type is spelled as numpy spells it


class OnnxRuntime(Runtime):
    name = "onnxruntime"
    summary = "ONNX Runtime, CPU execution provider"
    formats = ("onnx",)
    requirements = ("onnxruntime",)
    distributions = ("onnxruntime",)
    extra = "onnxruntime"
    cannot: ClassVar[Mapping[str, str]] = {
        "compile_mode": "a session is always optimised when it is made",
    }

    def load_library(self) -> Any:
        import onnxruntime

        onnxruntime.set_default_logger_severity(3)
        return onnxruntime

    def load(self, model: ModelFiles, options: Options) -> bytes | str:
        # By path where weights lie outside the file; ONNX Runtime then confines them to the model's folder.
        path = model.path()
        return str(path) if len(model.files) > 1 else path.read_bytes()

    def compile(self, loaded: bytes | str, model: ModelFiles, options: Options) -> Session:
        ort = self.load_library()
        settings = ort.SessionOptions()
        settings.intra_op_num_threads = options.threads or 0
        settings.inter_op_num_threads = 1
        return OnnxSession(ort.InferenceSession(loaded, settings, providers=["CPUExecutionProvider"]), model, options)


class OnnxSession(Session):
    def __init__(self, session: Any, model: ModelFiles, options: Options) -> None:
        self._session = session
        self._model = model
        self._options = options
        self.inputs = tuple(_spec(node) for node in session.get_inputs())
        self.outputs = tuple(_spec(node) for node in session.get_outputs())
        self._output_names = [spec.name for spec in self.outputs]

    def predict(self, feeds: Mapping[str, Tensor]) -> Tensors:
        try:
            answers = self._session.run(self._output_names, feeds)
        except Exception as error:
            check_feeds(self.inputs, feeds)
            raise ModelError(f"onnxruntime failed while running the model: {first_line(error)}") from error
        return dict(zip(self._output_names, answers, strict=True))

    def effective(self) -> Effective:
        return Effective(
            provider=self._session.get_providers()[0],
            precision=_precision(self._model),
            threads=self._options.threads,
        )

    def count_parameters(self) -> int:
        onnx = _onnx()
        graph = onnx.load(str(self._model.path()), load_external_data=False).graph
        floating = {
            onnx.TensorProto.FLOAT,
            onnx.TensorProto.FLOAT16,
            onnx.TensorProto.DOUBLE,
            onnx.TensorProto.BFLOAT16,
            onnx.TensorProto.INT8,
            onnx.TensorProto.UINT8,
            onnx.TensorProto.INT32,
        }
        total = 0
        for tensor in graph.initializer:
            if tensor.data_type in floating and tensor.dims:
                count = 1
                for extent in tensor.dims:
                    count *= extent
                total += count
        return total

    def close(self) -> None:
        self._session = None


def _precision(model: ModelFiles) -> str | None:
    """The CPU provider computes in the graph's own types: read them from the graph, where onnx is installed."""
    try:
        onnx = _onnx()
    except MissingDependency:
        return None
    operators = {node.op_type for node in onnx.load(str(model.path()), load_external_data=False).graph.node}
    if any(re.match(r"QLinear|.*Integer$|QuantizeLinear", op) for op in operators):
        return "int8"
    return "float32"


def _onnx() -> Any:
    try:
        import onnx
    except ImportError as error:
        raise MissingDependency("Reading an ONNX graph", "onnx", "onnx") from error
    return onnx


def _spec(node: Any) -> TensorSpec:
    shape = tuple(extent if isinstance(extent, int) else None for extent in node.shape)
    kind = node.type.removeprefix("tensor(").removesuffix(")")
    return TensorSpec(node.name, shape, _DTYPES.get(kind, kind))
