"""Facts that no library is needed for: layers written down, and what is said of them."""

import pytest

from zoolens.training.crosstrain.training.diff import defaults, heads, recipe_structure, sizes
from zoolens.training.crosstrain.training.diff.recipe_diff_words import as_data, lines
from zoolens.training.crosstrain.training.diff.recipe_findings import Item, Same, StaticDiff, compared, named, tallied
from zoolens.training.pairs.reading.side_facts import LayerFact, LossFact, NormFact, PaddingFact, SideFacts


def side(*layers, norms=(), channels="first", padding=(1, 0)):
    return SideFacts(
        versions={"framework": "1"},
        network="by hand",
        layers=layers,
        drawn=(),
        norms=norms,
        optimizers=(),
        loss=LossFact(name="loss", reduction="mean", takes="logits", largest=1000),
        padding=PaddingFact(before=padding[0], after=padding[1], asked="so"),
        channels=channels,
    )


def conv(name, **more):
    given = {"kernel": (3, 3), "stride": (2, 2), "pads": (1, 1, 1, 1), "learned": {"kernel": 90}}
    return LayerFact(name=name, op="conv", **{**given, **more})


def test_asymmetric_padding_of_aligned_layers_is_one_item_with_its_count():
    a, b = [
        [conv(f"{letter}{n}", pads=pads) for n in range(3)]
        for letter, pads in (("a", (1, 1, 1, 1)), ("b", (0, 0, 1, 1)))
    ]
    layers, rule = recipe_structure.paddings(list(zip(a, b, strict=True)), side(*a), side(*b, padding=(0, 1)))
    assert (layers.a, layers.b, layers.layers) == ("padding 1 on every side", "padding 1 at bottom and right only", 3)
    assert (rule.a, rule.b, rule.layers) == ("top and left (so)", "bottom and right (so)", 3)


def test_parameters_are_attributed_to_layers_without_a_rest():
    a = [conv("a1"), conv("a2")]
    b = [conv("b1", learned={"kernel": 90, "bias": 10}), conv("b2", learned={"kernel": 90, "bias": 5})]
    extra = LayerFact(name="bn", op="batch_norm", learned={"scale": 7, "shift": 7})
    shares = sizes.attributed(list(zip(a, b, strict=True)), side(*a), side(*b, extra))
    assert shares == {"the biases of 2 convolutions": 15, "scales and shifts of batch norms": 14}
    [item] = sizes.parameters(list(zip(a, b, strict=True)), side(*a), side(*b, extra))
    assert (item.a, item.b) == ("180", "209")
    assert "other layers" not in item.evidence


def test_parameters_without_a_known_place_are_said_to_be_elsewhere():
    table = LayerFact(name="table", op="embedding", learned={"table": 12})
    [item] = sizes.parameters([], side(), side(table))
    assert "+12 in other layers" in item.evidence


def test_the_head_names_pools_widths_and_the_last_activation():
    pool = LayerFact(name="p", op="adaptive_avg_pool", given=(512, 1, 1), shape=(512, 7, 7))
    flat = LayerFact(name="f", op="flatten", given=(512, 7, 7), shape=(25088,))
    dense = LayerFact(name="d", op="dense", given=(25088,), shape=(10,))
    softmax = LayerFact(name="s", op="softmax", given=(10,), shape=(10,))
    [item] = heads.heads(side(conv("c"), pool, flat, dense), side(conv("c"), dense, softmax))
    assert item.a == "average pool to 7×7 → flatten 512×7×7 → dense 25088→10"
    assert item.b == "dense 25088→10 → softmax"
    assert heads.flattened(side(flat)) == 1


def test_norms_with_several_settings_are_tallied():
    norms = [NormFact(layer=str(n), epsilon=1e-5 if n else 1e-3, kept=0.9, divisor="n") for n in range(3)]
    epsilon, kept, divisor = defaults.norms(side(norms=norms), side(norms=norms[1:]))
    assert isinstance(epsilon, Item)
    assert (epsilon.a, epsilon.b) == ("1e-05 in 2, 0.001 in 1", "1e-05")
    assert isinstance(kept, Same)
    assert isinstance(divisor, Same)


@pytest.mark.parametrize(("values", "text"), [(["x"], "x"), (["x", "y", "x"], "x in 2, y in 1"), ([], "none")])
def test_tallies(values, text):
    assert tallied(values) == text


def test_long_lists_of_names_are_cut():
    assert named([str(n) for n in range(6)]) == "0, 1, 2, 3 and 2 more"


def test_lines_group_by_kind_and_say_what_is_equal():
    found = (compared("norm", "epsilon", "1", "2", evidence="seen", layers=53), compared("norm", "kept", "0.9", "0.9"))
    diff = StaticDiff("a:x", "b:x", ("A's", "B's"), ({"a": "1"}, {"b": "2"}), found[:1], found[1:])
    text = lines(diff)
    assert text.index("Batch norm") + 1 == text.index("  epsilon (53 layers)")
    assert "      seen" in text
    assert "      seen" not in lines(diff, evidence=False)
    assert any("kept 0.9" in line for line in text)
    assert as_data(diff)["differences"][0]["layers"] == 53
