import xml.etree.ElementTree as ET

import pytest

from zoolens.graph.diff.conftest import densenet, resnet
from zoolens.graph.diff.page import html
from zoolens.graph.diff.picture import safe, svg
from zoolens.graph.diff.picture_cards import cards
from zoolens.graph.diff.report import diff

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
    assert sum(card.macs_a for card in cards(found)) == found.cost_a.macs
    assert sum(card.macs_b for card in cards(found)) == found.cost_b.macs


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
