from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from zoolens.base.errors import ModelError
from zoolens.contrib.layerwise.test_propagation import between, examples, network, shaken
from zoolens.findings.graph.reference.interpreter import run
from zoolens.findings.twins.activations import starting_at, values_of
from zoolens.findings.twins.noise_estimate import noise_estimate, relative_difference


def test_no_noise_changes_nothing():
    graph = network(0)
    found = noise_estimate(graph, between(graph, "pool", "add"), 0.0, examples(), draws=2)
    assert (found.agreement, found.agreement_error, found.change) == (1, 0, 0)
    assert "estimate" in found.meaning


def test_more_noise_changes_more():
    graph = network(1)
    segment = between(graph, "pool", "add")
    some = [noise_estimate(graph, segment, size, examples(20), draws=6) for size in (0.01, 0.1, 1.0)]
    assert some[0].change < some[1].change < some[2].change
    assert some[0].agreement > some[2].agreement
    assert (some[0].inputs, some[0].draws) == (20, 6)
    assert all(one.change_error > 0 for one in some)


def test_noise_at_the_exit_of_a_path_leaves_the_other_path_alone():
    """The exit lies inside a residual block: what passes by it is not perturbed."""
    graph = network(0)
    inner = between(graph, "relu#2", "conv#2")
    found = noise_estimate(graph, inner, 1e-3, examples(), draws=3)
    assert 0 < found.change < 0.1


def test_the_same_seed_gives_the_same_figures():
    graph = network(2)
    segment = between(graph, "pool", "add")
    first, again, other = (noise_estimate(graph, segment, 0.3, examples(), draws=3, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first.change != other.change


def test_through_a_linear_rest_noise_grows_as_its_frobenius_norm_says():
    """Behind the last pool there is one matrix: E‖W·z‖² of noise of length m is m²·‖W‖²_F / width."""
    graph = network(3)
    pool, dense = (next(node for node in graph.nodes if node.op == op) for op in ("global_avg_pool", "dense"))
    graph = replace(graph, nodes=graph.nodes[:-1], outputs=(dense.name,))
    inputs = examples(40)
    found = noise_estimate(graph, between(graph, "add#2", pool.name), 0.5, inputs, draws=50)
    kernel = graph.weights[dense.parameters[0].key]
    size = np.linalg.norm(values_of(graph, [pool.name], {"x": inputs})[pool.name], axis=1).mean()
    expected = 0.5 * size * np.linalg.norm(kernel) / np.sqrt(kernel.shape[1])
    assert found.change == pytest.approx(expected, rel=0.15)


def test_how_far_a_replacement_is():
    graph = network(0)
    segment = between(graph, "pool", "add")
    assert relative_difference(graph, segment, graph, segment, examples()) == 0
    twin = shaken(graph, {one.key for one in graph.by_name["conv#2"].parameters if one.role == "kernel"})
    found = relative_difference(graph, segment, twin, segment, examples())
    inputs = examples()
    own = values_of(graph, ["add"], {"x": inputs})["add"]
    other = values_of(twin, ["add"], {"x": inputs})["add"]
    assert found == pytest.approx(np.linalg.norm(own - other) / np.linalg.norm(own))


def test_the_rest_of_a_network_computes_what_the_whole_does():
    graph = network(5)
    inputs = examples(3)
    known = values_of(graph, ["add"], {"x": inputs})
    rest = starting_at(graph, ["add"], graph.outputs)
    whole = [run(graph, {"x": inputs[i : i + 1]})[graph.outputs[0]] for i in range(3)]
    np.testing.assert_allclose(values_of(rest, graph.outputs, known)[graph.outputs[0]], np.concatenate(whole))


def test_mistakes():
    graph = network(0)
    segment = between(graph, "pool", "add")
    with pytest.raises(ModelError, match="no value"):
        noise_estimate(graph, replace(segment, exit="nowhere"), 0.1, examples())
    for magnitude, draws in ((-1.0, 3), (float("nan"), 3), (0.1, 0)):
        with pytest.raises(ModelError, match="Noise needs"):
            noise_estimate(graph, segment, magnitude, examples(), draws=draws)
