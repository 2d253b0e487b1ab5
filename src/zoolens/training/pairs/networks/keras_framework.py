"""A user's Keras model, on the backend that their environment or their code chooses."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, Final
from zipfile import BadZipFile

import numpy as np

from zoolens.base.errors import ModelError, first_line
from zoolens.findings.graph.ir.model import Graph
from zoolens.training.pairs.networks.framework import Array, LiveNetwork, checked_assignment, no_gpu, plain
from zoolens.training.pairs.reading.side_facts import LayerFact, SideFacts


class KerasNetwork(LiveNetwork):
    framework: ClassVar[str] = "keras"

    def __init__(self, model: Any, shapes: Sequence[tuple[int, ...]], kinds: Sequence[str], name: str) -> None:
        import keras

        self._keras, self._name = keras, name
        self._last = keras.config.image_data_format() == "channels_last"
        self.given = model
        self._kinds = kinds
        self.orders = _orders(model, shapes, kinds, self._last)
        self._given = [tuple(shape[axis] for axis in order) for shape, order in zip(shapes, self.orders, strict=True)]
        self._both = _takes_both(model, shapes, kinds) if self._last else []
        self._model = _walkable(keras, model, self._given, kinds)

    def named(self) -> dict[str, Any]:
        """The live variables by name, without the states of random generators."""
        named: dict[str, Any] = {}
        for variable in self._model.variables:
            if "int" not in str(variable.dtype):  # others are the states of random generators
                count = 2
                name = variable.path
                while name in named:
                    name, count = f"{variable.path}#{count}", count + 1
                named[name] = variable
        return named

    def tensors(self) -> dict[str, Array]:
        convert = self._keras.ops.convert_to_numpy
        return {name: np.array(plain(convert(variable.value))) for name, variable in self.named().items()}

    def learned(self) -> list[str]:
        return [name for name, variable in self.named().items() if variable.trainable]

    def assign(self, values: Mapping[str, Array]) -> None:
        named = self.named()
        checked_assignment({name: tuple(variable.shape) for name, variable in named.items()}, values)
        for name, array in values.items():
            named[name].assign(array)
        for layer in self._model._flatten_layers():
            if hasattr(layer, "finalize_state"):  # Normalization computes with copies of its variables
                layer.finalize_state()

    def graph(self) -> Graph:
        from zoolens.findings.graph.importers.keras.keras_library import graph_of_keras_model

        self._recall()
        return graph_of_keras_model(self._model, name=self._name, weights=True, maps=self._maps())

    def _recall(self) -> None:
        """A subclassed model is called once more: what its `call` computes from variables alone, such as a transposed
        embedding, is computed at once, and would stay as it was."""
        if not _has_calls(self._keras, self.given):
            self._model = _walkable(self._keras, self.given, self._given, self._kinds)

    def _maps(self) -> list[bool]:
        """Whether the axes of each input were turned although it is no image."""
        return [len(order) == 2 and order != (0, 1) for order in self.orders]

    def notes(self) -> list[str]:
        return [
            f"{self._name} takes inputs of {'×'.join(map(str, shape))} with its axes in both orders; it was given them "
            f"{'turned, with the channels last' if turned else 'as --input has them'}."
            for shape, turned in self._both
        ]

    def opaque_answers(self, inputs: Sequence[Array]) -> tuple[Graph, dict[str, Array]]:
        from zoolens.findings.graph.importers.keras.keras_library import graph_and_answers

        self._recall()
        turned = self.turned(inputs)
        fed = [self._keras.ops.convert_to_tensor(array) for array in (turned if len(inputs) > 1 else [turned])]
        return graph_and_answers(self._model, fed, self._maps())

    def output_size(self) -> int:
        """The last extent of the first output."""
        return int(self._model.outputs[0].shape[-1])

    def turned(self, inputs: Sequence[Array]) -> Any:
        """Inputs with their channels first, as the model takes them."""
        arrays = [
            np.ascontiguousarray(array.transpose(0, *(axis + 1 for axis in order)))
            for array, order in zip(inputs, self.orders, strict=True)
        ]
        return self._structured(arrays)

    def _structured(self, given: list[Any]) -> Any:
        """Inputs in the form in which the model takes them: one by itself, several as a list or by their names."""
        wanted = getattr(self._model, "_inputs_struct", None)
        if isinstance(wanted, dict):
            return self._keras.tree.pack_sequence_as(wanted, given)
        return given if len(given) > 1 else given[0]

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        model = self._model if _has_calls(self._keras, self.given) else self.given
        answer = model(self.turned(inputs), training=False)
        convert = self._keras.ops.convert_to_numpy
        return [plain(convert(tensor)) for tensor in self._keras.tree.flatten(answer)]

    def generator_states(self) -> bytes:
        """The states of all random generators, those of layers included."""
        seeds = [variable for variable in self._model.variables if "int" in str(variable.dtype)]
        own = b"".join(np.asarray(self._keras.ops.convert_to_numpy(variable.value)).tobytes() for variable in seeds)
        return super().generator_states() + own

    def run_once(self) -> list[tuple[int, ...]]:
        """Run the model as the user made it once on zeros, for the shapes of its answers."""
        fed = [np.zeros((1, *map(int, tensor.shape[1:])), str(tensor.dtype)) for tensor in self._model.inputs]
        try:
            answer = self.given(fed if len(fed) > 1 else fed[0], training=False)
        except Exception as error:
            raise ModelError(f"{self._name} does not run: {first_line(error)}") from error
        return [tuple(tensor.shape) for tensor in self._keras.tree.flatten(answer)]

    def facts(self) -> SideFacts:
        from zoolens.training.pairs.reading.keras_reading import drawn_tensors, norm_facts

        backend = self._keras.config.backend()
        return SideFacts(
            versions={"keras": str(self._keras.__version__), backend: version(backend)},
            network=type(self._model).__name__,
            layers=tuple(_dropouts(self._model)),
            drawn=tuple(drawn_tensors(self._keras, self._model)),
            norms=tuple(norm_facts(self._keras, self._model)),
            channels="last" if self._last else "first",
        )

    def move_to_gpu(self) -> None:
        """Keras places variables on a GPU by itself where its backend sees one."""
        backend = self._keras.backend.backend()
        if backend == "torch":
            seen = sys.modules["torch"].cuda.is_available()
        else:
            seen = any(device.startswith(("gpu", "cuda")) for device in self._keras.distribution.list_devices())
        if not seen:
            raise no_gpu(f"Keras on {backend}")

    def dtype(self) -> str:
        kept = Counter(str(variable.dtype) for variable in self.named().values())
        computed = {str(layer.compute_dtype) for layer in self._model._flatten_layers() if layer.weights}
        names = ", ".join(name for name, _ in kept.most_common()) or "float32"
        others = sorted(computed - {names})
        return f"{names}, computed in {', '.join(others)}" if others else names

    def load(self, path: Path) -> None:
        """The weights in a .keras, .weights.h5 or .h5 file; the structure that a .keras file has is not read."""
        try:
            self.given.load_weights(path)
        except (ValueError, OSError, KeyError, TypeError, BadZipFile) as error:
            raise ModelError(f"Keras cannot read the weights in {path.name}: {first_line(error)}") from error

    def save(self, path: Path) -> None:
        if path.suffix == ".keras":
            self.given.save(path)
        else:
            self.given.save_weights(path)


def _orders(model: Any, shapes: Sequence[tuple[int, ...]], kinds: Sequence[str], last: bool) -> list[tuple[int, ...]]:
    """The axes of each input, given with its channels first, in the order in which Keras takes them. Two axes may be
    channels and places, or steps and numbers, which are in one order everywhere: the model's own shape decides."""
    taken = _taken(model)
    known = taken if len(taken) == len(shapes) else [None] * len(shapes)
    orders = []
    for shape, kind, own in zip(shapes, kinds, known, strict=True):
        axes = tuple(range(len(shape)))
        turned = last and kind == "float" and (len(shape) == 3 or (len(shape) == 2 and _must_turn(model, shape, own)))
        orders.append((*axes[1:], 0) if turned else axes)
    return orders


def _must_turn(model: Any, shape: tuple[int, ...], own: Sequence[int | None] | None) -> bool:
    """Whether an input of two axes fits only when it is turned, or fits both ways and a layer of windows takes it."""
    if own is None or len(own) != 2:
        return own is None and _meets_window(model)  # Keras builds its layers when it is called
    if not _fits(own, shape):
        return _fits(own, shape[::-1])
    return _fits(own, shape[::-1]) and _meets_window(model)


def _fits(own: Sequence[int | None], shape: Sequence[int]) -> bool:
    return len(own) == len(shape) and all(have in (None, want) for have, want in zip(own, shape, strict=True))


def _meets_window(model: Any) -> bool:
    """Whether the first layer that has a form of its data slides a window over it, with the channels last."""
    return getattr(_first_window(model), "data_format", "") == "channels_last"


def _first_window(model: Any) -> Any:
    layers = model._flatten_layers(include_self=False)
    return next((layer for layer in layers if getattr(layer, "data_format", None)), None)


def _takes_both(
    model: Any, shapes: Sequence[tuple[int, ...]], kinds: Sequence[str]
) -> list[tuple[tuple[int, ...], bool]]:
    """The inputs of two axes that fit in both orders, each with whether it is turned."""
    taken = _taken(model)
    if len(taken) != len(shapes):
        return []
    return [
        (shape, _must_turn(model, shape, own))
        for shape, kind, own in zip(shapes, kinds, taken, strict=True)
        if kind == "float" and len(shape) == 2 and _fits(own, shape) and _fits(own, shape[::-1])
    ]


def _taken(model: Any) -> list[tuple[int | None, ...]]:
    """The shapes that a model takes, without the batch, in its own order; empty where it does not say."""
    function = getattr(model, "_functional", None) if hasattr(model, "_functional") else model
    if function is not None and hasattr(function, "_nodes_by_depth"):
        return [tuple(tensor.shape[1:]) for tensor in function.inputs]
    window = _first_window(model)
    kernel = getattr(window, "kernel", None) if window is not None and window.built else None
    return [(None, int(kernel.shape[1]))] if kernel is not None and len(kernel.shape) == 3 else []


def _has_calls(keras: Any, model: Any) -> bool:
    """Whether a model is made of calls of layers; others are subclassed ones."""
    return hasattr(model, "_nodes_by_depth") or isinstance(model, keras.Sequential)


def _walkable(keras: Any, model: Any, shapes: Sequence[tuple[int, ...]], kinds: Sequence[str]) -> Any:
    """The model as calls of layers for inputs of these shapes: itself, or its own layers called once more.

    A subclassed model records its calls when its `call` is given symbolic tensors; the layers are the same objects.
    """
    from zoolens.findings.graph.importers.keras.custom_layers import steady_names

    inputs = [
        keras.Input(shape, batch_size=None, dtype="int32" if kind == "int" else None)
        for shape, kind in zip(shapes, kinds, strict=True)
    ]
    fed = inputs if len(inputs) > 1 else inputs[0]
    try:
        if _has_calls(keras, model):
            _check_inputs(model, shapes)
            return model if _sized(model, shapes) else keras.Model(fed, model(fed))
        model(fed)  # builds its layers
        with steady_names():
            return keras.Model(fed, model.call(fed))
    except ModelError:
        raise
    except Exception as error:
        sizes = ", ".join("×".join(map(str, shape)) for shape in shapes)
        raise ModelError(f"The Keras model does not take inputs of {sizes}: {first_line(error)}") from error


def _sized(model: Any, shapes: Sequence[tuple[int, ...]]) -> bool:
    function = getattr(model, "_functional", model) if hasattr(model, "_functional") else model
    return function is not None and [tuple(tensor.shape[1:]) for tensor in function.inputs] == list(shapes)


def _check_inputs(model: Any, shapes: Sequence[tuple[int, ...]]) -> None:
    taken = _taken(model)
    if not taken:
        return
    fits = len(taken) == len(shapes) and all(_fits(have, want) for have, want in zip(taken, shapes, strict=True))
    if not fits:
        wanted = " and ".join("×".join("any" if extent is None else str(extent) for extent in shape) for shape in taken)
        given = " and ".join("×".join(map(str, shape)) for shape in shapes)
        raise ModelError(
            f"The Keras model takes {wanted}, in its own order of axes, and is given {given}.",
            hint="Change --input, which has the channels first.",
        )


# What layers of Keras drop or add in training, by their class, and where they keep how often.
_DROPPING: Final = {
    "Dropout": ("rate", ""), "SpatialDropout1D": ("rate", "whole channels"),
    "SpatialDropout2D": ("rate", "whole channels"), "SpatialDropout3D": ("rate", "whole channels"),
    "AlphaDropout": ("rate", "alpha"), "GaussianDropout": ("rate", "Gaussian"),
    "GaussianNoise": ("stddev", "noise that is added"), "StochasticDepth": ("drop_path_rate", "whole examples"),
    "DropBranch": ("rate", "whole examples"),
}  # fmt: skip
_RECURRENT: Final = {"dropout": "inputs of a recurrent layer", "recurrent_dropout": "states of a recurrent layer"}


def _dropouts(model: Any) -> Iterator[LayerFact]:
    for layer in model._flatten_layers():
        rates = {attribute: units for attribute, units in (_dropped_by(layer),) if attribute}
        if hasattr(layer, "recurrent_dropout") and not hasattr(layer, "cell"):
            rates |= _RECURRENT
        for attribute, units in rates.items():
            rate = getattr(layer, attribute, None)
            if rate:
                yield LayerFact(name=layer.name, op="dropout", rate=float(rate), units=units)


def _dropped_by(layer: Any) -> tuple[str, str]:
    """Where a layer keeps how often it drops, and what it drops; empty where it is no such layer."""
    kinds = [kind.__name__ for kind in type(layer).__mro__]
    name = next((kind for kind in kinds if kind in _DROPPING), "")
    attribute, units = _DROPPING.get(name, ("rate" if "Dropout" in kinds[0] else "", ""))
    shape = tuple(getattr(layer, "noise_shape", None) or ())
    if shape and name == "Dropout":
        whole = shape[0] != 1 and all(extent == 1 for extent in shape[1:])
        units = "whole examples" if whole else f"in the shape {'×'.join(map(str, shape))}"
    return attribute, units
