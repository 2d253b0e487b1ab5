import json

from zoolens.base.present.charts import for_file
from zoolens.findings.graph.cost.cost import Cost, LayerCost
from zoolens.findings.graph.cost.cost_chart import cost_chart, layer_costs


def network(layers, unknown=None):
    made = tuple(
        LayerCost(
            f"n{i}", "conv" if macs else "reshape", f"layer{i}", (1, 4), macs, 2 * macs, macs // 2, macs, 3 * macs
        )
        for i, macs in enumerate(layers)
    )
    total = sum(layers)
    return Cost(made, total, 2 * total, total // 2, 0, 0, 0, 3 * total, unknown or {})


def test_layers_that_cost_nothing_have_no_bar():
    costs = layer_costs(network([10, 0, 30]))
    assert [(bar.name, bar.first, bar.last, bar.macs) for bar in costs.bars] == [
        ("layer0", 1, 1, 10),
        ("layer2", 2, 2, 30),
    ]
    assert costs.layers == 2


def test_neighbours_of_a_very_large_network_share_a_bar_and_nothing_is_lost():
    costs = layer_costs(network([5] * 1000), most=300)
    assert len(costs.bars) == 250
    assert sum(bar.macs for bar in costs.bars) == 5000
    assert costs.bars[0].name == "layer0 … layer3"
    assert "1,000 layers, up to 4 in a bar" in cost_chart(costs).spec["title"]["subtitle"]


def test_what_nobody_can_count_is_said():
    chart = cost_chart(layer_costs(network([10], {"Mystery": 2})), "<b>net</b>")
    assert "not counted: Mystery" in chart.spec["title"]["subtitle"]
    assert chart.spec["title"]["text"] == "Cost by layer of <b>net</b>"


def test_networks_of_one_layer_and_of_none_are_drawn():
    for layers, bars in (([], 0), ([0], 0), ([7], 1)):
        costs = layer_costs(network(layers))
        assert len(costs.bars) == bars
        json.dumps(for_file(cost_chart(costs)), allow_nan=False)
