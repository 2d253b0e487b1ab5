"""Caffe and ONNX models in OpenCV's dnn module (CPU)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, Final

import numpy as np

from zoolens.base.errors import ModelError, first_line
from zoolens.inventory.runtimes.abilities import NO_SEQUENCES
from zoolens.inventory.runtimes.model_files.model_reading import model_bytes, model_text
from zoolens.inventory.runtimes.observing import Captured, CapturePoint, Profile, check_points
from zoolens.inventory.runtimes.onnx import onnx_file
from zoolens.inventory.runtimes.onnx.decoder_form import refuse_caches
from zoolens.inventory.runtimes.opencv.opencv_layers import LayerNames, as_stored, fused_layers, layer_operators
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
from zoolens.inventory.runtimes.timing.process_wide import lent_threads

_ELEMENTS_LIMIT: Final = 1 << 28


@dataclass(frozen=True)
class Loaded:
    net: Any
    inputs: tuple[TensorSpec, ...]
    parameters: int
    names: LayerNames


class OpenCv(Runtime):
    name = "opencv"
    summary = "OpenCV's dnn module, CPU"
    formats = ("caffe", "onnx")
    requirements = ("opencv-python-headless<5",)
    distributions = ("opencv-python-headless",)
    extra = "opencv"
    cannot: ClassVar[Mapping[str, str]] = {
        "compile_mode": "a network is prepared when it first sees an input",
        "kernels": "OpenCV times its layers, and not the routines that they call",
        "extend": NO_SEQUENCES,
    }
    fragile = "some ONNX graphs end the process (SIGFPE) when the batch size changes"

    def load_library(self) -> Any:
        import cv2

        # What it would print is raised as well.
        cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)
        return cv2

    def load(self, model: ModelFiles, options: Options) -> Loaded:
        dnn = self.load_library().dnn
        if model.format == "onnx":
            graph = onnx_file.read_graph(model.path())
            if graph.external_files():
                raise ModelError("OpenCV reads ONNX files that hold their own weights only.")
            # OpenCV 4 crashes on a graph whose tensors nobody makes.
            graph.check()
            refuse_caches(graph.inputs, model.path().name, self.name)
            net = dnn.readNetFromONNX(_bytes(model, "model"))
            return Loaded(net, tuple(graph.inputs), graph.parameters(), LayerNames.of_onnx(graph))
        text = model_text(model.path())
        inputs = _caffe_inputs(text)
        net = dnn.readNetFromCaffe(_bytes(model, "model"), _bytes(model, "weights"))
        return Loaded(net, inputs, _blob_elements(net), LayerNames.of_caffe(text))

    def compile(self, loaded: Loaded, model: ModelFiles, options: Options) -> Session:
        cv2 = self.load_library()
        _choose_backend(cv2, loaded.net)

        def again() -> Any:
            net = self.load(model, options).net
            _choose_backend(cv2, net)
            return net

        return OpenCvSession(cv2, loaded, options.threads, again)


def _choose_backend(cv2: Any, net: Any) -> None:
    net.setPreferableBackend(cv2.dnn.DNN_BACKEND_OPENCV)
    net.setPreferableTarget(cv2.dnn.DNN_TARGET_CPU)


class OpenCvSession(Session):
    """OpenCV allocates for the first input it sees: an empty one is run when the session is made.

    `again` reads the network a second time: one whose inner layers are read fuses other layers than one that predicts.
    """

    def __init__(self, cv2: Any, loaded: Loaded, threads: int | None, again: Callable[[], Any]) -> None:
        self._cv2, self._net, self._threads = cv2, loaded.net, threads
        self._parameters, self._names, self._again = loaded.parameters, loaded.names, again
        self._observed: Any = None
        self._output_names = list(loaded.net.getUnconnectedOutLayersNames())
        self.inputs = loaded.inputs
        self.outputs = ()
        # Only the first row of an int8 batch is computed right (4.14): such nets see one input at a time.
        self._one_by_one = any(kind.endswith(("Int8", "Quantize")) for kind in self._layer_kinds())
        blanks = {spec.name: np.zeros(_example_shape(spec), spec.dtype) for spec in self.inputs}
        free = self.inputs[0].shape[0] is None
        self.outputs = tuple(
            TensorSpec(name, (None, *array.shape[1:]) if free else array.shape, str(array.dtype))
            for name, array in self.predict(blanks).items()
        )
        self._fused = fused_layers(self._net, self._names)

    def predict(self, feeds: Mapping[str, Tensor]) -> Tensors:
        return self._run(self._net, feeds, self._output_names)

    def _run(
        self, net: Any, feeds: Mapping[str, Tensor], names: Sequence[str], after: Callable[[], object] | None = None
    ) -> Tensors:
        """The values of these layers; `after` is called after each time that the network was run."""
        # OpenCV converts some types silently and crashes on others.
        check_feeds(self.inputs, feeds, any_batch=True)
        rows = len(feeds[self.inputs[0].name])
        if self._one_by_one and rows > 1:
            singles = [
                self._run(net, {name: array[i : i + 1] for name, array in feeds.items()}, names, after)
                for i in range(rows)
            ]
            return {name: np.concatenate([answer[name] for answer in singles]) for name in names}
        try:
            with lent_threads(self._threads, self._cv2.getNumThreads, self._cv2.setNumThreads):
                for spec in self.inputs:
                    net.setInput(feeds[spec.name], spec.name)
                answers = net.forward(names)
        except Exception as error:
            raise ModelError(f"opencv failed while running the model: {first_line(error)}") from error
        if after is not None:
            after()
        # Copies: the arrays OpenCV returns may be its own buffers, which the next call overwrites.
        named = {name: np.array(answer) for name, answer in zip(names, answers, strict=True)}
        check_batch(self.outputs, named, self.inputs[0].shape[0] or 1, feeds[self.inputs[0].name].shape[0])
        return named

    def profile(self, feeds: Mapping[str, Tensor], repeats: int = 1, *, kernels: bool = False) -> list[Profile]:
        """OpenCV always times its layers, so that the network that predicts is the one that is profiled."""
        self.predict(feeds)
        nanoseconds = 1e9 / self._cv2.getTickFrequency()
        by_rows = self._one_by_one and len(feeds[self.inputs[0].name]) > 1
        # Times of layers; what is run row by row has several.
        runs: list[Tensor] = []
        keep = partial(_keep_times, self._net, runs)
        predict = partial(self._run, self._net, feeds, self._output_names, keep if by_rows else None)
        profiles = []
        for _ in range(repeats):
            runs.clear()
            (call,) = observed_calls(predict, 1)
            if not by_rows:  # reading the times takes time itself
                keep()
            ran = [
                operator
                for times in runs
                for operator in layer_operators(self._net, times * nanoseconds, self._fused, self._names)
            ]
            profiles.append(Profile(call.start, call.duration, tuple(ran), call.delay))
        return profiles

    def capture_points(self) -> tuple[CapturePoint, ...]:
        return self._points

    @cached_property
    def _points(self) -> tuple[CapturePoint, ...]:
        alone = {name for name, followers in self._fused.items() if not followers}
        computed = [name for name in self._net.getLayerNames() if self._kind(name) != "Const"]
        layers = dict.fromkeys([*computed, *self._output_names])
        return tuple(self._names.point(name, kept=name in alone) for name in layers)

    def _kind(self, layer: str) -> str:
        return str(self._net.getLayer(int(self._net.getLayerId(layer))).type)

    def capture(self, feeds: Mapping[str, Tensor], names: Sequence[str]) -> Captured:
        check_points(tuple(names), self._points)
        if self._observed is None:
            self._observed = self._again()
        wanted = list(dict.fromkeys([*self._output_names, *names]))
        values = self._run(self._observed, feeds, wanted)
        dtypes = {point.name: point.dtype for point in self._points}
        tensors = {name: as_stored(values[name], dtypes[name]) for name in names}
        return Captured(tensors, {name: values[name] for name in self._output_names})

    def effective(self) -> Effective:
        return Effective(
            provider="OpenCV CPU",
            precision="int8" if any(kind.endswith("Int8") for kind in self._layer_kinds()) else "float32",
            threads=self._threads or int(self._cv2.getNumThreads()),
        )

    def _layer_kinds(self) -> list[str]:
        return [self._kind(name) for name in self._net.getLayerNames()]

    def count_parameters(self) -> int:
        return self._parameters

    def close(self) -> None:
        self._net = self._observed = None


def _keep_times(net: Any, runs: list[Tensor]) -> None:
    runs.append(net.getPerfProfile()[1])


def _bytes(model: ModelFiles, role: str) -> Tensor:
    content = model_bytes(model.path(role))
    if not content:
        raise ModelError(f"{model.path(role).name} is empty.", hint="Fetch it again.")
    return np.frombuffer(content, np.uint8)


def _example_shape(spec: TensorSpec) -> tuple[int, ...]:
    if not spec.shape or any(extent is None for extent in spec.shape[1:]):
        raise ModelError(f"OpenCV needs to know every dimension of input {spec.name!r} but the batch.")
    shape = tuple(extent or 1 for extent in spec.shape)
    if np.prod(shape, dtype=float) > _ELEMENTS_LIMIT:
        raise ModelError(f"Input {spec.name!r} of shape {shape} is larger than any real model takes.")
    return shape


def _caffe_inputs(graph: str) -> tuple[TensorSpec, ...]:
    """Names and shapes from the text graph: `input:` with `input_shape` or `input_dim`, or layers of type Input.

    The batch a Caffe file states is a habit, not a limit: it is given as free.
    """
    text = re.sub(r"#[^\n]*", "", graph)
    first_layer = re.search(r"\blayers?\s*\{", text)
    head = text[: first_layer.start()] if first_layer else text
    names = re.findall(r'\binput\s*:\s*["\']([^"\']+)', head)
    dims = [int(value) for value in re.findall(r"\b(?:input_)?dim\s*:\s*(\d+)", head)]
    for block in re.split(r"\blayers?\s*\{", text)[1:]:
        if re.search(r'\btype\s*:\s*["\']Input["\']', block):
            names += re.findall(r'\btop\s*:\s*["\']([^"\']+)', block)[:1]
            dims += [int(value) for value in re.findall(r"\bdim\s*:\s*(\d+)", block)]
    if not names or len(dims) != 4 * len(names):
        raise ModelError(
            f"The Caffe graph declares {len(names)} inputs and {len(dims)} dimensions; four belong to each.",
            hint="Is it the deploy version of the graph, with `input` and `input_shape`?",
        )
    return tuple(TensorSpec(name, (None, *dims[4 * i + 1 : 4 * i + 4]), "float32") for i, name in enumerate(names))


def _blob_elements(net: Any) -> int:
    """Weights and biases. Caffe keeps batch normalisation's running statistics as blobs too: left out."""
    count = 0
    for index in range(1, len(net.getLayerNames()) + 1):
        layer = net.getLayer(int(index))
        if layer.type != "BatchNorm":
            count += sum(int(blob.size) for blob in layer.blobs)
    return count
