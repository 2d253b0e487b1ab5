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

from zoolens.crosstrain.training.diff.facts import LayerFact, SideFacts
from zoolens.errors import ModelError, first_line
from zoolens.graph.model import Graph
from zoolens.port.frameworks.base import Array, LiveNetwork, checked_assignment, no_gpu, plain


class KerasNetwork(LiveNetwork):
    framework: ClassVar[str] = "keras"

    def __init__(self, model: Any, shapes: Sequence[tuple[int, ...]], kinds: Sequence[str], name: str) -> None:
        import keras

        self._keras, self._name = keras, name
        self._last = keras.config.image_data_format() == "channels_last"
        self.orders = [_order(shape, kind, self._last) for shape, kind in zip(shapes, kinds, strict=True)]
        given = [tuple(shape[axis] for axis in order) for shape, order in zip(shapes, self.orders, strict=True)]
        self.given = model
        self._model = _walkable(keras, model, given, kinds)

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
        from zoolens.graph.importers.keras.library import graph_of_keras_model

        return graph_of_keras_model(self._model, name=self._name, weights=True)

    def opaque_answers(self, inputs: Sequence[Array]) -> tuple[Graph, dict[str, Array]]:
        from zoolens.graph.importers.keras.library import graph_and_answers

        turned = self.turned(inputs)
        fed = [self._keras.ops.convert_to_tensor(array) for array in (turned if len(inputs) > 1 else [turned])]
        return graph_and_answers(self._model, fed)

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
        answer = self._model(self.turned(inputs), training=False)
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
        from zoolens.crosstrain.training.live.keras import drawn_tensors, norm_facts

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


def _order(shape: tuple[int, ...], kind: str, last: bool) -> tuple[int, ...]:
    """The axes of an input, given with its channels first, in the order in which Keras takes them."""
    axes = tuple(range(len(shape)))
    return (*axes[1:], 0) if last and kind == "float" and len(shape) == 3 else axes


def _walkable(keras: Any, model: Any, shapes: Sequence[tuple[int, ...]], kinds: Sequence[str]) -> Any:
    """The model as calls of layers for inputs of these shapes: itself, or its own layers called once more.

    A subclassed model records its calls when its `call` is given symbolic tensors; the layers are the same objects.
    """
    inputs = [
        keras.Input(shape, batch_size=None, dtype="int32" if kind == "int" else None)
        for shape, kind in zip(shapes, kinds, strict=True)
    ]
    fed = inputs if len(inputs) > 1 else inputs[0]
    try:
        if hasattr(model, "_nodes_by_depth") or isinstance(model, keras.Sequential):
            _check_inputs(model, shapes)
            return model if _sized(model, shapes) else keras.Model(fed, model(fed))
        model(fed)  # builds its layers
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
    function = getattr(model, "_functional", model) if hasattr(model, "_functional") else model
    if function is None:
        return
    taken = [tuple(tensor.shape[1:]) for tensor in function.inputs]
    fits = len(taken) == len(shapes) and all(
        len(have) == len(want) and all(a in (None, b) for a, b in zip(have, want, strict=True))
        for have, want in zip(taken, shapes, strict=True)
    )
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
