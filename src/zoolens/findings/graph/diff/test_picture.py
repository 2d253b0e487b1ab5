import xml.etree.ElementTree as ET

import pytest

from zoolens.findings.graph.diff.conftest import Sketch, densenet, resnet
from zoolens.findings.graph.diff.diff_page import html
from zoolens.findings.graph.diff.picture import safe, svg
from zoolens.findings.graph.diff.picture_cards import State, cards
from zoolens.findings.graph.diff.report import diff

HOSTILE = "<script>alert('x')</script>&\x00\x1b[31m"


@pytest.fixture(scope="module")
def found():
    return diff(resnet(), resnet(strided="1x1", epsilon=1e-3), names=(f"torch {HOSTILE}", "Keras"))


def test_equal_blocks_are_put_together_and_differing_ones_stay_open(found):
    stage = [card for card in cards(found) if card.stage == "stage 3"]
    assert [(card.title_a, card.count, card.major) for card in stage] == [
        ("residual block 1", 1, True),
        ("residual blocks 2–6 ×5", 5, False),
    ]
    assert [line.marks for line in stage[0].lines] == [(1, 2), (1, 2), (2,), (2,)]


def test_costs_on_the_cards_are_those_of_the_networks(found):
    assert sum(card.cost_a.macs for card in cards(found)) == found.cost_a.macs
    assert sum(card.cost_b.macs for card in cards(found)) == found.cost_b.macs


def test_blocks_that_one_side_lacks_are_one_card_with_a_gap_beside_it():
    deeper = cards(diff(densenet((3, 4)), densenet((3, 12))))
    assert len(deeper) < 12
    missing = [card for card in deeper if not card.title_a]
    assert [(card.title_b, card.marks) for card in missing] == [("dense blocks 4–11 ×8", (1,))]


def test_the_picture_is_well_formed_and_names_are_only_text(found):
    root = ET.fromstring(svg(found))
    assert root.tag.endswith("svg")
    assert not [one for one in root.iter() if one.tag.endswith("script")]
    assert any("<script>alert" in (one.text or "") for one in root.iter())


def test_the_page_needs_nothing_else_and_escapes_names(found):
    page = html(found)
    assert "<script" not in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")
    assert "stride 2 is on the 3×3" in page


def test_text_has_no_control_characters_and_an_end():
    assert safe("a\x00b\x1b") == "a\ufffdb\ufffd"
    assert len(safe("x" * 500)) == 58


# --- what is not understood


def guarded(fused=None, *, blocks=3, opaque_macs=None):
    """A stem of single layers and residual blocks; the activation of block `fused` is an operator that nobody knows."""
    net = Sketch("guarded", 16)
    net.conv(8)
    for number in range(blocks):
        entry = net.last
        net.conv(8, act=None)
        if number == fused:
            net.add("unknown", source_op="vendor:Swirl", macs=opaque_macs)
        else:
            net.add("relu")
        net.add("add", net.conv(8, act=None), entry)
    net.head()
    return net.finish()


def shown(found):
    """All texts of the picture."""
    return [text.text or "" for text in ET.fromstring(svg(found)).iter() if text.tag.endswith("text")]


@pytest.mark.parametrize("side", [0, 1])
def test_a_card_with_an_operator_that_is_not_understood_is_neither_the_same_nor_counted(side):
    graphs = [guarded(), guarded(1)]
    found = diff(*(graphs if side else graphs[::-1]))
    open_ = [card for card in cards(found) if card.state is State.NOT_KNOWN]
    assert [card.title_a for card in open_] == ["residual block 2"]
    assert {card.state for card in cards(found)} == {State.SAME, State.NOT_KNOWN}
    costs = (open_[0].cost_a, open_[0].cost_b)
    assert [part.whole for part in costs] == [side == 1, side == 0]
    words = shown(found)
    assert "≥ 295 k MACs" in words
    assert "1 operator not understood; not known whether the same" in words
    assert "not known whether the same" in words
    assert "?" in words
    drawn = ET.fromstring(svg(found))
    assert len([one for one in drawn.iter() if one.get("class") == "open"]) == 2


def test_blocks_that_are_the_same_are_not_put_together_with_one_that_is_not_known():
    found = diff(guarded(1, blocks=4), guarded(1, blocks=4))
    states = [(card.title_a, card.state) for card in cards(found) if "block" in card.title_a]
    assert states == [
        ("residual block 1", State.SAME),
        ("residual block 2", State.NOT_KNOWN),
        ("residual blocks 3–4 ×2", State.SAME),
    ]


def test_an_operator_that_multiplies_nothing_leaves_the_cost_whole():
    found = diff(guarded(), guarded(1, opaque_macs=0))
    (card,) = [card for card in cards(found) if card.state is State.NOT_KNOWN]
    assert card.cost_b.whole
    assert card.cost_b.unknown == 1


def test_the_heads_of_the_columns_have_lower_bounds():
    words = shown(diff(guarded(), guarded(1)))
    totals = [text for text in words if text.endswith(" parameters")]
    assert [text.startswith("≥ ") for text in totals] == [False, True]


def test_cards_whose_cost_is_not_known_at_all():
    net = Sketch("opaque", 16)
    net.add("unknown", source_op="vendor:All", shape=(1, 10))
    words = shown(diff(net.finish(), net.finish()))
    assert "MACs not known" in words
    assert "1 operator not understood; not known whether the same" in words
