"""Convolutions, pools and resizes of an IR."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from zoolens.findings.graph.importers.openvino.writing import LayerWriting, Untranslatable

_AUTO: Final = {
    "explicit": None,
    "notset": None,
    "valid": "VALID",
    "same_upper": "SAME_UPPER",
    "same_lower": "SAME_LOWER",
}


def _padding(layer: LayerWriting) -> dict[str, Any]:
    auto = layer.text("auto_pad", "explicit").lower()
    if auto not in _AUTO:
        raise Untranslatable
    if _AUTO[auto] is not None:
        return {"auto_pad": _AUTO[auto]}
    return {"pads": [*layer.list("pads_begin"), *layer.list("pads_end")]}


def _convolution(layer: LayerWriting, op: str, kernel: str, **settings: Any) -> None:
    windows = {key: layer.list(key) for key in ("strides", "dilations")}
    layer.last(op, layer.layer.inputs[0], kernel, **windows, **_padding(layer), **settings)


def _conv(layer: LayerWriting) -> None:
    _convolution(layer, "Conv", layer.layer.inputs[1])


def _grouped(layer: LayerWriting) -> tuple[str, int]:
    """A kernel whose first axis are the groups, as ONNX has it, and their number."""
    kernel = layer.layer.inputs[1]
    groups, rows, *rest = layer.extents(kernel)
    return layer.add("Reshape", kernel, layer.constant([groups * rows, *rest])), groups


def _group_conv(layer: LayerWriting) -> None:
    kernel, groups = _grouped(layer)
    _convolution(layer, "Conv", kernel, group=groups)


def _transposed(layer: LayerWriting, kernel: str, **settings: Any) -> None:
    if len(layer.layer.inputs) > 2 or layer.text("auto_pad").lower().startswith("same"):
        raise Untranslatable  # padding follows from extents of the output, which ONNX chooses in another way
    added = layer.list("output_padding") or None
    _convolution(layer, "ConvTranspose", kernel, output_padding=added, **settings)


def _conv_transpose(layer: LayerWriting) -> None:
    _transposed(layer, layer.layer.inputs[1])


def _group_conv_transpose(layer: LayerWriting) -> None:
    kernel, groups = _grouped(layer)
    _transposed(layer, kernel, group=groups)


def _max_pool(layer: LayerWriting) -> None:
    dilations = layer.list("dilations") or None
    if any(starts >= inside for starts, _, inside, _ in _last_windows(layer)):
        raise Untranslatable  # ONNX leaves out a window in nothing but padding
    _pool(layer, "MaxPool", dilations=dilations)


def _avg_pool(layer: LayerWriting) -> None:
    padded = not layer.flag("exclude-pad")
    for starts, ends, inside, extent in _last_windows(layer):
        if starts >= inside or (padded and ends > extent):
            raise Untranslatable  # nor does it count places behind the padding
    _pool(layer, "AveragePool", count_include_pad=int(padded))


def _last_windows(layer: LayerWriting) -> Iterator[tuple[int, int, int, int]]:
    """Where windows are rounded up in OpenVINO's own way, for each axis: where the last one starts and ends, where
    padding begins behind the input, and where that ends."""
    if layer.text("rounding_type", "floor") != "ceil" or "pads" not in (padding := _padding(layer)):
        return
    kernel = layer.list("kernel")
    strides = layer.list("strides")
    dilations = layer.list("dilations") or [1] * len(kernel)
    before = padding["pads"][: len(kernel)]
    after = padding["pads"][len(kernel) :]
    extents = layer.extents(layer.layer.inputs[0])[2:]
    for window, step, spread, begin, end, extent in zip(
        kernel, strides, dilations, before, after, extents, strict=True
    ):
        reach = (window - 1) * spread + 1
        whole = begin + extent + end
        starts = -(-(whole - reach) // step) * step
        yield starts, starts + reach, begin + extent, whole


def _pool(layer: LayerWriting, op: str, **settings: Any) -> None:
    ceil = layer.text("rounding_type", "floor") != "floor"
    layer.last(
        op, layer.layer.inputs[0], kernel_shape=layer.list("kernel"), strides=layer.list("strides"),
        ceil_mode=int(ceil) or None, **_padding(layer), **settings,
    )  # fmt: skip


_MODES: Final = {"nearest": "nearest", "linear_onnx": "linear", "cubic": "cubic"}


def _resize(layer: LayerWriting) -> None:
    """Factors and sizes of the axes that are resized become those of all axes."""
    given, wanted, *others = layer.layer.inputs
    version = layer.layer.opset
    mode = _MODES.get(layer.text("mode"))
    nearest = layer.text("nearest_mode", "round_prefer_floor")
    plain = not layer.flag("antialias") and not any(layer.list("pads_begin")) and not any(layer.list("pads_end"))
    if mode is None or nearest == "simple" or not plain or version not in ("opset4", "opset11"):
        raise Untranslatable
    by_size = layer.text("shape_calculation_mode") == "sizes"
    if version == "opset4":  # sizes, factors, axes
        wanted = wanted if by_size else others.pop(0)
        others = others[1:] if by_size else others
    rank = layer.rank(given)
    axes = layer.graph.whole_numbers(others[0]) if others else range(rank)
    if by_size:
        sizes: list[Any] = layer.extents(given)
    else:
        sizes = [1.0] * rank
    for axis, number in zip(axes, layer.graph.values(wanted).ravel(), strict=True):
        sizes[axis] = number
    chosen = ("", "", layer.constant(sizes)) if by_size else ("", layer.constant(sizes, "float32"))
    layer.last(
        "Resize", given, *chosen, mode=mode, nearest_mode=nearest,
        coordinate_transformation_mode=layer.text("coordinate_transformation_mode", "half_pixel"),
        cubic_coeff_a=layer.number("cube_coeff", -0.75),
    )  # fmt: skip


WINDOWS: Final[dict[str, Callable[[LayerWriting], None]]] = {
    "Convolution": _conv, "GroupConvolution": _group_conv, "ConvolutionBackpropData": _conv_transpose,
    "GroupConvolutionBackpropData": _group_conv_transpose, "MaxPool": _max_pool, "AvgPool": _avg_pool,
    "Interpolate": _resize,
}  # fmt: skip
