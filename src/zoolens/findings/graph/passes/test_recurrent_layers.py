"""Recurrent networks of torch, split into layers and directions, compute what torch computes."""

import numpy as np
import pytest

from zoolens.findings.graph.importers.torch.torch_library import graph_of_module
from zoolens.findings.graph.passes.canonical import canonical
from zoolens.findings.graph.passes.recurrent_layers import split_recurrent_layers
from zoolens.findings.graph.reference.interpreter import run

torch = pytest.importorskip("torch")
nn = torch.nn


class Uses(nn.Module):
    def __init__(self, layer, use):
        super().__init__()
        self.layer, self.use = layer, use

    def forward(self, x):
        return self.use(self.layer, x)


def final(index, place):
    """The state (0) or the cell (1) after the last step, of one layer and direction."""
    return lambda layer, x: layer(x)[1][index][place]


CASES = {
    "lstm, states": (nn.LSTM, {}, lambda layer, x: layer(x)[0]),
    "lstm, last cell": (nn.LSTM, {}, final(1, -1)),
    "two lstms, both ways, last state": (nn.LSTM, {"num_layers": 2, "bidirectional": True}, final(0, -2)),
    "gru, both ways, last place": (nn.GRU, {"bidirectional": True}, lambda layer, x: layer(x)[0][:, -1]),
    "gru, one direction's part": (nn.GRU, {"bidirectional": True}, lambda layer, x: layer(x)[0][:, 0, 4:]),
    "rnn with relu": (nn.RNN, {"nonlinearity": "relu", "bias": False}, lambda layer, x: layer(x)[0]),
    "rnn, reversed": (nn.RNN, {}, lambda layer, x: layer(x.flip(1))[0].flip(1)),
    "rnn with a first state": (nn.RNN, {}, lambda layer, x: layer(x, x[:, :1, :1].expand(1, 1, 4))[0]),
    "gru, steps first": (nn.GRU, {"batch_first": False}, lambda layer, x: layer(x.transpose(0, 1))[0].transpose(0, 1)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_split_network_computes_the_same(name):
    make, options, use = CASES[name]
    torch.manual_seed(0)
    module = Uses(make(3, 4, **{"batch_first": True, **options}), use).eval()
    x = torch.randn(1, 5, 3)
    graph = canonical(split_recurrent_layers(graph_of_module(module, [x], name, weights=True)))
    assert "recurrent" not in {node.op for node in graph}
    found = run(graph, {graph.inputs[0].name: x.double().numpy()})[graph.outputs[0]]
    np.testing.assert_allclose(found, module(x).detach().numpy(), rtol=0, atol=1e-6)


def test_a_layer_that_is_fed_a_reversed_sequence_runs_from_the_end():
    module = Uses(nn.GRU(3, 4, batch_first=True), lambda layer, x: layer(x.flip(1))[0].flip(1))
    graph = split_recurrent_layers(graph_of_module(module, [torch.zeros(1, 5, 3)], "net", weights=True))
    assert [(node.op, node.get("reverse")) for node in graph] == [("input", None), ("recurrent_layer", True)]


def test_each_gate_has_its_own_tensors():
    module = Uses(nn.GRU(3, 4, batch_first=True), lambda layer, x: layer(x)[0])
    graph = split_recurrent_layers(graph_of_module(module, [torch.zeros(1, 5, 3)], "net", weights=True))
    layer = graph.nodes[-1]
    kernel = module.layer.weight_ih_l0.detach().numpy()
    for place, gate in enumerate(("reset", "update", "new")):
        tensor = layer.parameter(f"{gate}_kernel")
        assert np.array_equal(graph.values(layer, tensor), kernel[4 * place : 4 * place + 4])
