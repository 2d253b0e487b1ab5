"""TFLite models in LiteRT (formerly TensorFlow Lite), CPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

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
    check_batch,
    check_feeds,
    quiet_stderr,
)
from zoolens.runtimes.tflitefile import TfliteGraph, read_graph


class LiteRt(Runtime):
    name = "litert"
    summary = "LiteRT (TensorFlow Lite), CPU with XNNPACK"
    formats = ("tflite",)
    requirements = ("ai-edge-litert",)
    distributions = ("ai-edge-litert",)
    extra = "litert"
    cannot: ClassVar[Mapping[str, str]] = {
        "compile_mode": "the interpreter prepares its kernels whenever it is made",
        "profile": "zoolens does not read its profiler yet",
        "kernels": "zoolens does not read its profiler yet",
        "capture": "zoolens does not read its intermediate tensors yet",
    }

    def load_library(self) -> Any:
        from ai_edge_litert import interpreter

        return interpreter

    def load(self, model: ModelFiles, options: Options) -> TfliteGraph:
        return read_graph(model.path())

    def compile(self, loaded: TfliteGraph, model: ModelFiles, options: Options) -> Session:
        return LiteRtSession(self.load_library(), loaded, str(model.path()), options.threads)


class LiteRtSession(Session):
    def __init__(self, library: Any, graph: TfliteGraph, path: str, threads: int | None) -> None:
        self._library, self._graph, self._path, self._threads = library, graph, path, threads
        self._start()
        self.inputs = tuple(_spec(detail) for detail in self._interpreter.get_input_details())
        self.outputs = tuple(_spec(detail) for detail in self._interpreter.get_output_details())

    def _start(self) -> None:
        with quiet_stderr():  # it announces its delegate
            self._interpreter = self._library.Interpreter(model_path=self._path, num_threads=self._threads)
            self._interpreter.allocate_tensors()
        self._in = [int(detail["index"]) for detail in self._interpreter.get_input_details()]
        self._out = [int(detail["index"]) for detail in self._interpreter.get_output_details()]
        self._shapes = [tuple(map(int, detail["shape"])) for detail in self._interpreter.get_input_details()]

    def predict(self, feeds: Mapping[str, Tensor]) -> Tensors:
        try:
            arrays = [feeds[spec.name] for spec in self.inputs]
            if [array.shape for array in arrays] != self._shapes:
                check_feeds(self.inputs, feeds, any_batch=True)
                return self._predict_resized(arrays)
            return self._run(arrays)
        except ModelError:
            raise
        except Exception as error:
            check_feeds(self.inputs, feeds, any_batch=True)
            raise ModelError(f"litert failed while running the model: {first_line(error)}") from error

    def _run(self, arrays: list[Tensor]) -> Tensors:
        for index, array in zip(self._in, arrays, strict=True):
            self._interpreter.set_tensor(index, array)
        self._interpreter.invoke()
        return {
            spec.name: self._interpreter.get_tensor(index) for spec, index in zip(self.outputs, self._out, strict=True)
        }

    def _predict_resized(self, arrays: list[Tensor]) -> Tensors:
        batch = arrays[0].shape[0]
        try:
            for index, array in zip(self._in, arrays, strict=True):
                self._interpreter.resize_tensor_input(index, array.shape)
            self._interpreter.allocate_tensors()
            self._shapes = [array.shape for array in arrays]
            answers = self._run(arrays)
            check_batch(self.outputs, answers, self.inputs[0].shape[0] or 1, batch)
        except Exception as error:
            self._start()  # after a failed resize nothing about the old interpreter is certain
            if isinstance(error, ModelError):
                raise
            raise ModelError(
                f"The model does not run with a batch of {batch}: {first_line(error)}.",
                hint=f"Run it with a batch of {self.inputs[0].shape[0] or 1}.",
            ) from error
        return answers

    def effective(self) -> Effective:
        operators = [str(op["op_name"]) for op in self._interpreter._get_ops_details()]
        return Effective(
            provider="XNNPACK" if "DELEGATE" in operators else "built-in kernels",
            precision=self._graph.precision(),
            threads=self._threads,
        )

    def count_parameters(self) -> int:
        return self._graph.parameters()

    def close(self) -> None:
        self._interpreter = None


def _spec(detail: Mapping[str, Any]) -> TensorSpec:
    signature = detail["shape_signature"] if len(detail["shape_signature"]) else detail["shape"]
    shape = tuple(None if extent < 0 else int(extent) for extent in signature)
    scales, zeros = detail["quantization_parameters"]["scales"], detail["quantization_parameters"]["zero_points"]
    dtype = np.dtype(detail["dtype"]).name
    if len(scales) != 1:  # per channel never occurs on inputs and outputs
        return TensorSpec(str(detail["name"]), shape, dtype)
    return TensorSpec(str(detail["name"]), shape, dtype, float(scales[0]), int(zeros[0]) if len(zeros) else 0)
