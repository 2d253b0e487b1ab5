"""Which layers of a TFLite file OpenVINO's operators are: its importer forgets the names of inner tensors.

Layers with weights are found by their weights, whichever way these were turned. Where two layers have the same ones, or
where what follows is not what the file says, nothing is claimed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.inventory.runtimes.litert.tflite_file import TfliteGraph, TfliteOperator, tensor_labels

_WEIGHTS_AT: Final = 1  # the position of the weights among the inputs, on both sides
_BIAS_AT: Final = {3: 2, 4: 2, 9: 2, 67: 3}  # convolutions and dense layers, by the code of the operator
_ACTIVATION_SLOT: Final = {3: 3, 4: 4, 9: 0, 67: 3}
_ACTIVATIONS: Final = {0: (), 1: (("Relu", "Clamp"),), 3: (("Clamp",),)}  # none, ReLU, ReLU6
_DEQUANTIZE: Final = 6
_PRODUCTS: Final = {"Convolution", "GroupConvolution", "ConvolutionBackpropData", "MatMul"}
_TURNING: Final = {"Convert", "Subtract", "Multiply", "Reshape", "Transpose", "FakeQuantize"}
_WORDS: Final = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_STORED: Final = {"float32": 4, "float16": 2, "int8": 1, "uint8": 1}  # bytes of a weight

Fingerprint = tuple[int, int, int]


@dataclass(frozen=True)
class FoundLayer:
    """A layer of the file. `parts` are OpenVINO's operators that compute it, by their unique names, as far as they are
    known. `last` is the one that makes the layer's output, where that is known, and `axes` the order that it is in."""

    label: str
    parts: tuple[str, ...]
    last: str | None = None
    axes: str = ""


def found_layers(graph: Any, file: TfliteGraph) -> list[FoundLayer]:
    ours, theirs = dict(_unique(_file_weights(file))), dict(_unique(_graph_weights(graph)))
    labels = tensor_labels(file)
    layers = []
    for fingerprint, place in ours.items():
        if fingerprint in theirs:
            operator = file.operators[place]
            chain, complete = _chain(theirs[fingerprint], operator)
            last, axes = _output(chain[-1], file, operator) if complete else (None, "")
            layers.append(FoundLayer(labels[operator.outputs[0]], tuple(op.get_name() for op in chain), last, axes))
    return layers


def _unique(pairs: Iterator[tuple[Fingerprint, Any]]) -> Iterator[tuple[Fingerprint, Any]]:
    """Yields those whose fingerprint no other one has."""
    known: dict[Fingerprint, list[Any]] = {}
    for fingerprint, value in pairs:
        known.setdefault(fingerprint, []).append(value)
    return ((fingerprint, values[0]) for fingerprint, values in known.items() if len(values) == 1)


def _file_weights(file: TfliteGraph) -> Iterator[tuple[Fingerprint, int]]:
    widened = {op.outputs[0]: op.inputs[0] for op in file.operators if op.code == _DEQUANTIZE and op.inputs}
    for place, operator in enumerate(file.operators):
        if operator.code not in _BIAS_AT or len(operator.inputs) <= _WEIGHTS_AT:
            continue
        index = operator.inputs[_WEIGHTS_AT]
        tensor = file.tensors[widened.get(index, index)]
        size = _STORED.get(tensor.dtype)
        if tensor.constant and size is not None:
            yield _fingerprint(np.frombuffer(tensor.content, _WORDS[size])), place


def _graph_weights(graph: Any) -> Iterator[tuple[Fingerprint, Any]]:
    for op in graph.get_ordered_ops():
        if op.get_type_name() in _PRODUCTS:
            source = op.input_value(_WEIGHTS_AT).get_node()
            while source.get_type_name() in _TURNING:
                source = source.input_value(0).get_node()
            if source.get_type_name() == "Constant" and source.data.itemsize in _WORDS:
                yield _fingerprint(np.ascontiguousarray(source.data).view(_WORDS[source.data.itemsize])), op


def _fingerprint(words: NDArray[Any]) -> Fingerprint:
    """Returns size, sum and sum of squares: equal for the same numbers in any order, and rarely for others."""
    wide = words.astype(np.uint64).ravel()
    return wide.size, int(wide.sum(dtype=np.uint64)), int((wide * wide).sum(dtype=np.uint64))


def _chain(product: Any, operator: TfliteOperator) -> tuple[list[Any], bool]:
    """The product with the bias and the activation behind it; whether all are there that the file fuses to it."""
    bias = _BIAS_AT[operator.code]
    biased = len(operator.inputs) > bias and operator.inputs[bias] >= 0
    slot = _ACTIVATION_SLOT[operator.code]
    activation = _ACTIVATIONS.get(operator.options.scalar(slot, "b") if operator.options else 0)
    chain = [product]
    if activation is None:
        return chain, False
    for kinds in [*([("Add",)] if biased else []), *activation]:
        users = list(chain[-1].output(0).get_target_inputs())
        if len(users) != 1 or users[0].get_node().get_type_name() not in kinds:
            return chain, False
        chain.append(users[0].get_node())
    return chain, True


def _output(op: Any, file: TfliteGraph, operator: TfliteOperator) -> tuple[str | None, str]:
    """The operator's unique name and the order of axes of what it makes; None where it is not the file's tensor."""
    tensor = file.tensors[operator.outputs[0]]
    shape = op.output(0).get_partial_shape()
    if tensor.dtype != "float32" or shape.rank.is_dynamic:
        return None, ""
    extents = [None if extent.is_dynamic else extent.get_length() for extent in shape][1:]
    if extents == list(tensor.shape[1:]) and len(extents) == 1:
        return op.get_name(), ""
    turned = [*tensor.shape[-1:], *tensor.shape[1:-1]]
    return (op.get_name(), "NCHW") if len(extents) == 3 and extents == turned else (None, "")
