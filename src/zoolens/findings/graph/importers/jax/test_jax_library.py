"""Functions of JAX as graphs: what they compute is what JAX computes, and written-out layers get their names."""

import numpy as np
import pytest

from zoolens.base.errors import ModelError
from zoolens.findings.graph.importers.jax.jax_library import graph_of_jax_function
from zoolens.findings.graph.passes.canonical import canonical
from zoolens.findings.graph.reference.interpreter import run

jax = pytest.importorskip("jax")
jnp = jax.numpy


def graphs(function, parameters, x):
    """The raw and the canonical graph, both of which compute what JAX does."""
    values = {name: np.asarray(array, np.float32) for name, array in parameters.items()}
    raw = graph_of_jax_function(lambda given, *inputs: function(*given, *inputs), list(values.items()), [x], "function")
    expected = np.asarray(function(*values.values(), x))
    (computed,) = run(raw, {"input0": x}).values()
    np.testing.assert_allclose(computed, expected, atol=2e-5)
    end = canonical(raw)
    fed = x.transpose(0, 3, 1, 2) if x.ndim == 4 else x
    (settled,) = run(end, {end.inputs[0].name: fed}).values()
    if settled.ndim == 4:
        settled = settled.transpose(0, 2, 3, 1)
    np.testing.assert_allclose(settled.reshape(expected.shape), expected, atol=2e-5)
    return raw, end


def ops(graph):
    return [node.op for node in graph.nodes if node.op not in ("input", "parameter", "constant")]


def draw(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    ("activation", "op", "attributes"),
    [
        (jax.nn.relu, "relu", {}),
        (jax.nn.relu6, "relu6", {}),
        (jax.nn.silu, "silu", {}),
        (jax.nn.gelu, "gelu", {"approximate": "tanh"}),
        (lambda x: jax.nn.gelu(x, approximate=False), "gelu", {}),
        (jax.nn.leaky_relu, "leaky_relu", {"alpha": 0.01}),
        (jax.nn.hard_sigmoid, "hard_sigmoid", {}),
        (jax.nn.sigmoid, "sigmoid", {}),
        (jnp.tanh, "tanh", {}),
        (jax.nn.softmax, "softmax", {"axis": 1}),
    ],
)
def test_activations_get_their_names(activation, op, attributes):
    _, end = graphs(lambda kernel, x: activation(x @ kernel), {"kernel": draw(4, 6)}, draw(1, 4))
    assert ops(end) == ["dense", op]
    assert dict(end.nodes[-1].attributes) == attributes


def test_a_norm_that_is_written_out_is_one_again():
    def function(kernel, mean, var, scale, shift, x):
        x = jax.lax.conv_general_dilated(x, kernel, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return (x - mean) / jnp.sqrt(var + 1e-3) * scale + shift

    named = {"kernel": draw(3, 3, 2, 5), "mean": draw(5), "var": np.abs(draw(5)), "scale": draw(5), "shift": draw(5)}
    _, end = graphs(function, named, draw(1, 8, 8, 2))
    assert ops(end) == ["conv"]
    (conv,) = [node for node in end.nodes if node.op == "conv"]
    assert conv.get("norm") == "batch"
    assert conv.get("epsilon") == pytest.approx(1e-3)
    assert tuple(conv.get("pads")) == (0, 0, 1, 1)


def test_pools_and_means():
    def function(x):
        windows = (1, 2, 2, 1), (1, 2, 2, 1), "VALID"
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, *windows)
        x = jax.lax.reduce_window(x, 0.0, jax.lax.add, *windows) / 4
        return x.mean((1, 2))

    _, end = graphs(function, {}, draw(1, 16, 16, 3))
    assert ops(end) == ["max_pool", "avg_pool", "global_avg_pool"]


def test_arrangements_and_matrices():
    def function(query, key, x):
        q, k = x @ query, x @ key
        scores = jnp.einsum("nqd,nkd->nqk", q, k) / 2
        return jnp.concatenate([scores, jnp.sort(scores)[:, 1:3]], 1)

    with pytest.raises(ModelError, match="cannot be computed"):  # sorting is not in the vocabulary
        graphs(function, {"query": draw(4, 4), "key": draw(4, 4)}, draw(1, 5, 4))

    def known(query, key, x):
        q, k = x @ query, x @ key
        scores = jnp.einsum("nqd,nkd->nqk", q, k) / 2
        return jnp.pad(jnp.concatenate([scores, scores[:, 1:3]], 1), ((0, 0), (1, 0), (0, 0)))

    _, end = graphs(known, {"query": draw(4, 4), "key": draw(4, 4)}, draw(1, 5, 4))
    assert "unknown" not in ops(end)


@pytest.mark.parametrize(
    "function",
    [
        lambda scale, x: scale * x.astype(jnp.int32),
        lambda scale, x: scale * jax.lax.div(jnp.floor(x).astype(jnp.int32), 2),
        lambda scale, x: scale * jax.random.bernoulli(jax.random.key(0), 0.5, x.shape) * x,
    ],
)
def test_what_cannot_be_computed_is_unknown_and_not_left_out(function):
    given = lambda values, x: function(*values, x)  # noqa: E731
    graph = graph_of_jax_function(given, [("scale", draw(4))], [draw(1, 4)], "function")
    assert "unknown" in ops(graph)


def test_conversions_that_keep_the_value_are_left_out():
    def function(scale, x):
        return scale * (x.astype(bool) * 2.0 + jnp.floor(x).astype(jnp.int32)) + x.astype(jnp.bfloat16)

    x = np.array([[0.0, 1.5, -2.5, 4.0]], np.float32)
    raw, _ = graphs(function, {"scale": draw(4)}, x)
    assert "unknown" not in ops(raw)


def test_a_decision_by_numbers_is_refused():
    with pytest.raises(ModelError, match="decides by numbers"):
        graphs(lambda x: x if x.sum() > 0 else -x, {}, draw(1, 4))
