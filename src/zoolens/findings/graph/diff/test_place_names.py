import pytest

from zoolens.findings.graph.diff.alignment import align
from zoolens.findings.graph.diff.conftest import resnet
from zoolens.findings.graph.diff.place_names import LayerPlace, described, ranges

ALIGNMENT = align(resnet((2, 3)), resnet((2, 3)))


@pytest.mark.parametrize(
    ("places", "text"),
    [
        ([LayerPlace("stage 2", 1, "main", "conv", 2)], "conv 2 of block 1 of stage 2"),
        ([LayerPlace(f"stage {n}", 1, "main", "conv", 2) for n in (1, 2)], "conv 2 of blocks 1 of stages 1–2"),
        ([LayerPlace("stage 2", n, "main", "conv", 2) for n in (1, 2, 3)], "conv 2 of all blocks of stage 2"),
        ([LayerPlace("stage 1", 2, "", "pool", 1), LayerPlace("stage 2", 3, "", "pool", 1)],
         "pool 1 of the last blocks of stages 1–2"),
        ([LayerPlace("stage 1", 1, "shortcut", "conv", 1)], "the shortcut's conv of block 1 of stage 1"),
        ([LayerPlace("stage 1", 1, "branch 2", "conv", 1)], "conv 1 of branch 2 of block 1 of stage 1"),
        ([LayerPlace("stem", 0, "", "conv", 1)], "conv 1 of the stem"),
        ([LayerPlace("stage 2", 0, "", "pool", 1, after=3)], "the pool after block 3 of stage 2"),
    ],
)  # fmt: skip
def test_positions_in_words(places, text):
    assert described(places, ALIGNMENT) == text


def test_ranges():
    assert ranges([1, 2, 3, 5, 7, 8]) == "1–3, 5, 7–8"
