"""TensorFlow on the CPU: SavedModels, frozen graphs, and Keras files of version 3 (.keras, .h5) and 2 (.h5)."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, ClassVar, Final

import numpy as np

from zoolens.base.errors import MissingDependency, ModelError, ZoolensError, first_line
from zoolens.base.plugins import installed_version
from zoolens.inventory.runtimes.abilities import NO_SEQUENCES
from zoolens.inventory.runtimes.model_files.constructor_arguments import plain_arguments
from zoolens.inventory.runtimes.model_files.model_reading import model_bytes
from zoolens.inventory.runtimes.observing import Captured, CapturePoint, Profile, check_points
from zoolens.inventory.runtimes.runtime import (
    Effective,
    ModelFiles,
    Options,
    Runtime,
    Session,
    Tensor,
    Tensors,
    TensorSpec,
    check_feeds,
)
from zoolens.inventory.runtimes.tensorflow.keras_file import check_h5_name, check_keras, check_keras_h5
from zoolens.inventory.runtimes.tensorflow.keras_sizes import check_sizes
from zoolens.inventory.runtimes.tensorflow.tensorflow_capture import InlinedGraph, ordered, recorded_profiles
from zoolens.inventory.runtimes.tensorflow.tensorflow_graph import check_graph, check_saved_model
from zoolens.inventory.runtimes.timing.process_wide import quiet_stderr

_HEAVY: Final = {"Conv2D", "DepthwiseConv2dNative", "Conv3D", "MatMul", "BatchMatMulV2", "_FusedConv2D", "Einsum"}
_STATISTICS: Final = ("moving_mean", "moving_variance")
_NO_ANSWER: Final = {"NoOp", "Assert", "Const", "Placeholder"}
_WEIGHT_TYPES: Final = {"float32", "float64", "float16", "bfloat16", "int8", "uint8"}


@dataclass(frozen=True)
class Loaded:
    """A concrete function and how its tensors are called. `owner` keeps alive what the function only borrows."""

    function: Any
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    call: Callable[[Mapping[str, Any]], Any]  # tensors by input name -> tensors in the order of `outputs`
    owner: Any
    variables: tuple[Any, ...] = ()
    layers: tuple[str, ...] = ()  # names of Keras layers


class TensorFlow(Runtime):
    name = "tensorflow"
    summary = "TensorFlow and Keras, CPU"
    formats = ("tf-savedmodel", "tf-frozen", "keras", "keras-h5")
    requirements = ("tensorflow", "tf_keras")
    distributions = ("tensorflow", "keras", "tf_keras")
    extra = "tensorflow"
    cannot: ClassVar[Mapping[str, str]] = {
        "dynamic_batch": "a graph made for one batch size runs with that one only",
        "set_threads": "TensorFlow fixes its thread pools once per process, at its first operation",
        "compile_mode": "graphs are optimised when they are made; XLA would be another compiler",
        "kernels": "TensorFlow's profiler times operators on a CPU, and not the routines that they call; the log of "
        "its oneDNN can only be switched on before the process starts, for every call",
        "extend": NO_SEQUENCES,
    }

    def version(self) -> str | None:
        return super().version() or installed_version("tensorflow-cpu")  # the same library under another name

    def load_library(self) -> Any:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        os.environ.setdefault("KERAS_BACKEND", "tensorflow")
        if "tensorflow" in sys.modules:
            return sys.modules["tensorflow"]
        # TensorFlow prints a greeting before its log level applies.
        with quiet_stderr():
            import tensorflow
        return tensorflow

    def load(self, model: ModelFiles, options: Options) -> Loaded:
        library = self.load_library()
        check_sizes(model)
        return _LOADERS[model.format](library, model)

    def compile(self, loaded: Loaded, model: ModelFiles, options: Options) -> Session:
        return TensorFlowSession(self.load_library(), loaded)


class TensorFlowSession(Session):
    def __init__(self, tf: Any, loaded: Loaded) -> None:
        self._tf, self._loaded = tf, loaded
        self.inputs, self.outputs = loaded.inputs, loaded.outputs
        # Grappler optimises at the first call: make it now, so that it is timed as what it is.
        zeros = {spec.name: np.zeros([extent or 1 for extent in spec.shape], spec.dtype) for spec in self.inputs}
        self.predict(zeros)

    def predict(self, feeds: Mapping[str, Tensor]) -> Tensors:
        check_feeds(self.inputs, feeds)
        try:
            # constant() copies where convert_to_tensor may borrow the caller's memory.
            tensors = {spec.name: self._tf.constant(feeds[spec.name]) for spec in self.inputs}
            answers = self._loaded.call(tensors)
            return {spec.name: np.array(answer) for spec, answer in zip(self.outputs, answers, strict=True)}
        except Exception as error:
            raise ModelError(f"tensorflow failed while running the model: {first_line(error)}") from error

    def effective(self) -> Effective:
        kinds = {node.attr["T"].type for node in self._nodes() if node.op in _HEAVY}
        names = sorted(self._tf.dtypes.as_dtype(kind).name for kind in kinds if kind)
        return Effective(provider="TensorFlow CPU", precision="+".join(names) or "float32")

    def count_parameters(self) -> int:
        if self._loaded.variables:
            kept = (v for v in self._loaded.variables if not _plain(v.name).endswith(_STATISTICS))
            return sum(prod(v.shape) for v in kept if self._tf.dtypes.as_dtype(v.dtype).name in _WEIGHT_TYPES)
        constants = (node.attr["value"].tensor for node in self._nodes() if node.op == "Const")
        return sum(
            prod(extent.size for extent in constant.tensor_shape.dim)
            for constant in constants
            if constant.tensor_shape.dim and self._tf.dtypes.as_dtype(constant.dtype).name in _WEIGHT_TYPES
        )

    def profile(self, feeds: Mapping[str, Tensor], repeats: int = 1, *, kernels: bool = False) -> list[Profile]:
        check_feeds(self.inputs, feeds)
        try:
            return recorded_profiles(self._tf, lambda: self.predict(feeds), repeats, self._inlined)
        except ZoolensError:
            raise
        except Exception as error:
            raise ModelError(f"tensorflow failed while it profiled the model: {first_line(error)}") from error

    @cached_property
    def _inlined(self) -> InlinedGraph:
        try:
            return InlinedGraph(self._tf, self._loaded.function, self._loaded.layers)
        except Exception as error:
            raise ModelError(f"tensorflow cannot inline the model's functions: {first_line(error)}") from error

    def capture_points(self) -> tuple[CapturePoint, ...]:
        return self._points

    @cached_property
    def _points(self) -> tuple[CapturePoint, ...]:
        blanks = {spec.name: np.zeros([e or 1 for e in spec.shape], spec.dtype) for spec in self.inputs}
        (profile,) = self.profile(blanks)
        return self._inlined.points(frozenset(operator.name for operator in profile.operators))

    def capture(self, feeds: Mapping[str, Tensor], names: Sequence[str]) -> Captured:
        check_feeds(self.inputs, feeds)
        check_points(tuple(names), self._points)
        try:
            arrays = ordered(feeds, [spec.name for spec in self.inputs], self._inlined.input_names)
            answers, values = self._inlined.run([self._tf.constant(array) for array in arrays], names)
        except Exception as error:
            raise ModelError(f"tensorflow failed while it observed the model: {first_line(error)}") from error
        return Captured(
            dict(zip(names, values, strict=True)),
            {spec.name: answer for spec, answer in zip(self.outputs, answers, strict=True)},
        )

    def _nodes(self) -> Iterator[Any]:
        graph = self._loaded.function.graph.as_graph_def()
        yield from graph.node
        for function in graph.library.function:
            yield from function.node_def

    def close(self) -> None:
        self._loaded = Loaded(None, (), (), lambda _: (), None)


def _spec(name: str, tensor: Any) -> TensorSpec:
    if tensor.shape.rank is None:
        raise ModelError(f"The graph does not declare the shape of {name!r}.")
    return TensorSpec(name, tuple(tensor.shape.as_list()), tensor.dtype.name)


def _load_saved_model(tf: Any, model: ModelFiles) -> Loaded:
    check_saved_model(model.path())
    loaded = tf.saved_model.load(str(model.path()))
    if "serving_default" not in loaded.signatures:
        signatures = ", ".join(loaded.signatures) or "none"
        raise ModelError(f"The SavedModel has no signature serving_default; it has {signatures}.")
    function = loaded.signatures["serving_default"]
    outputs = tuple(_spec(name, function.structured_outputs[name]) for name in sorted(function.structured_outputs))

    def call(tensors: Mapping[str, Any]) -> list[Any]:
        answers = function(**tensors)
        return [answers[spec.name] for spec in outputs]

    return Loaded(
        function=function,
        inputs=tuple(_spec(name, spec) for name, spec in function.structured_input_signature[1].items()),
        outputs=outputs,
        call=call,
        owner=loaded,
        variables=tuple(function.variables),
    )


def _load_frozen(tf: Any, model: ModelFiles) -> Loaded:
    definition = tf.compat.v1.GraphDef()
    definition.ParseFromString(model_bytes(model.path()))
    check_graph(definition, model.path().name)
    inputs = [node.name for node in definition.node if node.op == "Placeholder"]
    consumed = {name.lstrip("^").split(":")[0] for node in definition.node for name in node.input}
    outputs = [node.name for node in definition.node if node.name not in consumed and node.op not in _NO_ANSWER]
    if not inputs or not outputs:
        raise ModelError(f"{model.path().name} is a graph without placeholders or without results.")
    whole = tf.compat.v1.wrap_function(lambda: tf.graph_util.import_graph_def(definition, name=""), [])
    tensors = [[whole.graph.get_tensor_by_name(f"{name}:0") for name in names] for names in (inputs, outputs)]
    function = whole.prune(*tensors)
    specs = [tuple(_spec(tensor.name, tensor) for tensor in group) for group in tensors]
    return Loaded(
        function=function,
        inputs=specs[0],
        outputs=specs[1],
        call=lambda feeds: function(*(feeds[spec.name] for spec in specs[0])),
        owner=None,
    )


def _load_keras(tf: Any, model: ModelFiles) -> Loaded:
    check_keras(model.path())
    return _load_keras_3(tf, model)


def _load_keras_3(tf: Any, model: ModelFiles) -> Loaded:
    """A file that was looked through, opened by Keras 3."""
    import keras

    if keras.config.backend() != "tensorflow":
        raise ModelError(
            f"Keras runs on {keras.config.backend()} in this process, so TensorFlow cannot run its models.",
            hint="Set KERAS_BACKEND=tensorflow.",
        )
    return _from_keras(tf, keras.saving.load_model(str(model.path()), compile=False, safe_mode=True))


def _load_keras_h5(tf: Any, model: ModelFiles) -> Loaded:
    if model.architecture:
        return _load_keras_weights(tf, model)
    if check_keras_h5(model.path()) >= 3:
        return _load_keras_3(tf, model)
    try:
        import tf_keras
    except ImportError as error:
        raise MissingDependency("Reading a Keras-2 .h5 file", "tf_keras", "tensorflow") from error
    return _from_keras(tf, tf_keras.models.load_model(str(model.path()), compile=False))


def _load_keras_weights(tf: Any, model: ModelFiles) -> Loaded:
    """Bare weights of a Keras Applications network: arrays only, joined to a network built here."""
    import keras

    wanted: Mapping[str, Any] = model.architecture or {}
    name = wanted.get("name") or ""
    build = getattr(keras.applications, name, None) if name[:1].isupper() else None
    if wanted.get("library") != "keras" or not callable(build):
        raise ModelError(
            f"TensorFlow cannot build the network {wanted.get('library')}:{name} that these weights belong to.",
            hint="architecture.library is keras, and name a function of keras.applications such as ResNet50.",
        )
    check_h5_name(model.path())
    network = build(weights=None, **plain_arguments(wanted.get("arguments") or {}))
    network.load_weights(str(model.path()))
    return _from_keras(tf, network)


def _from_keras(tf: Any, network: Any) -> Loaded:
    inputs = tuple(
        TensorSpec(_plain(tensor.name), tuple(tensor.shape), tf.dtypes.as_dtype(tensor.dtype).name)
        for tensor in network.inputs
    )
    signature = [tf.TensorSpec(spec.shape, spec.dtype, spec.name) for spec in inputs]

    @tf.function(input_signature=signature)  # type: ignore[untyped-decorator]
    def run(*tensors: Any) -> Any:
        return tf.nest.flatten(network(tensors[0] if len(tensors) == 1 else list(tensors), training=False))

    function = run.get_concrete_function()
    names = [_plain(name) for name in getattr(network, "output_names", None) or []]
    answers = function.structured_outputs
    if len(names) != len(answers):
        names = [f"output{i}" for i in range(len(answers))]
    return Loaded(
        function=function,
        inputs=inputs,
        outputs=tuple(_spec(name, answer) for name, answer in zip(names, answers, strict=True)),
        call=lambda feeds: function(*(feeds[spec.name] for spec in inputs)),
        owner=network,
        variables=tuple(network.variables),
        layers=tuple(layer.name for layer in network.layers),
    )


def _plain(name: str) -> str:
    return name.split(":", maxsplit=1)[0]


_LOADERS: Final[Mapping[str, Callable[[Any, ModelFiles], Loaded]]] = {
    "tf-savedmodel": _load_saved_model,
    "tf-frozen": _load_frozen,
    "keras": _load_keras,
    "keras-h5": _load_keras_h5,
}
