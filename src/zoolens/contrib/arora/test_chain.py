import numpy as np
import pytest

from zoolens.base.errors import ModelError
from zoolens.contrib.arora import steps
from zoolens.contrib.arora.chain import chain_of
from zoolens.contrib.arora.stability import run_chain
from zoolens.contrib.arora.steps import Window
from zoolens.findings.graph.ir.model import Graph, Node, Parameter
from zoolens.findings.graph.reference.interpreter import run

random = np.random.default_rng(3)
PADDED = Window((3, 2), (2, 1), (1, 2), (1, 0, 1, 2))
POOL = Window((2, 2), (2, 2), (1, 1), (0, 1, 1, 0))

STEPS = {
    "relu": (steps.relu(), (3, 4)),
    "dense": (steps.dense(random.standard_normal((5, 4))), (3, 4)),
    "conv": (steps.conv(random.standard_normal((5, 3, 3, 2)), PADDED), (2, 3, 7, 6)),
    "max_pool": (steps.max_pool(POOL), (2, 3, 5, 5)),
    "avg_pool": (steps.avg_pool(POOL), (2, 3, 5, 5)),
    "global_avg_pool": (steps.global_avg_pool(), (2, 3, 4, 5)),
    "flatten": (steps.flatten(random.permutation(12), constant=False), (2, 3, 2, 2)),
    "flatten with a constant": (steps.flatten(random.permutation(8), constant=True), (2, 3, 2, 2)),
    "without constant": (steps.without_constant(steps.global_avg_pool()), (2, 3, 2, 2)),
}


@pytest.mark.parametrize("name", STEPS)
def test_derivatives_are_those_of_the_step(name):
    step, shape = STEPS[name]
    x, v = random.standard_normal(shape), random.standard_normal(shape)
    derivative = step.at(x)
    tiny = 1e-7
    slope = (step.forward(x + tiny * v) - step.forward(x - tiny * v)) / (2 * tiny)
    np.testing.assert_allclose(derivative.tangent(v), slope, atol=1e-6)
    g = random.standard_normal(slope.shape)
    assert np.vdot(g, derivative.tangent(v)) == pytest.approx(np.vdot(derivative.backward(g), v), rel=1e-9)
    np.testing.assert_allclose(derivative.tangent(x), step.forward(x), atol=1e-12)  # positively homogeneous


class Builder:
    """A small chain, node by node, with random weights."""

    def __init__(self, *shape):
        self.nodes = [Node("x", "input", (), (1, *shape))]
        self.weights = {}

    def add(self, op, *shape, parameters=None, inputs=None, **attributes):
        name = f"{op}{len(self.nodes)}"
        described = []
        for role, extent in (parameters or {}).items():
            self.weights[f"{name}.{role}"] = random.uniform(0.5, 1.5, extent) * random.choice([-1, 1], extent)
            if role == "norm_variance":
                self.weights[f"{name}.{role}"] **= 2
            described.append(Parameter(role, extent, f"{name}.{role}"))
        given = inputs or (self.nodes[-1].name,)
        self.nodes.append(Node(name, op, given, (1, *shape), attributes, tuple(described)))
        return self

    def conv(self, out, into, height, width, *, groups=1, **attributes):
        parameters = {"kernel": (out, into // groups, 3, 3), "bias": (out,)}
        if attributes.get("norm"):
            parameters |= {f"norm_{role}": (out,) for role in ("scale", "shift", "mean", "variance")}
        return self.add("conv", out, height, width, parameters=parameters, kernel=(3, 3), groups=groups, **attributes)

    def dense(self, out, into, *, bias=True):
        return self.add("dense", out, parameters={"kernel": (out, into)} | ({"bias": (out,)} if bias else {}))

    def graph(self):
        return Graph("small", tuple(self.nodes), (self.nodes[-1].name,), self.weights)


def convolutional():
    return (
        Builder(2, 9, 9)
        .conv(4, 2, 9, 9, pads=(1, 1, 1, 1), norm="batch", epsilon=1e-3)
        .add("relu", 4, 9, 9)
        .add("max_pool", 4, 5, 5, kernel=(2, 2), stride=(2, 2), pads=(0, 0, 1, 1))
        .conv(6, 4, 3, 3, groups=2, stride=(2, 2), pads=(1, 1, 1, 1))
        .add("relu", 6, 3, 3)
    )


@pytest.mark.parametrize("ending", ["flatten", "pooled", "pool last"])
def test_the_chain_computes_what_the_graph_computes(ending):
    """Biases as weights of a constant, folded norms, grouped kernels spread out: still the same function."""
    made = convolutional()
    if ending == "flatten":
        made.add("flatten", 54, order="NHWC").dense(5, 54).add("relu", 5).dense(3, 5).add("softmax", 3, axis=1)
    elif ending == "pooled":
        made.add("global_avg_pool", 6).dense(3, 6)
    else:
        made.conv(3, 6, 3, 3, pads=(1, 1, 1, 1)).add("global_avg_pool", 3)
    graph = made.graph()
    inputs = random.standard_normal((4, 2, 9, 9))
    chain = chain_of(graph)
    logits = graph.nodes[-2].name if ending == "flatten" else graph.outputs[0]
    plain = Graph("small", graph.nodes, (logits,), graph.weights)
    expected = np.concatenate([run(plain, {"x": one[None]})[logits] for one in inputs])
    np.testing.assert_allclose(run_chain(chain, chain.prepared(inputs)).values[-1], expected, rtol=1e-10)
    assert chain.constant
    assert [layer.kind for layer in chain.layers][-1] == ("pool" if ending == "pool last" else "dense")


def test_without_biases_no_constant_is_carried():
    chain = chain_of(Builder(4).dense(3, 4, bias=False).add("relu", 3).dense(2, 3, bias=False).graph())
    assert not chain.constant
    assert chain.prepared(np.ones((5, 4))).shape == (5, 4)


def test_norms_are_those_of_kernel_and_constant():
    made = Builder(3, 5, 5).conv(2, 3, 3, 3).add("global_avg_pool", 2)
    chain = chain_of(made.graph())
    kernel, bias = made.weights["conv1.kernel"], made.weights["conv1.bias"]
    assert chain.layers[0].norm ** 2 == pytest.approx((kernel**2).sum() + (bias**2).sum() + 1)
    assert chain.layers[0].overlap == 3
    assert chain.layers[1].norm ** 2 == pytest.approx(2 / 9)


def residual():
    made = Builder(4).dense(4, 4).add("relu", 4)
    return made.dense(4, 4).add("add", 4, inputs=("relu2", "dense3")).dense(2, 4)


UNCOVERED = {
    "branches after 'relu2'": residual(),
    "relu6": Builder(4).dense(4, 4).add("relu6", 4).dense(2, 4),
    "overlaps itself": Builder(1, 9, 9)
    .conv(2, 1, 7, 7)
    .add("max_pool", 2, 3, 3, kernel=(3, 3), stride=(2, 2))
    .add("global_avg_pool", 2),
    "ends with relu": Builder(4).dense(2, 4).add("relu", 2),
    "no learned layer": Builder(2, 4, 4).add("global_avg_pool", 2),
    "several places at once": Builder(3, 4).dense(2, 4),
}


@pytest.mark.parametrize("why", UNCOVERED)
def test_what_the_theorem_does_not_cover_is_refused_with_the_reason(why):
    with pytest.raises(ModelError, match=why):
        chain_of(UNCOVERED[why].graph())


def test_a_graph_without_weights_is_refused():
    graph = Builder(4).dense(2, 4).graph()
    with pytest.raises(ModelError, match="no values for the kernel"):
        chain_of(Graph(graph.name, graph.nodes, graph.outputs))


def test_inputs_of_another_shape_are_refused():
    with pytest.raises(ModelError, match="takes inputs of shape"):
        chain_of(Builder(4).dense(2, 4).graph()).prepared(np.zeros((3, 5)))
