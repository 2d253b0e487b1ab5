import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest

from zoolens.comparisons.matrix import agreement_matrix
from zoolens.comparisons.picture import html, safe, svg

HOSTILE = "<script>alert('x')</script>&\x00\x1b[31m"


@pytest.fixture(scope="module")
def matrix(demo_store):
    return agreement_matrix("demo:*", store=demo_store)


def texts(picture):
    return ["".join(one.itertext()) for one in ET.fromstring(picture).iter() if one.tag.endswith("}text")]


def test_the_picture_has_every_name_twice_and_every_number(matrix):
    found = texts(svg(matrix))
    for name in matrix.names:
        assert found.count(name) == 2
    for value in matrix.agreement.ravel():
        assert f"{100 * value:.1f}" in found
    assert any("200 inputs of fashion-mnist" in one for one in found)


def test_families_are_framed_once(matrix):
    framed = replace(matrix, groups=(0, 0, 1, 2))
    boxes = [one for one in ET.fromstring(svg(framed)).iter() if one.get("class") == "frame"]
    assert len(boxes) == 1


def test_what_cannot_be_compared_is_a_gap(matrix):
    agreement = matrix.agreement.copy()
    agreement[0, 1] = agreement[1, 0] = np.nan
    found = svg(replace(matrix, agreement=agreement, notes=("the reason",)))
    assert found.count('class="gap"') == 3  # two cells and the legend
    assert 'class="gap"' not in svg(matrix)
    assert "<li>the reason</li>" in html(replace(matrix, notes=("the reason",)))


def test_nearly_all_is_not_shown_as_all(matrix):
    many = replace(
        matrix,
        names=tuple(f"m{i}" for i in range(20)),
        runs=matrix.runs * 5,
        agreement=np.full((20, 20), 0.998) + 0.002 * np.eye(20),
        difference=np.zeros((20, 20)),
        accuracy=np.ones(20),
        groups=(0,) * 20,
    )
    found = texts(svg(many))
    assert (found.count("100"), found.count(">99")) == (20, 380)
    few = texts(svg(replace(matrix, agreement=np.full((4, 4), 0.9997) + 0.0003 * np.eye(4))))
    assert (few.count("100.0"), few.count(">99.9")) == (4, 12)


def test_one_outlier_does_not_flatten_the_colours(matrix):
    def colours(agreement):
        found = ET.fromstring(svg(replace(matrix, agreement=agreement))).iter()
        return {one.get("fill") for one in found if one.tag.endswith("}rect") and one.get("width") == "45"}

    values = np.array([[1, 0.9, 0.8, 0], [0.9, 1, 0.85, 0], [0.8, 0.85, 1, 0], [0, 0, 0, 1]])
    assert len(colours(values)) == 5


def test_names_are_only_text(matrix):
    hostile = replace(matrix, names=(HOSTILE, *matrix.names[1:]), notes=(HOSTILE,))
    root = ET.fromstring(svg(hostile))
    assert not [one for one in root.iter() if one.tag.endswith("script")]
    assert "<script" not in html(hostile)
    assert "http" not in html(matrix).replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")
    assert safe("a\x00b") == "a\ufffdb"
