import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest

from zoolens.base.present import images
from zoolens.findings.comparisons.matrix import agreement_matrix
from zoolens.findings.comparisons.matrix_chart import chart, html, svg

pytestmark = [
    pytest.mark.usefixtures("trusted_models"),
    pytest.mark.skipif(not images.can_draw(), reason="NO vl-convert: the extra `reports` is not installed"),
]

HOSTILE = "<script>alert('x')</script>&\x00\x1b[31m"


@pytest.fixture(scope="module")
def matrix(demo_store):
    return agreement_matrix("demo:*", store=demo_store)


def texts(picture):
    return ["".join(one.itertext()) for one in ET.fromstring(picture).iter() if one.tag.endswith("}text")]


def many(matrix):
    return replace(
        matrix,
        names=tuple(f"m{i}" for i in range(20)),
        runs=matrix.runs * 5,
        agreement=np.full((20, 20), 0.998) + 0.002 * np.eye(20),
        difference=np.zeros((20, 20)),
        accuracy=np.ones(20),
        groups=(0,) * 20,
    )


def test_the_picture_has_every_name_twice_and_every_number(matrix):
    found = texts(svg(matrix))
    for name in matrix.names:
        assert found.count(name) == 2
    for value in matrix.agreement.ravel():
        assert f"{100 * value:.1f}" in found
    assert any("200 inputs of fashion-mnist" in one for one in found)


def test_families_are_framed_once(matrix):
    framed = chart(replace(matrix, groups=(0, 0, 1, 2))).spec["layer"][-1]
    assert framed["data"]["values"] == [{"first": matrix.names[0], "last": matrix.names[1]}]


def test_what_cannot_be_compared_is_a_gap(matrix):
    agreement = matrix.agreement.copy()
    agreement[0, 1] = agreement[1, 0] = np.nan
    gaps = replace(matrix, agreement=agreement, notes=("the reason",))
    assert [cell["hint"] for cell in chart(gaps).spec["data"]["values"] if cell["agreement"] is None] == [
        "cannot be compared", "cannot be compared",
    ]  # fmt: skip
    assert any("Grey: cannot be compared." in one for one in texts(svg(gaps)))
    assert not any("Grey" in one for one in texts(svg(matrix)))
    assert "<li>the reason</li>" in html(gaps)


def test_nearly_all_is_not_shown_as_all(matrix):
    found = texts(svg(many(matrix)))
    assert (found.count("100"), found.count(">99")) == (20, 380)
    few = texts(svg(replace(matrix, agreement=np.full((4, 4), 0.9997) + 0.0003 * np.eye(4))))
    assert (few.count("100.0"), few.count(">99.9")) == (4, 12)


def test_one_outlier_does_not_flatten_the_colours(matrix):
    agreement = np.full((20, 20), 0.9) + 0.1 * np.eye(20)
    agreement[19, :19] = agreement[:19, 19] = 0
    odd = replace(many(matrix), agreement=agreement)
    low, *_, high = chart(odd).spec["layer"][0]["encoding"]["color"]["scale"]["domain"]
    assert (low, high) == (pytest.approx(0.84), 1)
    assert any(one.startswith("≤ 84") for one in texts(svg(odd)))


def test_names_are_only_text(matrix):
    hostile = replace(matrix, names=(HOSTILE, *matrix.names[1:]), notes=(HOSTILE,))
    root = ET.fromstring(svg(hostile))
    assert not [one for one in root.iter() if one.tag.endswith("script")]
    assert any(HOSTILE[:20] in one for one in texts(svg(hostile)))
    assert HOSTILE[:20] not in html(hostile)


def test_a_picture_that_is_passed_on_tells_no_folder(matrix):
    here = replace(matrix, names=("/home/someone/net.onnx", *matrix.names[1:]), notes=("/home/someone/b.onnx changed",))
    for picture in (html(here), svg(here)):
        assert "net.onnx" in picture
        assert "someone" not in picture
