from dataclasses import replace

import numpy as np
import pytest

from zoolens.base.errors import DatasetError, ModelError
from zoolens.contrib.arora.bound import MARGINS, arora_bound
from zoolens.contrib.arora.chain import chain_of
from zoolens.contrib.arora.stability import smoothness, stability
from zoolens.findings.graph.ir.model import Graph, Node, Parameter
from zoolens.findings.graph.passes.canonical import canonical
from zoolens.findings.graph.structures.structure_sources import find_entries, source_of
from zoolens.inventory.datasets.opening import open_dataset


def network(*matrices, biases=None):
    """Dense layers with ReLU between them."""
    nodes, weights = [Node("x", "input", (), (1, matrices[0].shape[1]))], {}
    for at, matrix in enumerate(matrices):
        parameters = [Parameter("kernel", matrix.shape, f"w{at}")]
        weights[f"w{at}"] = matrix
        if biases is not None:
            parameters.append(Parameter("bias", (len(matrix),), f"b{at}"))
            weights[f"b{at}"] = biases[at]
        nodes.append(Node(f"a{at}", "dense", (nodes[-1].name,), (1, len(matrix)), {}, tuple(parameters)))
        if at < len(matrices) - 1:
            nodes.append(Node(f"r{at}", "relu", (f"a{at}",), (1, len(matrix))))
    return Graph("dense", tuple(nodes), (nodes[-1].name,), weights)


def test_two_identities_by_hand():
    """x = (3, 4) passes unchanged: every cushion is 1/√2, nothing is contracted, the sum is 2 · 2 · 2."""
    found = arora_bound(network(np.eye(2), np.eye(2)), np.array([[3.0, 4.0]]), np.array([1]), margin=0.5)
    for layer in found.layers:
        assert layer.cushion == pytest.approx(0.5**0.5)
        assert layer.interlayer == pytest.approx(0.5**0.5)
        assert layer.term == pytest.approx(4)
    assert (found.contraction, found.spread, found.largest_output) == pytest.approx((1, 1, 5))
    assert found.margin_loss == 0
    assert found.capacity == pytest.approx(1 * 2 * 5 / 0.5 * 8**0.5)
    assert found.bound == found.capacity
    assert found.vacuous
    assert found.covered
    assert "vacuous" in found.sentence


def test_a_negative_number_is_contracted_away():
    found = arora_bound(network(np.eye(2), np.eye(2)), np.array([[3.0, -4.0]]), np.array([0]), margin=1.0)
    assert found.contraction == pytest.approx(5 / 3)  # ‖(3, −4)‖ / ‖(3, 0)‖
    assert found.layers[0].interlayer == pytest.approx(3 / 5)  # J = diag(1, 0): ‖(3, 0)‖ / (1 · ‖(3, −4)‖)


def test_many_inputs_with_a_large_margin_are_not_vacuous():
    inputs = np.tile([[3.0, 0.1], [0.1, 3.0]], (5000, 1))
    found = arora_bound(network(np.eye(2), np.eye(2)), inputs, np.tile([0, 1], 5000), margin=2.0)
    assert found.bound < found.chance
    assert not found.vacuous
    assert "vacuous" not in found.sentence


def jacobian(matrices, x, first, last):
    values = [matrices[0] @ x]
    for matrix in matrices[1:]:
        values.append(matrix @ np.maximum(values[-1], 0))
    product = np.eye(len(values[first]))
    for at in range(first, last):
        product = matrices[at + 1] @ (product * (values[at] > 0)[:, None])
    return product, values


def test_cushions_of_a_random_network_are_those_of_its_matrices():
    generator = np.random.default_rng(0)
    matrices = [generator.standard_normal(shape) for shape in [(6, 4), (5, 6), (3, 5)]]
    inputs = generator.standard_normal((7, 4))
    graph = network(*matrices)
    found = stability(chain_of(graph), inputs, samples=10, seed=0)
    for first in range(3):
        pairs = [1 / np.sqrt(len(matrices[first]))]
        for last in range(first + 1, 3):
            for x in inputs:
                derivative, values = jacobian(matrices, x, first, last)
                length = np.linalg.norm(derivative @ values[first])
                pairs.append(length / np.linalg.norm(derivative) / np.linalg.norm(values[first]))
        assert found.interlayer[first] == pytest.approx(min(pairs))
    assert found.interlayer_errors.tolist() == [0, 0, 0]  # few numbers: exact


def test_random_vectors_come_close_to_the_exact_norms_and_tell_their_error():
    generator = np.random.default_rng(1)
    graph = network(np.eye(4), generator.standard_normal((40, 4)) * [3, 1, 1, 1])
    inputs = np.array([[0.1, 1, 1, 1]])  # along directions that the second layer shortens: below 1 / √4
    exact = stability(chain_of(graph), inputs, samples=40, seed=0)
    drawn = [stability(chain_of(graph), inputs, samples=39, seed=seed) for seed in range(20)]
    off = np.array([one.interlayer[0] / exact.interlayer[0] - 1 for one in drawn])
    errors = np.array([one.interlayer_errors[0] for one in drawn])
    assert 0 < errors.mean() < 0.1
    assert np.abs(off).max() < 5 * errors.mean()


def test_scaling_a_layer_changes_nothing_but_the_margin():
    generator = np.random.default_rng(2)
    matrices = [generator.standard_normal(shape) for shape in [(6, 4), (3, 6)]]
    inputs, labels = generator.standard_normal((9, 4)), generator.integers(0, 3, 9)
    one = arora_bound(network(*matrices), inputs, labels, margin=0.5)
    other = arora_bound(network(10 * matrices[0], matrices[1]), inputs, labels, margin=5.0)
    assert other.bound == pytest.approx(one.bound)


def test_biases_are_the_weights_of_a_constant():
    """The network with biases equals the one that gets a 1 beside its input, without biases."""
    generator = np.random.default_rng(3)
    first, last = generator.standard_normal((3, 2)), generator.standard_normal((2, 3))
    biases = [generator.standard_normal(3), generator.standard_normal(2)]
    inputs, labels = generator.standard_normal((5, 2)), generator.integers(0, 2, 5)
    wide = np.vstack([np.column_stack([first, biases[0]]), [0, 0, 1]])
    expected = arora_bound(
        network(wide, np.column_stack([last, biases[1]])),
        np.column_stack([inputs, np.ones(5)]),
        labels,
        margin=1.0,
    )
    assert arora_bound(network(first, last, biases=biases), inputs, labels, margin=1.0).bound == expected.bound


def test_smoothness_falls_with_the_noise():
    generator = np.random.default_rng(4)
    graph = network(*(generator.standard_normal(shape) for shape in [(20, 8), (20, 20), (5, 20)]))
    chain, inputs = chain_of(graph), generator.standard_normal((20, 8))
    quiet, loud = (smoothness(chain, inputs, np.full(3, level), seed=0) for level in (1e-9, 0.1))
    assert loud < 20 < quiet


def test_the_margin_is_chosen_among_fixed_ones_and_paid_for():
    inputs = np.tile([[3.0, 0.1], [0.1, 3.0]], (5000, 1))
    labels = np.tile([0, 1], 5000)
    found = arora_bound(network(np.eye(2), np.eye(2)), inputs, labels)
    assert found.margin == 2.0  # the largest power of two that all margins (2.9) exceed
    assert found.selection == pytest.approx((np.log(len(MARGINS)) / 20_000) ** 0.5)
    given = arora_bound(network(np.eye(2), np.eye(2)), inputs, labels, margin=2.0)
    assert found.bound == pytest.approx(given.bound + found.selection)


def test_labels_and_inputs_must_fit():
    graph = network(np.eye(2), np.eye(2))
    with pytest.raises(DatasetError, match="has 2 classes"):
        arora_bound(graph, np.ones((1, 2)), np.array([2]))
    with pytest.raises(DatasetError, match="1 inputs and 2 labels"):
        arora_bound(graph, np.ones((1, 2)), np.array([0, 1]))


def demo(name, n):
    source = source_of(find_entries([f"demo:{name}"])[0])
    graph = canonical(source.importer.load(replace(source.request, weights=True)))
    data = open_dataset("demo")
    images = np.stack([data.read(at).value[:, :, 0] for at in range(n)])
    return graph, (images / 255 - 0.286) / 0.353, data.labels()[:n]


@pytest.mark.parametrize("name", ["mlp-wide", "lenet-narrow"])
def test_demo_networks_get_a_number_and_it_is_vacuous(name):
    graph, inputs, labels = demo(name, 40)
    found = arora_bound(graph, inputs, labels)
    assert 10 < found.bound < 1e5
    assert found.vacuous
    assert found.margin_loss < found.chance
    assert all(0 < layer.cushion <= 1 for layer in found.layers if layer.kind == "dense")
    accuracy = 1 - arora_bound(graph, inputs, labels, margin=1e-12).margin_loss
    assert accuracy > 0.8


def test_a_residual_network_is_refused():
    graph, inputs, labels = demo("resnet-tiny", 1)
    with pytest.raises(ModelError, match="does not cover resnet-tiny"):
        arora_bound(graph, inputs, labels)
