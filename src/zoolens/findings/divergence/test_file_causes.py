"""Layers that have weights, layers of one kind, and what is known of two files' weights."""

import pytest

from zoolens.findings.divergence.alignment import aligned
from zoolens.findings.divergence.divergence_causes import Kind
from zoolens.findings.divergence.file_causes import _alike, _learned_layers
from zoolens.findings.divergence.file_differences import FileDifference
from zoolens.findings.divergence.weight_causes import kind_of_layer, kind_of_weights
from zoolens.findings.graph.ir.builder import GraphBuilder
from zoolens.findings.graph.ir.model import Parameter
from zoolens.findings.graph.weights import rounding
from zoolens.findings.graph.weights.weight_diff import TensorPair, WeightDiff


def graph():
    builder = GraphBuilder("tables", keep_weights=False)
    states = builder.add("input", (), (1, 4), name="x")
    for place, extent in enumerate((1, 4)):
        values = Parameter("values", (extent,), f"table{place}")
        table = builder.add("constant", (), (extent,), source="layers.0.table", parameters=(values,))
        states = builder.add("mul", (states, table), (1, 4))
    kernel = Parameter("kernel", (4, 4), "kernel")
    return builder.finish([builder.add("dense", (states,), (1, 4), source="layers.0.fc1", parameters=(kernel,))])


def test_tables_of_constants_are_no_layers_with_weights():
    made = graph()
    assert _learned_layers(aligned(made, made)) == 1


def test_constants_of_other_shapes_and_values_are_listed_apart():
    made = graph()
    graphs = aligned(made, made)
    tables = [node.name for node in made.nodes if node.op == "constant"]
    found = [FileDifference("weights", name, name, "other values") for name in tables]
    found.append(FileDifference("weights", tables[0], tables[0], "the same numbers in another order"))
    assert len({_alike(graphs, difference) for difference in found}) == 3


@pytest.mark.parametrize(
    ("label", "kind"),
    [
        ("model.layers.10.mlp.fc1 (dense)", "model.layers.*.mlp.fc1 (dense)"),
        ("/h.3/mlp/MatMul_1 (dense)", "/h.*/mlp/MatMul_1 (dense)"),
        ("blk.0.w2 (dense)", "blk.*.w2 (dense)"),
        ("x/1/2/y (conv)", "x/*/*/y (conv)"),
    ],
)
def test_the_number_of_a_block_is_no_number_of_a_matrix(label, kind):
    assert kind_of_layer(label) == kind


@pytest.mark.parametrize(("repeated", "kind"), [(True, Kind.QUANTISATION), (False, Kind.WEIGHTS)])
def test_only_rounding_that_was_repeated_is_called_quantisation(repeated, kind):
    pair = TensorPair("w", ("F32", "Q4_K"), 256, rounding.Kind.ROUNDED, 0.05, 0.05, "B", repeated=repeated)
    assert kind_of_weights(WeightDiff((pair,), (), ((), ()))) is kind
