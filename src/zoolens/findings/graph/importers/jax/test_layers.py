"""Layers as Flax and Equinox spell them, written out with JAX alone: they get their names, and compute the same."""

import numpy as np
import pytest

from zoolens.findings.graph.importers.jax.test_jax_library import draw, graphs, ops

jax = pytest.importorskip("jax")
jnp = jax.numpy


def statistics(x, axes):
    """As Flax computes them: the mean of the squares less the square of the mean."""
    mean = x.mean(axes)
    return mean, jnp.maximum(0, jnp.square(x).mean(axes) - jnp.square(mean))


def layer_norm(x, scale, shift):
    mean, var = (jnp.expand_dims(each, -1) for each in statistics(x, (-1,)))
    return (x - mean) * (jax.lax.rsqrt(var + 1e-5) * scale.reshape(1, 1, -1)) + shift.reshape(1, 1, -1)


def test_the_layer_norm_of_flax():
    _, end = graphs(lambda s, b, x: layer_norm(x, s, b), {"scale": draw(6), "shift": draw(6)}, draw(1, 5, 6))
    assert ops(end) == ["layer_norm"]
    assert {parameter.role for parameter in end.nodes[-1].parameters} == {"scale", "shift"}


@pytest.mark.parametrize("groups", [2, 4])
def test_the_group_norm_of_flax(groups):
    def function(scale, shift, x):
        mean, var = statistics(x.reshape(1, 4, 4, groups, 8 // groups), (1, 2, 4))
        mean, var = (jnp.repeat(each, 8 // groups, 1).reshape(1, 1, 1, 8) for each in (mean, var))
        return (x - mean) * (jax.lax.rsqrt(var + 1e-5) * scale.reshape(1, 1, 1, 8)) + shift.reshape(1, 1, 1, 8)

    _, end = graphs(function, {"scale": draw(8), "shift": draw(8)}, draw(1, 4, 4, 8))
    assert ops(end) == ["group_norm"]
    assert end.nodes[-1].get("groups") == groups


def test_statistics_that_are_spread_over_other_channels_are_no_group_norm():
    def function(x):
        mean, var = statistics(x.reshape(1, 4, 4, 4, 2), (1, 2, 4))
        mean, var = (jnp.tile(each, 2).reshape(1, 1, 1, 8) for each in (mean, var))  # each group's for strangers
        return (x - mean) * jax.lax.rsqrt(var + 1e-5)

    _, end = graphs(function, {}, draw(1, 4, 4, 8))
    assert "group_norm" not in ops(end)


def test_the_norms_of_equinox():
    """One sample at a time, with channels first, and statistics that are divided by 1 before the first batch."""

    def sample(scale, shift, mean, var, x):
        split = x.reshape(2, 3, 4, 4)
        centred = split - split.mean((1, 2, 3), keepdims=True)
        normed = centred * jax.lax.rsqrt(jnp.maximum(0, split.var((1, 2, 3), keepdims=True)) + 1e-5)
        x = normed.reshape(6, 4, 4) * jnp.broadcast_to(scale.reshape(6, 1, 1), (6, 4, 4))
        x = jax.nn.relu(x + jnp.broadcast_to(shift.reshape(6, 1, 1), (6, 4, 4)))
        return (x - (mean / 1.0)[:, None, None]) / jnp.sqrt(var / 1.0 + 1e-3)[:, None, None]

    def function(scale, shift, mean, var, x):
        x = jnp.transpose(x, (0, 3, 1, 2))
        return jnp.transpose(jax.vmap(lambda each: sample(scale, shift, mean, var, each))(x), (0, 2, 3, 1))

    named = {"scale": draw(6), "shift": draw(6), "mean": draw(6), "var": np.abs(draw(6))}
    _, end = graphs(function, named, draw(1, 4, 4, 6))
    assert ops(end) == ["group_norm", "relu", "batch_norm"]


def test_kernels_may_stand_left_and_have_several_axes():
    def function(left, heads, bias, out, x):
        x = jnp.transpose(jax.lax.dot_general(left, x, (((1,), (2,)), ((), ()))), (1, 2, 0))
        x = jax.lax.dot_general(x, heads, (((2,), (0,)), ((), ()))) + bias[None, None]
        return jax.lax.dot_general(x, out, (((2, 3), (0, 1)), ((), ())))

    named = {"left": draw(6, 4), "heads": draw(6, 2, 3), "bias": draw(2, 3), "out": draw(2, 3, 5)}
    _, end = graphs(function, named, draw(1, 7, 4))
    assert ops(end) == ["dense"] * 3
    assert [sorted(parameter.role for parameter in node.parameters) for node in end.nodes if node.op == "dense"] == [
        ["kernel"], ["bias", "kernel"], ["kernel"],
    ]  # fmt: skip


def test_the_attention_of_flax():
    def function(query, key, value, x):
        q, k, v = (jnp.einsum("nqd,dhw->nqhw", x, kernel) for kernel in (query, key, value))
        weights = jax.nn.softmax(jnp.einsum("nqhw,nkhw->nhqk", q / np.sqrt(3), k))
        return jnp.einsum("nhqk,nkhw->nqhw", weights, v).reshape(1, 5, 6)

    _, end = graphs(function, {"q": draw(6, 2, 3), "k": draw(6, 2, 3) + 1, "v": draw(6, 2, 3) - 1}, draw(1, 5, 6))
    assert sorted(op for op in ops(end) if op not in ("reshape", "transpose")) == ["attention", *["dense"] * 3]


def test_rows_of_a_table():
    rows = np.array([[3, 0, 4]], np.int32)
    names = {"table": draw(5, 4), "places": draw(3, 4)}
    _, end = graphs(lambda table, places, x: jnp.take(table, x, axis=0) + places[jnp.arange(3)], names, rows)
    assert ops(end)[0] == "embedding"
    assert "unknown" not in ops(end)


def test_parts_and_pools_of_one_sample():
    def function(kernel, x):
        pooled = jax.lax.reduce_window(x[:, None], -jnp.inf, jax.lax.max, (1, 1, 2, 2, 1), (1, 1, 2, 2, 1), "VALID")
        a, b = jnp.split(pooled[:, 0] @ kernel, 2, axis=-1)
        return a * jax.nn.sigmoid(b)

    _, end = graphs(function, {"kernel": draw(3, 8)}, draw(1, 8, 8, 3))
    assert "unknown" not in ops(end)
    assert ops(end)[0] == "max_pool"
