import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import average, fcluster
from scipy.spatial.distance import squareform

from zoolens.findings.comparisons.linkage import CUT, families


def distances(points):
    return np.abs(np.asarray(points, float)[:, None] - np.asarray(points, float)[None, :])


def test_neighbours_stand_side_by_side_and_families_are_told_apart():
    found = families(distances([0.0, 10.0, 0.1, 10.2, 0.2]))
    assert [sorted(found.order[:3]), sorted(found.order[3:])] == [[0, 2, 4], [1, 3]] or [
        sorted(found.order[:2]),
        sorted(found.order[2:]),
    ] == [[1, 3], [0, 2, 4]]
    assert found.groups[0] == found.groups[2] == found.groups[4] != found.groups[1] == found.groups[3]


def test_one_outlier_does_not_make_one_family_of_the_rest():
    found = families(distances([0.0, 0.1, 3.0, 3.1, 6.0, 6.1, 500.0]))
    assert len(set(found.groups)) == 4


def test_unknown_distances_are_far():
    matrix = distances([0.0, 0.1, 5.0])
    matrix[0, 1] = matrix[1, 0] = np.nan
    assert len(set(families(matrix).groups)) == 3


def test_things_that_are_the_same_are_one_family():
    assert families(np.zeros((3, 3))).groups == (0, 0, 0)


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 12), st.integers(0, 10_000))
def test_families_are_those_of_scipys_average_linkage(count, seed):
    points = np.random.default_rng(seed).normal(size=(count, 3))
    matrix = np.linalg.norm(points[:, None] - points[None, :], axis=2)
    found = families(matrix)
    assert sorted(found.order) == list(range(count))
    cut = CUT * np.median(matrix[np.triu_indices(count, 1)])
    wanted = fcluster(average(squareform(matrix, checks=False)), np.nextafter(cut, 0), criterion="distance")
    same = np.equal.outer(np.array(found.groups), np.array(found.groups))
    np.testing.assert_array_equal(same, np.equal.outer(wanted, wanted))
    in_order = [found.groups[i] for i in found.order]
    assert in_order == sorted(in_order)  # each family is one block


def test_what_cannot_be_compared_is_never_a_family():
    nobody = np.where(np.eye(3), 0.0, np.nan)
    assert families(nobody).groups == (0, 1, 2)
    nobody[0, 1] = nobody[1, 0] = 0.0  # the same, and a third that fits neither
    assert sorted(families(nobody).groups) == [0, 0, 1]
