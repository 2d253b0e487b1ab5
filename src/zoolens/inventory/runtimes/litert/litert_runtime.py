"""TFLite models in LiteRT (formerly TensorFlow Lite), CPU."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from zoolens.base.errors import ModelError, first_line
from zoolens.base.plugins import installed_version
from zoolens.inventory.runtimes.abilities import NO_SEQUENCES
from zoolens.inventory.runtimes.litert.litert_partitions import file_operators
from zoolens.inventory.runtimes.litert.litert_profiler import (
    FileInput,
    OperatorEvent,
    ProfiledModel,
    check_outputs,
    check_version,
)
from zoolens.inventory.runtimes.litert.tflite_file import TfliteGraph, read_graph, tensor_labels
from zoolens.inventory.runtimes.observing import Captured, CapturePoint, OperatorTime, Profile, check_points
from zoolens.inventory.runtimes.runtime import (
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
)
from zoolens.inventory.runtimes.timing.calls import observed_calls
from zoolens.inventory.runtimes.timing.process_wide import quiet_stderr

_READABLE = {"float32", "float16", "float64", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64"}
_PRECISIONS = {"F32": "float32", "F16": "float16", "QS8": "int8", "QU8": "int8", "QC8": "int8", "QD8": "int8"}


class LiteRt(Runtime):
    name = "litert"
    summary = "LiteRT (TensorFlow Lite), CPU with XNNPACK"
    formats = ("tflite",)
    requirements = ("ai-edge-litert",)
    distributions = ("ai-edge-litert",)
    extra = "litert"
    cannot: ClassVar[Mapping[str, str]] = {
        "compile_mode": "the interpreter prepares its kernels whenever it is made",
        "extend": NO_SEQUENCES,
    }

    def load_library(self) -> Any:
        from ai_edge_litert import interpreter

        return interpreter

    def load(self, model: ModelFiles, options: Options) -> TfliteGraph:
        return read_graph(model.path())

    def compile(self, loaded: TfliteGraph, model: ModelFiles, options: Options) -> Session:
        return LiteRtSession(self.load_library(), loaded, str(model.path()), options.threads)


class LiteRtSession(Session):
    def __init__(
        self, library: Any, graph: TfliteGraph, path: str, threads: int | None, *, preserves: bool = False
    ) -> None:
        """`preserves`: every tensor keeps its values after a prediction, which takes more memory, and XNNPACK is handed
        smaller sets of operators."""
        self._library, self._graph, self._path, self._threads = library, graph, path, threads
        self._preserves = preserves
        self._observed: LiteRtSession | None = None  # one of the same file that preserves its tensors
        self._start()
        self.inputs = tuple(_spec(detail) for detail in self._interpreter.get_input_details())
        self.outputs = tuple(_spec(detail) for detail in self._interpreter.get_output_details())

    def _start(self) -> None:
        # LiteRT prints its delegate, and warns of tensors that are preserved.
        with quiet_stderr(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._interpreter = self._library.Interpreter(
                model_path=self._path,
                num_threads=self._threads,
                experimental_preserve_all_tensors=self._preserves,
            )
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
            # After a failed resize nothing about the old interpreter is certain.
            self._start()
            if isinstance(error, ModelError):
                raise
            raise ModelError(
                f"The model does not run with a batch of {batch}: {first_line(error)}.",
                hint=f"Run it with a batch of {self.inputs[0].shape[0] or 1}.",
            ) from error
        return answers

    def effective(self) -> Effective:
        return Effective(
            provider="XNNPACK" if self._delegates else "built-in kernels",
            precision=self._graph.precision(),
            threads=self._threads,
        )

    @property
    def _delegates(self) -> bool:
        return any(str(op["op_name"]) == "DELEGATE" for op in self._interpreter._get_ops_details())

    def count_parameters(self) -> int:
        return self._graph.parameters()

    def profile(self, feeds: Mapping[str, Tensor], repeats: int = 1, *, kernels: bool = False) -> list[Profile]:
        """Profiles operators; kernels are reported with them even if not requested."""
        check_version(installed_version("ai-edge-litert"))
        check_outputs(self._graph)
        answers = self.predict(feeds)
        arrays = [feeds[spec.name] for spec in self.inputs]
        library = Path(self._library.__file__).parent / "libLiteRt.so"
        inputs = [FileInput(index, array.shape) for index, array in zip(self._in, arrays, strict=True)]
        model = ProfiledModel(library, Path(self._path), self._threads, inputs, self._out)
        try:
            model.fill(arrays)
            model.run()
            _check_same([answers[spec.name] for spec in self.outputs], model.answers())
            return [self._profiled(model) for _ in range(repeats)]
        finally:
            model.close()

    def _profiled(self, model: ProfiledModel) -> Profile:
        model.start()
        (call,) = observed_calls(model.run, 1)
        events, run = model.stop()
        inside = None if run is None else min(run, call.duration)
        return Profile(call.start, call.duration, self._operators(events), call.delay, inside)

    def _operators(self, events: Sequence[OperatorEvent]) -> tuple[OperatorTime, ...]:
        labels = tensor_labels(self._graph)
        seen: Counter[str] = Counter()
        operators: list[OperatorTime] = []
        # The last operator of the main graph that LiteRT ran itself.
        caller: int | None = None
        for event, place in zip(events, file_operators(self._graph, events), strict=True):
            computed = None if place is None else self._graph.operators[place]
            node = None if computed is None else labels[computed.outputs[0]]
            name = node or event.tag
            seen[name] += 1
            if not event.delegated and not event.inner:
                caller = len(operators)
            operators.append(
                OperatorTime(
                    name if seen[name] == 1 else f"{name} #{seen[name]}",
                    event.tag.partition(" (")[0],
                    event.nanoseconds,
                    parent=caller if event.inner else None,
                    nodes=(node,) if node else (),
                    kernel=f"XNNPACK {event.tag}" if event.delegated else "built-in kernel",
                    precision=_precision(event.tag) if event.delegated else None,
                )
            )
        return tuple(operators)

    def capture_points(self) -> tuple[CapturePoint, ...]:
        return self._points

    @cached_property
    def _points(self) -> tuple[CapturePoint, ...]:
        labels = tensor_labels(self._graph)
        kept = set(self._out) if self._delegates else set(range(len(labels)))
        return tuple(
            self._point(labels[index], labels[operator.outputs[0]], index, kept=index in kept)
            for operator in self._graph.operators
            for index in operator.outputs
        )

    def _point(self, name: str, node: str, index: int, *, kept: bool) -> CapturePoint:
        tensor = self._graph.tensors[index]
        opened = tensor.free or (False,) * len(tensor.shape)
        shape = tuple(None if free else extent for extent, free in zip(tensor.shape, opened, strict=False))
        if shape and shape[:1] == self.inputs[0].shape[:1]:
            shape = (None, *shape[1:])  # any batch can be run
        return CapturePoint(name, node, tensor.name, kept, shape, tensor.dtype if tensor.dtype in _READABLE else "")

    def capture(self, feeds: Mapping[str, Tensor], names: Sequence[str]) -> Captured:
        check_points(tuple(names), self._points)
        if self._observed is None:
            self._observed = LiteRtSession(self._library, self._graph, self._path, self._threads, preserves=True)
        outputs = self._observed.predict(feeds)
        indices = {label: index for index, label in enumerate(tensor_labels(self._graph))}
        return Captured({name: self._observed.value(name, indices[name]) for name in names}, outputs)

    def value(self, name: str, index: int) -> Tensor:
        """What a tensor holds after a prediction, of a session that preserves them."""
        try:
            return np.array(self._interpreter.get_tensor(index))
        except ValueError as error:
            raise ModelError(f"The values of the tensor {name[:80]!r} cannot be read: {first_line(error)}") from error

    def close(self) -> None:
        self._interpreter = None
        if self._observed is not None:
            self._observed.close()
        self._observed = None


def _check_same(answers: Sequence[Tensor], profiled: Sequence[bytes]) -> None:
    """The profiled copy is made by another part of LiteRT: its times count only if it computes the same."""
    if [answer.tobytes() for answer in answers] != list(profiled):
        raise ModelError("LiteRT's profiler ran this model with other answers, so that its times are not this model's.")


def _precision(tag: str) -> str | None:
    """Returns the arithmetic in XNNPACK's name of an operator, such as (NHWC, F32) or (NC, QS8, QC8W)."""
    inside = tag.partition("(")[2].partition(")")[0]
    for kind in inside.split(","):
        for prefix, precision in _PRECISIONS.items():
            if kind.strip().startswith(prefix):
                return precision
    return None


def _spec(detail: Mapping[str, Any]) -> TensorSpec:
    signature = detail["shape_signature"] if len(detail["shape_signature"]) else detail["shape"]
    shape = tuple(None if extent < 0 else int(extent) for extent in signature)
    name, dtype = str(detail["name"]), np.dtype(detail["dtype"]).name
    quantisation = detail["quantization_parameters"]
    scales, zeros = quantisation["scales"], quantisation["zero_points"]
    # Per channel never occurs on inputs and outputs.
    if len(scales) != 1:
        return TensorSpec(name, shape, dtype)
    zero_point = int(zeros[0]) if len(zeros) else 0
    return TensorSpec(name, shape, dtype, float(scales[0]), zero_point)
