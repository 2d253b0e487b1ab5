"""JAX's primitives that slide a window over a map: convolutions and pools."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any, Final

from zoolens.findings.graph.importers.jax.walk import Handler, JaxCall, Leaf, Operand
from zoolens.findings.graph.ir.model import Shape

_SPATIAL: Final = {1: "W", 2: "HW", 3: "DHW"}


def _axes_name(rank: int, features: int) -> str:
    spatial = _SPATIAL.get(rank - 2, "")
    if not spatial:
        return ""
    if features == 1:
        return f"NC{spatial}"
    if features == rank - 1:
        return f"N{spatial}C"
    return ""


def conv(call: JaxCall) -> Operand:
    kernel = call.operands[1]
    numbers = call.settings["dimension_numbers"]
    rank = len(call.shape)
    spec = numbers.rhs_spec
    same = numbers.lhs_spec == numbers.out_spec and numbers.out_spec[0] == 0
    axes = _axes_name(rank, numbers.out_spec[1]) if same else ""
    plain = set(call.settings["lhs_dilation"]) <= {1} and call.settings.get("batch_group_count", 1) == 1
    if not isinstance(kernel, Leaf) or not axes or not plain:
        return call.unknown()
    pads = call.settings["padding"]
    turned = call.walk.parameter("kernel", kernel, spec)  # of as many axes as the map
    return call.add(
        "conv", call.value(), axes=axes, parameters=[turned], kernel=turned.shape[2:],
        stride=tuple(call.settings["window_strides"]), dilation=tuple(call.settings["rhs_dilation"]),
        pads=(*(int(low) for low, _ in pads), *(int(high) for _, high in pads)),
        groups=int(call.settings["feature_group_count"]),
    )  # fmt: skip


def _window(call: JaxCall) -> tuple[Shape, dict[str, Any], str] | None:
    window = tuple(call.settings["window_dimensions"])
    features = 1 if window[1] == 1 and window[-1] != 1 else len(window) - 1
    spatial = [axis for axis in range(1, len(window)) if axis != features]
    plain = set(call.settings.get("base_dilation") or (1,)) <= {1} and window[0] == window[features] == 1
    axes = _axes_name(len(window), features)
    if not plain or not axes:
        return None
    pads = call.settings["padding"]
    strides = call.settings["window_strides"]
    spread = call.settings.get("window_dilation") or (1,) * len(window)
    described = {
        "kernel": tuple(window[axis] for axis in spatial),
        "stride": tuple(int(strides[axis]) for axis in spatial),
        "dilation": tuple(int(spread[axis]) for axis in spatial),
        "pads": (*(int(pads[axis][0]) for axis in spatial), *(int(pads[axis][1]) for axis in spatial)),
    }
    return window, described, axes


def _without_second_axis(call: JaxCall, pool: Handler) -> Operand | None:
    """Equinox puts an axis of extent 1 behind the batch, which the window leaves alone."""
    window = tuple(call.settings["window_dimensions"])
    if len(window) != 5 or window[1] != 1 or call.given[0][1] != 1:
        return None
    settings = {
        key: (value[0], *value[2:]) if isinstance(value, tuple) and len(value) == len(window) else value
        for key, value in call.settings.items()
    }
    (given, shape), rest = ((each[0], *each[2:]) for each in (call.given[0], call.shape)), call.given[1:]
    value = call.add("reshape", call.value(), shape=given)
    inner = replace(
        call, operands=(value, *call.operands[1:]), settings=settings, given=(given, *rest), shapes=(shape,)
    )
    return call.add("reshape", call.walk.node(pool(inner)))


def max_pool(call: JaxCall) -> Operand:
    within = _without_second_axis(call, max_pool)
    if within is not None:
        return within
    window = _window(call)
    if window is None:
        return call.unknown()
    return call.add("max_pool", call.value(), axes=window[2], **window[1])


def sum_pool(call: JaxCall) -> Operand:
    """The sum over windows: an average that counts its padding, times the number of places."""
    within = _without_second_axis(call, sum_pool)
    if within is not None:
        return within
    window = _window(call)
    if window is None or set(window[1].pop("dilation")) != {1}:
        return call.unknown()
    pool = call.add("avg_pool", call.value(), axes=window[2], count_pad=True, **window[1])
    return call.add("mul", pool, scalar=float(prod(window[1]["kernel"])))
