"""ONNX models in ONNX Runtime (CPU)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from zoolens.errors import ModelError, first_line
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
    model_bytes,
)
from zoolens.runtimes.onnxfile import OnnxGraph, check_external, read_graph

# Every other ONNX Runtime type is spelled as numpy spells it.
_DTYPES = {"float": "float32", "double": "float64"}


class OnnxRuntime(Runtime):
    name = "onnxruntime"
    summary = "ONNX Runtime, CPU execution provider"
    formats = ("onnx",)
    requirements = ("onnxruntime",)
    distributions = ("onnxruntime",)
    extra = "onnxruntime"
    cannot: ClassVar[Mapping[str, str]] = {
        "dynamic_batch": "a file exported with a fixed batch size runs with that one only",
        "compile_mode": "a session is always optimised when it is made",
        "profile": "zoolens does not read its profiler yet",
        "kernels": "ONNX Runtime's profiler names operators, and not the routines of its own library that they call",
        "capture": "zoolens does not read its intermediate tensors yet",
    }

    def load_library(self) -> Any:
        import onnxruntime

        onnxruntime.set_default_logger_severity(4)  # what it would print is raised as well
        return onnxruntime

    def load(self, model: ModelFiles, options: Options) -> bytes | str:
        # By path where weights lie outside the file; ONNX Runtime then confines them to the model's folder.
        path = model.path()
        check_external(model)
        return str(path) if len(model.files) > 1 else model_bytes(path)

    def compile(self, loaded: bytes | str, model: ModelFiles, options: Options) -> Session:
        ort = self.load_library()
        settings = ort.SessionOptions()
        settings.intra_op_num_threads = options.threads or 0
        settings.inter_op_num_threads = 1
        # A file can be ONNX and ONNX Runtime's own format at once, and every check of ours reads ONNX.
        settings.add_session_config_entry("session.load_model_format", "ONNX")
        session = ort.InferenceSession(loaded, settings, providers=["CPUExecutionProvider"])
        return OnnxSession(session, model.path(), options.threads)


class OnnxSession(Session):
    def __init__(self, session: Any, path: Path, threads: int | None) -> None:
        self._session = session
        self._path = path
        self._threads = threads
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
        # The CPU provider computes in the graph's own types, except float16, for which it has hardly any kernels:
        # it casts to float32 around them.
        precision = self._graph.precision()
        return Effective(
            provider=self._session.get_providers()[0],
            precision="float32" if precision == "float16" else precision,
            threads=self._threads,
            details={"weights": precision},
        )

    def count_parameters(self) -> int:
        return self._graph.parameters()

    @cached_property
    def _graph(self) -> OnnxGraph:
        return read_graph(self._path)

    def close(self) -> None:
        self._session = None


def _spec(node: Any) -> TensorSpec:
    shape = tuple(extent if isinstance(extent, int) else None for extent in node.shape)
    kind = node.type.removeprefix("tensor(").removesuffix(")")
    return TensorSpec(node.name, shape, _DTYPES.get(kind, kind))
