"""MXNet symbols as graphs: what the defaults of its operators mean. `test_gluon` has MXNet itself."""

import json

import pytest

from zoolens.base.errors import ModelError
from zoolens.contrib.gluon.symbols import graph_of_symbol

IMAGE = (1, 4, 7, 7)


def variable(name):
    return {"op": "null", "name": name, "inputs": []}


def operator(op, name, inputs, **attributes):
    written = {key: str(value) for key, value in attributes.items()}
    return {"op": op, "name": name, "attrs": written, "inputs": [[position, 0, 0] for position in inputs]}


def read(nodes, shapes, **options):
    document = {"nodes": nodes, "heads": [[len(nodes) - 1, 0, 0]]}
    return graph_of_symbol(json.loads(json.dumps(document)), shapes, "net", **options)


def read_one(op, shape, *variables, **attributes):
    """The node of one operator on an image; `variables` are (name, shape) pairs."""
    nodes = [variable("data"), *(variable(name) for name, _ in variables)]
    nodes.append(operator(op, "net0_it_fwd", range(len(nodes)), **attributes))
    graph = read(nodes, {"data": IMAGE, "net0_it_fwd_output": shape, **dict(variables)}, prefix="net0_")
    return graph.nodes[-1]


def test_a_small_network():
    nodes = [
        variable("data"),
        variable("conv_weight"),
        operator("Convolution", "conv_fwd", [0, 1], kernel=(3, 3), pad=(1, 1), num_filter=8, no_bias=True),
        variable("dense_weight"),
        variable("dense_bias"),
        operator("FullyConnected", "dense_fwd", [2, 3, 4], num_hidden=5),
    ]
    shapes = {"data": IMAGE, "conv_weight": (8, 4, 3, 3), "conv_fwd_output": (1, 8, 7, 7)}
    graph = read(nodes, {**shapes, "dense_weight": (5, 392), "dense_bias": (5,), "dense_fwd_output": (1, 5)})
    assert [(node.op, node.shape) for node in graph] == [
        ("input", IMAGE),
        ("conv", (1, 8, 7, 7)),
        ("flatten", (1, 392)),
        ("dense", (1, 5)),
    ]
    conv, dense = graph.nodes[1], graph.nodes[-1]
    assert (conv.get("stride"), conv.get("pads"), conv.get("groups"), conv.axes) == ((1, 1), (1, 1, 1, 1), 1, "NCHW")
    assert [one.role for one in conv.parameters] == ["kernel"]
    assert [one.role for one in dense.parameters] == ["kernel", "bias"]
    assert graph.parameters == 8 * 4 * 9 + 5 * 392 + 5


@pytest.mark.parametrize(
    ("attributes", "learned", "roles"),
    [
        ({"eps": 1e-5, "fix_gamma": False}, {"gamma", "beta"}, ["scale", "shift", "mean", "variance"]),
        ({"eps": 1e-5}, {"gamma", "beta"}, ["shift", "mean", "variance"]),  # gamma is fixed unless told otherwise
        ({"eps": 1e-5, "fix_gamma": True}, set(), ["mean", "variance"]),  # gluon's scale=False, center=False
    ],
)
def test_norms_have_only_what_is_learned(attributes, learned, roles):
    names = ["gamma", "beta", "running_mean", "running_var"]
    nodes = [variable("data"), *map(variable, names), operator("BatchNorm", "norm_fwd", range(5), **attributes)]
    shapes = {"data": IMAGE, **dict.fromkeys(names, (4,)), "norm_fwd_output": IMAGE}
    norm = read(nodes, shapes, learned=learned).nodes[-1]
    assert [one.role for one in norm.parameters] == roles
    assert norm.get("epsilon") == 1e-5


def test_a_batch_norm_that_names_no_epsilon_has_that_of_mxnet():
    names = ["gamma", "beta", "running_mean", "running_var"]
    nodes = [variable("data"), *map(variable, names), operator("BatchNorm", "norm_fwd", range(5))]
    shapes = {"data": IMAGE, **dict.fromkeys(names, (4,)), "norm_fwd_output": IMAGE}
    assert read(nodes, shapes, learned={"gamma", "beta"}).nodes[-1].get("epsilon") == 1e-3


@pytest.mark.parametrize(
    ("attributes", "shape", "op", "expected"),
    [
        ({"pool_type": "max", "pad": (1, 1)}, (1, 4, 4, 4), "max_pool", {"pads": (1, 1, 1, 1)}),
        ({"pool_type": "max", "pooling_convention": "full"}, (1, 4, 3, 3), "max_pool", {"pads": (0, 0, 0, 0)}),
        ({"pool_type": "max", "kernel": (2, 2), "pooling_convention": "full"}, (1, 4, 4, 4), "max_pool",
         {"pads": (0, 0, 1, 1)}),
        ({"pool_type": "avg", "pad": (1, 1)}, (1, 4, 4, 4), "avg_pool", {"count_pad": True}),
        ({"pool_type": "avg", "pad": (1, 1), "count_include_pad": False}, (1, 4, 4, 4), "avg_pool",
         {"count_pad": None}),
        ({"pool_type": "avg", "global_pool": True}, (1, 4, 1, 1), "adaptive_avg_pool", {"size": (1, 1)}),
        ({"pool_type": "avg", "kernel": (2, 2), "pooling_convention": "full"}, (1, 4, 4, 4), "unknown",
         {"source_op": "Pooling"}),
        ({"pool_type": "lp"}, (1, 4, 3, 3), "unknown", {"source_op": "Pooling"}),
    ],
)  # fmt: skip
def test_pools(attributes, shape, op, expected):
    node = read_one("Pooling", shape, **{"kernel": (3, 3), "stride": (2, 2), **attributes})
    assert node.op == op
    assert {name: node.get(name) for name in expected} == expected


@pytest.mark.parametrize(
    ("op", "attributes", "expected"),
    [
        ("Activation", {"act_type": "softrelu"}, ("softplus", {})),
        ("Activation", {"act_type": "softsign"}, ("unknown", {"source_op": "Activation"})),
        ("LeakyReLU", {}, ("leaky_relu", {"alpha": 0.25})),
        ("LeakyReLU", {"act_type": "gelu"}, ("gelu", {})),
        ("clip", {"a_min": 0, "a_max": 6}, ("clip", {"low": 0.0, "high": 6.0})),
        ("LRN", {"nsize": 5}, ("lrn", {"size": 5, "alpha": 1e-4, "beta": 0.75, "bias": 2.0})),
        ("Dropout", {"p": 0.2}, ("dropout", {"rate": 0.2})),
        ("_rminus_scalar", {"scalar": 2}, ("sub", {"scalar": 2.0, "reverse": True})),
        ("softmax", {}, ("softmax", {"axis": 3})),
        ("_contrib_Novelty", {}, ("unknown", {"source_op": "_contrib_Novelty"})),
    ],
)
def test_operators(op, attributes, expected):
    node = read_one(op, IMAGE, **attributes)
    assert (node.op, dict(node.attributes)) == expected
    assert node.source == "it"  # neither the network's prefix nor gluon's suffix


def test_a_prelu_has_its_slopes():
    node = read_one("LeakyReLU", IMAGE, ("alpha", (4,)), act_type="prelu")
    assert [(one.role, one.shape) for one in node.parameters] == [("alpha", (4,))]


def test_concatenation_counts_axes_from_the_front():
    nodes = [variable("data"), operator("Concat", "both", [0, 0], dim=-3, num_args=2)]
    node = read(nodes, {"data": IMAGE, "both_output": (1, 8, 7, 7)}).nodes[-1]
    assert (node.op, node.inputs, node.get("axis")) == ("concat", ("data", "data"), 1)


def test_a_value_without_a_shape_is_an_error():
    with pytest.raises(ModelError, match="shape of 'x'"):
        read([variable("data"), operator("relu", "x", [0])], {"data": IMAGE})
