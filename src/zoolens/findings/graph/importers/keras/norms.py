"""Keras normalisation layers as nodes of our vocabulary."""

from __future__ import annotations

from typing import Any

import numpy as np

from zoolens.findings.graph.importers.keras.walk import KerasCall, KerasWalk, axes_name, positive
from zoolens.findings.graph.ir.model import Array


def _axes_around(call: KerasCall, channel: int) -> str:
    rank = len(call.shape)
    return axes_name(rank, channels_last=positive(channel, rank) == rank - 1)


def batch_norm(walk: KerasWalk, call: KerasCall) -> str:
    layer = call.target
    parameters = walk.optional({**_learned(layer), "mean": layer.moving_mean, "variance": layer.moving_variance})
    axes = _axes_around(call, layer.axis)
    return walk.add("batch_norm", call, axes=axes, epsilon=float(layer.epsilon), parameters=parameters)


def _learned(layer: Any) -> dict[str, Any]:
    return {"scale": getattr(layer, "gamma", None), "shift": getattr(layer, "beta", None)}


def layer_norm(walk: KerasWalk, call: KerasCall) -> str:
    layer = call.target
    if getattr(layer, "rms_scaling", False):  # divides by the deviation without subtracting the mean: no op of ours
        return walk.unknown(call, "LayerNormalization(rms_scaling=True)")
    return _over_axes(walk, call, "layer_norm")


def rms_norm(walk: KerasWalk, call: KerasCall) -> str:
    return _over_axes(walk, call, "rms_norm")


def _over_axes(walk: KerasWalk, call: KerasCall, op: str) -> str:
    layer = call.target
    parameters = walk.optional({"scale": getattr(layer, "gamma", getattr(layer, "scale", None)),
                                "shift": getattr(layer, "beta", None)})  # fmt: skip
    return walk.add(op, call, axes=_axes_of(layer, call), epsilon=float(layer.epsilon), parameters=parameters)


def _axes_of(layer: Any, call: KerasCall) -> tuple[int, ...]:
    given = [layer.axis] if isinstance(layer.axis, int) else layer.axis
    return tuple(sorted(positive(axis, len(call.shape)) for axis in given))


def group_norm(walk: KerasWalk, call: KerasCall) -> str:
    layer = call.target
    channels = call.shape[positive(layer.axis, len(call.shape))]
    groups = channels if layer.groups == -1 else int(layer.groups)
    return walk.add(
        "group_norm", call, axes=_axes_around(call, layer.axis), groups=groups, epsilon=float(layer.epsilon),
        parameters=walk.optional(_learned(layer)),
    )  # fmt: skip


def unit_norm(walk: KerasWalk, call: KerasCall) -> str:
    return walk.add("l2_normalize", call, axes=_axes_of(call.target, call))


def normalization(walk: KerasWalk, call: KerasCall) -> str:
    """Translates (x - mean) / deviation with given or adapted statistics: a batch norm that has nothing to learn.

    As an `affine` node its numbers would be counted among the learned ones, which they are not.
    """
    layer = call.target
    axes: tuple[int, ...] = getattr(layer, "_keep_axis", ())
    if layer.invert or len(axes) != 1:
        return walk.unknown(
            call, "Normalization over several axes" if not layer.invert else "Normalization(invert=True)"
        )
    parameters = [
        walk.builder.fixed_parameter(role, values, f"{call.source}/{role}")
        for role, values in zip(("mean", "variance"), _statistics(walk, call), strict=True)
    ]
    return walk.add("batch_norm", call, axes=_axes_around(call, axes[0]), epsilon=0.0, parameters=parameters)


def _statistics(walk: KerasWalk, call: KerasCall) -> tuple[Array, Array]:
    layer = call.target
    channels = (call.shape[layer._keep_axis[0]],)
    if layer.input_mean is not None:
        given = (np.asarray(layer.input_mean), np.asarray(layer.input_variance))
    elif walk.builder.keep_weights:
        given = (walk.values(layer.adapt_mean), walk.values(layer.adapt_variance))
    else:
        given = (np.zeros(()), np.ones(()))  # not computed yet, and nobody asks for them
    mean, variance = (np.broadcast_to(statistic, channels).astype(np.float32) for statistic in given)
    return mean, np.maximum(variance, np.float32(1e-14))  # Keras keeps the deviation above 1e-7
