"""The padding of live layers of Keras, changed to that of another network's layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

from zoolens.base.errors import ModelError
from zoolens.findings.graph.importers.padding_modes import explicit_pads
from zoolens.training.pairs.live.keras.keras_training import KerasTraining
from zoolens.training.pairs.live.live_training import NotSwitchable
from zoolens.training.pairs.live.paddings import LEFT_OUT, LOWEST, one_for_each, try_paddings


def switch_padding(training: KerasTraining, rows: Sequence[Any]) -> None:
    """`rows`: the layer's name, all that is put around its input now, and what is to be, with its mode; without rows
    all layers have their own padding again."""
    padded: dict[str, Any] = training.__dict__.setdefault("padded_layers", {})
    if not rows:
        _restore(padded)
        return
    layers = _by_name(training)
    changes = [_change(layers.get(_last(name)), str(name), padded, *rest) for name, *rest in one_for_each(rows)]
    try_paddings(training.live.run_once, changes, lambda: _restore(padded), "Keras model")


def _by_name(training: KerasTraining) -> dict[str, Any]:
    """Layers by the last part of the names that the graph has for them; a name that two layers have is none."""
    layers: dict[str, Any] = {}
    for layer in training.model._flatten_layers():
        layers[layer.name] = None if layer.name in layers else layer
    return layers


def _last(name: str) -> str:
    return name.rpartition("/")[2]


def _change(
    layer: Any, name: str, padded: dict[str, Any], now: Sequence[int], wanted: Sequence[int], mode: str
) -> Callable[[], None]:
    """Refuse before anything is changed."""
    import keras

    layers = keras.layers
    kinds = (layers.Conv2D.__mro__[1], layers.DepthwiseConv2D.__mro__[1], layers.MaxPooling2D.__mro__[1])
    if not isinstance(layer, kinds) or not type(layer).__module__.startswith("keras."):
        raise NotSwitchable(f"The padding of {name or 'a layer'} stands in the Keras model's code, not in a layer.")
    if mode == "edge":
        raise NotSwitchable("Keras has no padding that repeats the edge.")
    return lambda: _pad(layer, padded, (list(now), list(wanted)), mode)


def _restore(padded: dict[str, Any]) -> None:
    for layer, padding in padded.values():
        vars(layer).pop("call", None)
        layer.padding = padding
    padded.clear()


def _pad(layer: Any, padded: dict[str, Any], pads: tuple[list[int], list[int]], mode: str) -> None:
    """Take away what a layer before this one has put there, pad anew, and let the layer itself pad nothing."""
    kept = padded.setdefault(layer.name, (layer, layer.padding))[1]
    layer.padding = "valid"
    call = type(layer).call

    def padding(given: Any) -> Any:
        return _answer(layer, lambda inputs: call(layer, inputs), given, (kept, *pads), mode)

    object.__setattr__(layer, "call", padding)


def _answer(layer: Any, call: Any, given: Any, pads: tuple[str, list[int], list[int]], mode: str) -> Any:
    from keras import ops

    kept, now, wanted = pads
    first = layer.data_format == "channels_first"
    extents = tuple(int(extent) for extent in (given.shape[2:] if first else given.shape[1:-1]))
    window = getattr(layer, "kernel_size", None) or layer.pool_size
    own = explicit_pads(kept, extents, window, layer.strides, getattr(layer, "dilation_rate", ()))
    outer = [total - inner for total, inner in zip(now, own, strict=True)]
    if min(outer) < 0:
        raise ModelError(f"{layer.name} of Keras is padded in a way that was not understood")
    inner = _cropped(given, outer, extents, first)
    widths = _widths(wanted, first)
    if mode == "reflect":
        return call(ops.pad(inner, widths, mode="reflect"))
    answer = call(ops.pad(inner, widths, constant_values=-inf if mode == LOWEST else 0))
    if mode == LEFT_OUT:
        answer = answer / call(ops.pad(ops.ones_like(inner), widths))
    return answer


def _cropped(given: Any, outer: Sequence[int], extents: Sequence[int], first: bool) -> Any:
    count = len(extents)
    spatial = [slice(outer[axis], extents[axis] - outer[count + axis]) for axis in range(count)]
    whole = slice(None)
    return given[(whole, whole, *spatial) if first else (whole, *spatial, whole)]


def _widths(pads: Sequence[int], first: bool) -> list[tuple[int, int]]:
    """One pair for each axis, the batch and the channels too."""
    count = len(pads) // 2
    spatial = [(pads[axis], pads[count + axis]) for axis in range(count)]
    return [(0, 0), (0, 0), *spatial] if first else [(0, 0), *spatial, (0, 0)]
