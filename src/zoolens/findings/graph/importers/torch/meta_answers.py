"""What torch answers on tensors without numbers, for the operators that take it longest to say so.

torch's own rules for these are written in Python: a batch norm is taken apart into a dozen operators, which takes
0.8 ms, and a convolution asks a computer algebra whether numbers are equal, which is imported for it (1 s). A network
has hundreds of both. Only plain cases are answered here, and all others left to torch; the tests hold every answer
against torch's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from zoolens.findings.graph.ir.sliding_windows import reach

Rule = Callable[[Mapping[str, Any]], Any]
_MOST: Final = 4_096  # answers that are kept


class MetaAnswers:
    """Answers calls of operators whose tensors have no numbers."""

    def __init__(self) -> None:
        self._kept: dict[Any, Any] = {}  # shape, strides and type, by the operator and those of what it is given

    def answer(self, function: Any, op: str, arguments: Mapping[str, Any], *, in_place: bool) -> Any:
        """What torch would answer; None where torch is to be asked, whose answer `keep` may then be told."""
        if in_place:
            x: Any = arguments["self"] if op in _POINTWISE else None
            return x if x is not None and x.is_meta and x.is_floating_point() else None
        rule = _RULES.get(op)
        if rule is not None:
            return rule(arguments)
        if op not in _REPEATED:
            return None
        known = self._kept.get(_key(function, arguments))
        return None if known is None else _empty(known)

    def keep(self, function: Any, op: str, arguments: Mapping[str, Any], result: Any) -> None:
        """Keep what torch answered, for calls that are the same but for the identity of their tensors."""
        key = _key(function, arguments) if op in _REPEATED else None
        if key is not None and _is_meta(result) and len(self._kept) < _MOST:
            self._kept[key] = _form(result)


def _is_meta(value: Any) -> bool:
    return hasattr(value, "untyped_storage") and bool(value.is_meta)


def _form(tensor: Any) -> tuple[Any, ...]:
    return tuple(tensor.shape), tensor.stride(), tensor.dtype


def _empty(form: tuple[Any, ...]) -> Any:
    import torch

    shape, strides, dtype = form
    return torch.empty_strided(shape, strides, dtype=dtype, device="meta")


def _key(function: Any, arguments: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """What decides an answer; None where some tensor has numbers."""
    parts: list[Any] = [function]
    for value in arguments.values():
        if hasattr(value, "untyped_storage"):
            if not value.is_meta:
                return None
            parts.append(_form(value))
        elif isinstance(value, list | tuple):
            if not all(isinstance(item, int | float) for item in value):
                return None
            parts.append(tuple(value))
        else:
            parts.append(value)
    return tuple(parts)


def _is_plain(x: Any, *others: Any) -> bool:
    """Whether the first is a contiguous tensor, and all are without numbers and of its real type."""
    if not (x.is_meta and x.is_floating_point() and x.is_contiguous()):
        return False
    return all(tensor is None or (tensor.is_meta and tensor.dtype == x.dtype) for tensor in others)


def _conv(arguments: Mapping[str, Any]) -> Any:
    x, kernel, bias = arguments["input"], arguments["weight"], arguments["bias"]
    padding, stride, dilation = arguments["padding"], arguments["stride"], arguments["dilation"]
    if not _is_plain(x, kernel, bias) or x.dim() != kernel.dim() or isinstance(padding, str):
        return None
    shape, extents = x.shape, kernel.shape
    count = len(extents) - 2
    groups = arguments["groups"]
    fits = extents[1] * groups == shape[1] and not extents[0] % groups
    if not fits or not len(padding) == len(stride) == len(dilation) == count:
        return None
    if bias is not None and bias.shape != extents[:1]:
        return None
    made = [shape[0], extents[0]]
    for extent, window, step, spacing, pad in zip(shape[2:], extents[2:], stride, dilation, padding, strict=True):
        room = extent + 2 * pad - reach(window, spacing)
        if room < 0:
            return None
        made.append(room // step + 1)
    return x.new_empty(made)


def _batch_norm(arguments: Mapping[str, Any]) -> Any:
    x, mean, variance = arguments["input"], arguments["running_mean"], arguments["running_var"]
    learned = (arguments["weight"], arguments["bias"], mean, variance)
    if arguments["training"] or mean is None or variance is None or not _is_plain(x, *learned) or x.dim() < 2:
        return None
    channels = x.shape[1:2]
    fits = all(tensor is None or tensor.shape == channels for tensor in learned)
    return x.new_empty(x.shape) if fits else None


def _layer_norm(arguments: Mapping[str, Any]) -> Any:
    x, scale, shift = arguments["input"], arguments["weight"], arguments["bias"]
    normed = tuple(arguments["normalized_shape"])
    if not normed or not _is_plain(x, scale, shift) or x.shape[-len(normed) :] != normed:
        return None
    fits = all(tensor is None or tensor.shape == normed for tensor in (scale, shift))
    return x.new_empty(x.shape) if fits else None


def _linear(arguments: Mapping[str, Any]) -> Any:
    x, kernel, bias = arguments["input"], arguments["weight"], arguments["bias"]
    if not _is_plain(x, kernel, bias) or kernel.dim() != 2 or x.dim() < 2 or x.shape[-1] != kernel.shape[1]:
        return None
    if bias is not None and bias.shape != kernel.shape[:1]:
        return None
    return x.new_empty((*x.shape[:-1], kernel.shape[0]))


def _pointwise(arguments: Mapping[str, Any]) -> Any:
    x = arguments["self"]
    return x.new_empty(x.shape) if _is_plain(x) else None


def _combined(arguments: Mapping[str, Any]) -> Any:
    """Two tensors of which one is stretched to the other at most."""
    x, y = arguments["self"], arguments["other"]
    if not hasattr(x, "untyped_storage") or not _is_plain(x):
        return None
    if not hasattr(y, "untyped_storage"):
        return x.new_empty(x.shape) if type(y) in (int, float) else None
    if not _is_plain(y, x):
        return None
    if x.shape == y.shape or _stretches(y.shape, x.shape):
        return x.new_empty(x.shape)
    return x.new_empty(y.shape) if _stretches(x.shape, y.shape) else None


def _stretches(small: Any, large: Any) -> bool:
    return len(small) == len(large) and all(a in (1, b) for a, b in zip(small, large, strict=True))


_POINTWISE: Final = frozenset(
    {"relu", "relu6", "hardtanh", "gelu", "silu", "hardswish", "hardsigmoid", "sigmoid", "leaky_relu", "elu", "mish"}
)
# Asked of torch once for each form of what they are given: networks repeat their blocks.
_REPEATED: Final = frozenset(
    {"scaled_dot_product_attention", "max_pool2d", "avg_pool2d", "adaptive_avg_pool2d", "softmax", "mean", "matmul"}
)
_RULES: Final[dict[str, Rule]] = {
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), _conv),
    "batch_norm": _batch_norm,
    "layer_norm": _layer_norm,
    "linear": _linear,
    **dict.fromkeys(_POINTWISE, _pointwise),
    **dict.fromkeys(("add", "mul", "sub", "div"), _combined),
}
