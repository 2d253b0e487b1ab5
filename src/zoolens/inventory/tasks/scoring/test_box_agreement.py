from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zoolens.inventory.tasks.scoring.box_agreement import box_agreement
from zoolens.inventory.tasks.scoring.box_lists import detections
from zoolens.inventory.tasks.scoring.box_matching import THRESHOLDS

KNOWN = [1, 2]


def made(boxes, classes=None, scores=None):
    count = len(boxes)
    return detections(
        boxes, [1] * count if classes is None else classes, [0.5] * count if scores is None else scores, KNOWN
    )


NOTHING = made([])


@st.composite
def models(draw):
    """A few boxes on a coarse grid, some of them empty, so that overlaps tie and chains of overlaps arise."""
    rows = draw(
        st.lists(st.tuples(*[st.integers(0, 3)] * 2, *[st.integers(0, 9)] * 2, st.sampled_from(KNOWN)), max_size=5)
    )
    values = np.array(rows, float).reshape(-1, 5)
    return made(values[:, :4], values[:, 4], np.linspace(1, 0.1, len(rows)))


def iou(a, b):
    if (a == b).all():
        return 1.0
    width = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])
    height = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1])
    shared = max(width, 0) * max(height, 0)
    return shared / (a[2] * a[3] + b[2] * b[3] - shared) if shared else 0.0


def by_trying_all(a, b):
    """The same by trying all assignments of boxes to boxes."""
    if len(a) > len(b):
        a, b = b, a
    if not len(b):
        return 1.0
    overlap = np.array(
        [
            [iou(one, other) if label == its else 0 for other, its in zip(b.boxes, b.classes, strict=True)]
            for one, label in zip(a.boxes, a.classes, strict=True)
        ]
    ).reshape(len(a), len(b))
    most = [
        max(
            sum(overlap[i, j] >= threshold for i, j in enumerate(chosen))
            for chosen in permutations(range(len(b)), len(a))
        )
        for threshold in THRESHOLDS
    ]
    return float(np.mean([2 * pairs / (len(a) + len(b)) for pairs in most]))


@settings(max_examples=60, deadline=None)
@given(models(), models())
def test_it_is_the_largest_matching_and_symmetric(a, b):
    assert box_agreement(a, b) == pytest.approx(by_trying_all(a, b), abs=1e-12)
    assert box_agreement(a, b) == box_agreement(b, a)
    assert 0 <= box_agreement(a, b) <= 1


@settings(max_examples=50, deadline=None)
@given(models())
def test_it_is_one_of_a_model_with_itself_and_zero_with_nothing(a):
    assert box_agreement(a, a) == 1
    assert box_agreement(a, NOTHING) == box_agreement(NOTHING, a) == float(len(a) == 0)


def test_nothing_agrees_with_nothing():
    assert box_agreement(NOTHING, NOTHING) == 1


def test_a_pair_counts_from_the_thresholds_that_it_reaches():
    # overlap 0.8: seven of ten thresholds
    assert box_agreement(made([[0, 0, 10, 10]]), made([[0, 0, 10, 8]])) == pytest.approx(0.7)


def test_boxes_of_other_classes_never_pair():
    assert box_agreement(made([[0, 0, 9, 9]], [1]), made([[0, 0, 9, 9]], [2])) == 0


def test_a_chain_is_paired_where_greedy_pairing_leaves_one_out():
    """The middle boxes overlap most; pairing them first leaves the outer two alone."""
    a, b = made([[0, 0, 10, 10], [4, 0, 10, 10]]), made([[3, 0, 10, 10], [7, 0, 10, 10]])
    assert box_agreement(a, b) == pytest.approx((1 + 0.5 * 6) / 10)


def test_a_hundred_thousand_boxes_are_compared_by_the_best_of_each_class():
    boxes = np.tile([0.0, 0, 5, 5], (100_000, 1))
    many = made(boxes, np.ones(100_000), np.linspace(1, 0, 100_000))
    assert box_agreement(many, many) == 1
    assert len(many.above(0.5)) == 50_000
