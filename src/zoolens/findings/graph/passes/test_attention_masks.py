import numpy as np
import pytest

from zoolens.findings.graph.passes.attention_masks import unify_attention_masks
from zoolens.findings.graph.passes.proof import random_inputs
from zoolens.findings.graph.reference.interpreter import run

TOKENS = 6


def causal(hidden):
    return np.where(np.tri(TOKENS, dtype=bool), 0.0, hidden)


def other(hidden):
    """Hides some places, but none of the first column: no row is hidden as a whole."""
    mask = np.zeros((TOKENS, TOKENS))
    mask[2:, 3] = hidden
    return mask


class Attending:
    """Draws attention under a mask."""

    def __init__(self, drawing, batch=1):
        self.sketch = drawing()
        self.builder = self.sketch.builder
        self.x = self.builder.add("input", (), (batch, 2, TOKENS, 4), name="x")
        self.lengths = self.builder.add("input", (), (1, 1, 1, TOKENS), name="lengths")

    def stored(self, values):
        tensor = self.builder.parameter("value", values.shape, f"w{len(self.builder.weights)}", np.asarray(values))
        return self.builder.leaf("constant", tensor)

    def compare(self, given=None):
        name = self.lengths if given is None else given
        return self.builder.add("compare", (name,), self.sketch.shape(name), kind=">", scalar=0.0)

    def added(self, condition, hidden=-1e9):
        zero, number = self.stored(np.zeros(())), self.stored(np.asarray(hidden))
        return self.builder.add("where", (condition, zero, number), self.sketch.shape(condition))

    def graph(self, mask, **attributes):
        inputs = (self.x, self.x, self.x, mask)
        return self.sketch.graph(self.builder.add("attention", inputs, self.sketch.shape(self.x), **attributes))


def unified(graph):
    """The rewritten graph, which computes the same."""
    after = unify_attention_masks(graph)
    feed = random_inputs(graph, 0)
    if "lengths" in feed:
        feed["lengths"][..., 0] = 1.0  # the first column is seen, so that no row is hidden as a whole
    before, now = (next(iter(run(made, feed).values())) for made in (graph, after))
    np.testing.assert_allclose(now, before, atol=1e-6)
    return after


def attention(graph):
    (node,) = [node for node in graph if node.op == "attention"]
    return node


@pytest.mark.parametrize("hidden", [-1e4, -1e9, -np.inf])
def test_a_causal_constant_is_a_setting(drawing, hidden):
    net = Attending(drawing)
    found = attention(unified(net.graph(net.stored(causal(hidden)))))
    assert found.get("causal")
    assert len(found.inputs) == 3


def test_scores_outweigh_a_small_number_which_hides_nothing_then(drawing):
    net = Attending(drawing)
    found = attention(unified(net.graph(net.stored(causal(-60.0)), scale=30.0)))
    assert not found.get("causal")
    net = Attending(drawing)
    found = attention(unified(net.graph(net.added(net.compare(), -60.0), scale=30.0)))
    assert found.inputs[3].startswith("where")


@pytest.mark.parametrize("hidden", [-100.0, -1e9])
@pytest.mark.parametrize("first", [True, False])
def test_numbers_that_are_added_are_not_joined_with_truth_values(drawing, hidden, first):
    net = Attending(drawing)
    both = [net.stored(other(hidden)), net.added(net.compare())]
    graph = net.graph(net.sketch.two("add", *(both if first else reversed(both))))
    assert attention(unified(graph)) == attention(graph)


def test_a_causal_constant_that_is_added_to_a_condition_leaves_the_condition(drawing):
    net = Attending(drawing)
    graph = net.graph(net.sketch.two("add", net.stored(causal(-1e9)), net.added(net.compare())))
    found = attention(unified(graph))
    assert found.get("causal")
    assert found.inputs[3].startswith("compare")


def test_truth_values_are_joined(drawing):
    net = Attending(drawing)
    constant = net.stored(other(-1.0) == 0)
    graph = net.graph(net.sketch.two("minimum", constant, net.compare()))
    found = unified(graph)
    assert found.by_name[attention(found).inputs[3]].op == "minimum"


def test_a_sum_of_truth_values_is_none_of_its_parts(drawing):
    """A sum of two is true where one is; only numbers that are added hide where one does."""
    net = Attending(drawing)
    graph = net.graph(net.sketch.two("add", net.stored(causal(-1.0) == 0), net.compare()))
    assert attention(unified(graph)) == attention(graph)


def test_a_triangle_over_samples_is_not_causal(drawing):
    """(samples, 1, 1, columns): each sample of a batch sees one place more than the one before."""
    net = Attending(drawing, batch=TOKENS)
    shape = (TOKENS, 1, 1, TOKENS)
    found = attention(unified(net.graph(net.sketch.reshape(net.stored(causal(-1e9)), *shape))))
    assert not found.get("causal")
    net = Attending(drawing, batch=TOKENS)
    triangle = net.sketch.reshape(net.stored(causal(-1.0) == 0), *shape)
    found = attention(unified(net.graph(net.sketch.two("minimum", triangle, net.compare()))))
    assert not found.get("causal")


def test_conditions_keep_their_axes_when_their_mask_gets_another_shape(drawing):
    """A condition of each sample stays one of samples where the mask of samples and columns gets axes between."""
    net = Attending(drawing, batch=TOKENS)
    samples = net.compare(net.builder.add("input", (), (TOKENS, 1), name="samples"))
    columns = net.compare(net.builder.add("input", (), (1, TOKENS), name="columns"))
    # Samples that are hidden as a whole see all places alike only where no digit of a score is left.
    added = net.added(net.sketch.two("minimum", samples, columns), hidden=-1e30)
    found = unified(net.graph(net.sketch.reshape(added, TOKENS, 1, 1, TOKENS)))
    assert found.by_name[attention(found).inputs[3]].shape == (TOKENS, 1, 1, TOKENS)
