"""ONNX, OpenVINO IR, TFLite and TensorFlow models in OpenVINO (CPU plug-in, and its GPU plug-in, which is untested)."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, ClassVar, Final

import numpy as np

from zoolens.base.errors import ModelError, first_line
from zoolens.inventory.runtimes.abilities import NO_SEQUENCES
from zoolens.inventory.runtimes.devices import device_index
from zoolens.inventory.runtimes.litert import tflite_file
from zoolens.inventory.runtimes.model_files.model_reading import model_text
from zoolens.inventory.runtimes.observing import Captured, CapturePoint, Profile, check_points
from zoolens.inventory.runtimes.onnx import onnx_file
from zoolens.inventory.runtimes.onnx.decoder_form import refuse_caches
from zoolens.inventory.runtimes.openvino.openvino_layers import (
    PRECISIONS,
    Counters,
    ExecutedLayer,
    PortKey,
    calls_per_compilation,
    capture_points,
    executed_layers,
    file_names,
    find_port,
    kept_operators,
    operators,
    with_all_nodes,
)
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
from zoolens.inventory.runtimes.tensorflow import tensorflow_file
from zoolens.inventory.runtimes.timing.calls import ObservedCall, observed_calls

_HEAVY_LAYERS: Final = {"Convolution", "FullyConnected", "MatMul", "Deconvolution", "RNNCell", "RNNSeq", "MHA", "Gemm"}
_WEIGHT_TYPES: Final = {"f32", "f16", "bf16", "f64", "i8", "u8", "i4", "u4"}
# Input positions that hold no weights: quantisation ranges and batch normalisation's running statistics.
_NOT_WEIGHTS: Final = {"FakeQuantize": range(1, 5), "BatchNormInference": range(3, 5), "Interpolate": range(1, 4)}
_KEPT_BATCHES: Final = 3


class OpenVino(Runtime):
    name = "openvino"
    summary = "OpenVINO, CPU plug-in (GPU plug-in: untested)"
    formats = ("openvino-ir", "onnx", "tflite", "tf-savedmodel", "tf-frozen")
    requirements = ("openvino",)
    distributions = ("openvino",)
    extra = "openvino"
    devices = ("cpu", "gpu")  # the GPU plug-in was never tried: none of our machines has an Intel GPU
    protocol = 2  # 2: with input tensors of our own, see `_Request`
    cannot: ClassVar[Mapping[str, str]] = {
        "compile_mode": "a model is always compiled for the processor",
        "extend": NO_SEQUENCES,
    }

    def load_library(self) -> Any:
        # Its converters send telemetry, and print a traceback where a sandbox does not let them. Without the module
        # they use a stub of their own.
        sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
        import openvino

        return openvino

    def load(self, model: ModelFiles, options: Options) -> Any:
        core = self.load_library().Core()
        if model.format == "openvino-ir":
            weights = model.path("weights")
            _check_ir_weights(weights.stat().st_size, model_text(model.path()))
            return core.read_model(model.path(), weights)
        if model.format == "onnx":
            onnx_file.check_external(model)
            refuse_caches(onnx_file.read_graph(model.path()).inputs, model.path().name, self.name)
        elif model.format == "tflite":
            # OpenVINO goes by a file's content, and we by its format.
            tflite_file.read_graph(model.path())
        else:
            tensorflow_file.check_operators(model)
        return core.read_model(model.path())

    def reason(self, error: BaseException) -> str:
        return _reason(error)

    def compile(self, loaded: Any, model: ModelFiles, options: Options) -> Session:
        return OpenVinoSession(self.load_library(), loaded, model, options)


class OpenVinoSession(Session):
    """Compiled for the batch the file declares, and again for each other batch size that is asked for."""

    def __init__(self, openvino: Any, graph: Any, model: ModelFiles, options: Options) -> None:
        self._openvino, self._core = openvino, openvino.Core()
        self._graph, self._model = graph, model
        self._tapped: tuple[tuple[tuple[str, ...], int | None], _Request] | None = None  # the last one that was read
        self._config: dict[str, Any] = {}
        self._device = _plugin(self._core, options.device)
        if options.threads is not None and self._device == "CPU":
            self._config["INFERENCE_NUM_THREADS"] = options.threads
        if options.precision == "float32":
            self._config["INFERENCE_PRECISION_HINT"] = "f32"
        self.inputs, self.outputs = _specs(graph, model)
        self._compiled = self._core.compile_model(graph, self._device, self._config)
        self._request: Any = _Request(openvino, self._compiled)
        self._for_batch: dict[int, _Request] = {}

    def predict(self, feeds: Mapping[str, Tensor]) -> Tensors:
        # OpenVINO itself converts types silently.
        check_feeds(self.inputs, feeds, any_batch=True)
        batch = self._other_batch(feeds)
        try:
            request = self._request if batch is None else self._resized(batch)
            answers = request.infer([feeds[spec.name] for spec in self.inputs])
        except Exception as error:
            raise ModelError(f"openvino failed while running the model: {_reason(error)}") from error
        named = {spec.name: answers[i] for i, spec in enumerate(self.outputs)}
        if batch is not None:
            check_batch(self.outputs, named, int(self.inputs[0].shape[0] or 0), batch)
        return named

    def _other_batch(self, feeds: Mapping[str, Tensor]) -> int | None:
        """The batch size that was given, where the file declares another one."""
        first = self.inputs[0]
        declared = first.shape[:1]
        batch = feeds[first.name].shape[:1]
        if not declared or declared[0] is None or declared == batch:
            return None
        return int(batch[0])

    def _resized(self, batch: int) -> _Request:
        if batch not in self._for_batch:
            if len(self._for_batch) >= _KEPT_BATCHES:
                del self._for_batch[next(iter(self._for_batch))]
            compiled = self._core.compile_model(self._copy(batch), self._device, self._config)
            self._for_batch[batch] = _Request(self._openvino, compiled)
        return self._for_batch[batch]

    def _copy(self, batch: int | None) -> Any:
        """A copy of the model, for this batch size or for what the file declares."""
        graph = self._graph.clone()
        if batch is not None:
            shapes = [[batch, *spec.shape[1:]] for spec in self.inputs]
            graph.reshape({i: [-1 if e is None else e for e in shape] for i, shape in enumerate(shapes)})
        return graph

    def profile(self, feeds: Mapping[str, Tensor], repeats: int = 1, *, kernels: bool = False) -> list[Profile]:
        """Profiles operators; kernels are reported with them even if not requested."""
        self.predict(feeds)
        calls: list[_ProfiledCall] = []
        # The layers of all compilations together: one that takes about a microsecond is seen in some of them only.
        ran: set[int] = set()
        try:
            while len(calls) < repeats:
                calls += self._profiled_calls(feeds, repeats - len(calls), ran)
        except Exception as error:
            raise ModelError(f"openvino failed while profiling the model: {_reason(error)}") from error
        return [self._profile(call, ran) for call in calls]

    def _profiled_calls(self, feeds: Mapping[str, Tensor], most: int, ran: set[int]) -> list[_ProfiledCall]:
        """Observe as many calls as one compilation can separate (see `openvino_layers`); adds to `ran` what ran."""
        graph = self._copy(self._other_batch(feeds))
        compiled = self._core.compile_model(graph, self._device, {**self._config, "PERF_COUNT": True})
        layers = {layer.name: layer for layer in executed_layers(compiled)}
        request, values = _Request(self._openvino, compiled), [feeds[spec.name] for spec in self.inputs]
        counters = Counters(request.request)
        request.infer(values)
        counters.durations()
        calls: list[_ProfiledCall] = []
        while len(calls) < most:
            (call,) = observed_calls(lambda: request.infer(values), 1)
            durations = counters.durations()
            # Milliseconds, by the clock of OpenVINO's own run.
            run = round(request.request.latency * 1e6)
            calls.append(_ProfiledCall(call, durations, layers, min(run, call.duration)))
            most = min(most, calls_per_compilation(calls[0].observed.duration, len(counters.ran)))
        ran |= counters.ran
        return calls

    def _profile(self, call: _ProfiledCall, ran: Set[int]) -> Profile:
        """Returns a profile of the layers at the places in `ran`."""
        durations = [duration for place, duration in enumerate(call.durations) if place in ran]
        timed = operators(durations, call.layers, self._file_names)
        if self._model.format == "onnx":
            timed = with_all_nodes(timed, self._onnx_graph)
        observed = call.observed
        return Profile(observed.start, observed.duration, timed, observed.delay, call.run)

    @cached_property
    def _onnx_graph(self) -> onnx_file.OnnxGraph:
        return onnx_file.read_graph(self._model.path())

    @cached_property
    def _file_names(self) -> dict[str, tuple[str, ...]]:
        return file_names(self._graph, self._model)

    def capture_points(self) -> tuple[CapturePoint, ...]:
        return tuple(point for point, _ in self._points.values())

    @cached_property
    def _points(self) -> dict[str, tuple[CapturePoint, PortKey]]:
        # In bfloat16 or float16 an activation that is read is computed in float32, which moves the answer.
        exact = self.effective().precision == "float32"
        kept = kept_operators(self._graph, list(executed_layers(self._compiled))) if exact else set()
        return capture_points(self._graph, self._model, kept)

    def capture(self, feeds: Mapping[str, Tensor], names: Sequence[str]) -> Captured:
        check_points(tuple(names), self.capture_points())
        check_feeds(self.inputs, feeds, any_batch=True)
        key = tuple(sorted(set(names))), self._other_batch(feeds)
        try:
            if self._tapped is None or self._tapped[0] != key:
                # Before the next one is made: two would take twice the memory.
                self._tapped = None
                self._tapped = key, self._opened_with_outputs(*key)
            answers = self._tapped[1].infer([feeds[spec.name] for spec in self.inputs])
        except Exception as error:
            raise ModelError(f"openvino failed while running the model: {_reason(error)}") from error
        outputs = {spec.name: answers[i] for i, spec in enumerate(self.outputs)}
        values = dict(zip(key[0], answers[len(self.outputs) :], strict=True))
        return Captured({name: values[name] for name in names}, outputs)

    def _opened_with_outputs(self, names: tuple[str, ...], batch: int | None) -> _Request:
        """The model with inner tensors as outputs, in the order of their names."""
        graph = self._copy(batch)
        ports = [find_port(graph, self._points[name][1]) for name in names]
        graph.add_results([self._openvino.op.Result(port) for port in ports])
        compiled = self._core.compile_model(graph, self._device, self._config)
        return _Request(self._openvino, compiled)

    def effective(self) -> Effective:
        layers = list(executed_layers(self._compiled))
        heavy = [layer for layer in layers if layer.kind in _HEAVY_LAYERS] or layers
        precisions = sorted({PRECISIONS.get(layer.precision, layer.precision) for layer in heavy})
        kernels = Counter(layer.kernel for layer in heavy if layer.kernel)
        return Effective(
            provider=", ".join(self._compiled.get_property("EXECUTION_DEVICES")),
            precision="+".join(precisions) or None,
            threads=int(self._compiled.get_property("INFERENCE_NUM_THREADS")) if self._device == "CPU" else None,
            details={"kernels": ", ".join(f"{count} {kernel}" for kernel, count in kernels.most_common(6))},
        )

    def count_parameters(self) -> int:
        return sum(prod(op.shape) for op in self._graph.get_ops() if _is_weight(op))

    def close(self) -> None:
        self._request = self._compiled = self._graph = self._tapped = None
        self._for_batch.clear()


def _plugin(core: Any, device: str) -> str:
    """What OpenVINO calls a device: "CPU", or "GPU.1" for gpu:1."""
    if device == "cpu":
        return "CPU"
    gpus = [name for name in core.available_devices if name.partition(".")[0] == "GPU"]
    if device_index(device) >= len(gpus):
        raise ModelError(
            f"openvino cannot run on {device} here: it sees {', '.join(core.available_devices)}.",
            hint="Run with --device cpu, or install the driver of an Intel GPU.",
        )
    # OpenVINO takes the number of a single GPU as well.
    return f"GPU.{device_index(device)}"


@dataclass(frozen=True)
class _ProfiledCall:
    """One call of a model that was compiled with counters."""

    observed: ObservedCall
    durations: Sequence[tuple[Any, int]]  # of every layer, with nanoseconds
    layers: Mapping[str, ExecutedLayer]  # of this compilation, by name
    run: int  # nanoseconds by OpenVINO's own clock


class _Request:
    """An infer request whose input tensors are ours.

    `InferRequest.infer(inputs)` copies into tensors of the request's own. Looking these up, iterating over their
    shapes and running with them throws and catches C++ exceptions inside OpenVINO 2026.4 at every call. Each exception
    searches all libraries that the process has loaded, so that a small model took 310 µs alone in a process and 560 µs
    after `import onnxruntime`. With tensors and shapes that we keep nothing is thrown, and it takes as long in both.
    """

    def __init__(self, openvino: Any, compiled: Any) -> None:
        self._openvino = openvino
        self.request = compiled.create_infer_request()
        self._types = [port.get_element_type() for port in compiled.inputs]
        self._outputs = len(compiled.outputs)
        texts = (*self._types, *(port.get_element_type() for port in compiled.outputs))
        self._has_texts = openvino.Type.string in texts
        self._tensors: list[Any] = []
        self._shapes: list[tuple[int, ...]] = []

    def infer(self, values: list[Tensor]) -> list[Tensor]:
        """Answers to these inputs, as copies, in the order of the model's outputs."""
        if self._has_texts:
            answers = self.request.infer(values, share_outputs=False)
            return [np.asarray(answers[i]) for i in range(self._outputs)]
        if (shapes := [value.shape for value in values]) != self._shapes:
            self._take_tensors(shapes)
        for tensor, value in zip(self._tensors, values, strict=True):
            tensor.data[...] = value
        # Without arguments: handing over arrays throws C++ exceptions inside OpenVINO (see the class).
        self.request.infer(share_outputs=True)
        return [self.request.get_output_tensor(i).data.copy() for i in range(self._outputs)]

    def _take_tensors(self, shapes: list[tuple[int, ...]]) -> None:
        make, extents = self._openvino.Tensor, self._openvino.Shape
        self._tensors = [make(kind, extents(list(shape))) for kind, shape in zip(self._types, shapes, strict=True)]
        for i, tensor in enumerate(self._tensors):
            self.request.set_input_tensor(i, tensor)
        self._shapes = shapes


def _specs(graph: Any, model: ModelFiles) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    inputs = tuple(_spec(port, f"input{i}") for i, port in enumerate(graph.inputs))
    outputs = tuple(_spec(port, f"output{i}") for i, port in enumerate(graph.outputs))
    if model.format != "tflite":
        return inputs, outputs
    file = tflite_file.read_graph(model.path())
    return _with_scales(inputs, file, file.inputs), _with_scales(outputs, file, file.outputs)


def _spec(port: Any, fallback: str) -> TensorSpec:
    shape = port.get_partial_shape()
    if shape.rank.is_dynamic:
        raise ModelError("OpenVINO cannot determine the shape of an input or output of this model.")
    extents = tuple(None if extent.is_dynamic else extent.get_length() for extent in shape)
    name = min(port.get_names(), default="") or fallback
    return TensorSpec(name, extents, str(port.get_element_type().to_dtype()))


def _with_scales(
    specs: tuple[TensorSpec, ...], file: tflite_file.TfliteGraph, indices: tuple[int, ...]
) -> tuple[TensorSpec, ...]:
    """OpenVINO keeps a TFLite file's integer inputs and outputs but forgets their scales."""
    by_name = {file.tensors[index].name: file.tensors[index] for index in indices}
    result = []
    for position, spec in enumerate(specs):
        tensor = by_name.get(spec.name) or file.tensors[indices[position]]
        scaled = tensor.scale is not None and spec.dtype == tensor.dtype and spec.dtype != "float32"
        result.append(
            TensorSpec(spec.name, spec.shape, spec.dtype, tensor.scale, tensor.zero_point) if scaled else spec
        )
    return tuple(result)


def _is_weight(op: Any) -> bool:
    if op.get_type_name() != "Constant" or not op.shape or op.get_element_type().get_type_name() not in _WEIGHT_TYPES:
        return False
    return all(
        target.get_index() not in _NOT_WEIGHTS.get(target.get_node().get_type_name(), ())
        for target in op.output(0).get_target_inputs()
    )


def _check_ir_weights(available: int, graph: str) -> None:
    """Every constant in the graph lies inside the weights file (the plug-in reads them through a memory map)."""
    for offset, size in re.findall(r'offset="(\d+)"[^>]*?size="(\d+)"', graph):
        if int(offset) + int(size) > available:
            raise ModelError(
                f"The weights file has {available} bytes but the graph reads up to byte {int(offset) + int(size)}.",
                hint="Fetch it again: it is not complete.",
            )


def _reason(error: BaseException) -> str:
    """OpenVINO's first line says where in its sources; the cause is in a later one."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if not line.startswith(("Exception from", "Check ", "[", "FrontEnd API"))]
    return telling[-1][:300] if telling else first_line(error)
