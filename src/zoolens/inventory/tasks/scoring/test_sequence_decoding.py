"""Decoded sequences are the best ones, found by trying all."""

import itertools

import numpy as np
import pytest

from zoolens.base.errors import ZoolensError
from zoolens.inventory.tasks.scoring.sequence_decoding import decode_crf, decode_ctc


def test_ctc_merges_repeats_and_drops_blanks():
    steps = [0, 1, 1, 0, 1, 2, 2, 0, 0]
    assert decode_ctc(np.eye(3)[steps], blank=0).tolist() == [1, 1, 2]
    assert decode_ctc(np.eye(3)[steps], blank=2).tolist() == [0, 1, 0, 1, 0]


@pytest.mark.parametrize("blank", [0, 3])
def test_ctc_equals_groupby(blank):
    scores = np.random.default_rng(blank).normal(size=(200, 4)).astype(np.float32)
    expected = [symbol for symbol, _ in itertools.groupby(scores.argmax(axis=1).tolist()) if symbol != blank]
    assert decode_ctc(scores, blank).tolist() == expected


def test_ctc_without_steps_is_empty():
    assert decode_ctc(np.empty((0, 3)), blank=0).tolist() == []


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_scores_that_have_no_best_are_refused(value):
    scores = np.array([[0.0, value]])
    with pytest.raises(ZoolensError, match="CTC scores must be below infinity"):
        decode_ctc(scores, blank=0)
    with pytest.raises(ZoolensError, match="CRF emissions must be below infinity"):
        decode_crf(scores, np.zeros((2, 2)))
    with pytest.raises(ZoolensError, match="CRF transitions must be below infinity"):
        decode_crf(np.zeros((1, 2)), np.array([[0.0, value], [0.0, 0.0]]))
    with pytest.raises(ZoolensError, match="CRF start and end scores must be below infinity"):
        decode_crf(np.zeros((1, 2)), np.zeros((2, 2)), end=scores[0])


def test_shapes_are_checked():
    with pytest.raises(ZoolensError, match="one of 3 symbols; got 3"):
        decode_ctc(np.zeros((2, 3)), blank=3)
    with pytest.raises(ZoolensError, match="one of 3 symbols; got -1"):
        decode_ctc(np.zeros((2, 3)), blank=-1)
    with pytest.raises(ZoolensError, match="table with at least one column"):
        decode_ctc(np.zeros(3), blank=0)
    with pytest.raises(ZoolensError, match="CRF of 2 tags needs 2 × 2 transitions"):
        decode_crf(np.zeros((1, 2)), np.zeros((3, 3)))


@pytest.mark.parametrize("seed", range(20))
def test_the_path_is_the_best_of_all(seed):
    rng = np.random.default_rng(seed)
    steps, tags = int(rng.integers(1, 6)), int(rng.integers(1, 4))
    emissions, transitions = rng.normal(size=(steps, tags)), rng.normal(size=(tags, tags))
    transitions[rng.random(transitions.shape) < 0.1] = -np.inf
    start, end = rng.normal(size=(2, tags))
    transitions[0, 0] = 0  # one path is permitted

    def score(path):
        between = sum(transitions[a, b] for a, b in itertools.pairwise(path))
        return emissions[range(steps), path].sum() + between + start[path[0]] + end[path[-1]]

    paths = [list(path) for path in itertools.product(range(tags), repeat=steps)]
    best = max(paths, key=score)
    found = decode_crf(emissions, transitions, start, end)
    assert found.tags.tolist() == best
    assert found.score == pytest.approx(score(best))


def test_of_equal_paths_the_smallest_tags_win():
    assert decode_crf(np.zeros((4, 3)), np.zeros((3, 3))).tags.tolist() == [0, 0, 0, 0]


def test_an_input_without_steps_has_an_empty_path():
    assert decode_crf(np.empty((0, 3)), np.zeros((3, 3))).tags.tolist() == []


def test_a_crf_that_forbids_everything_is_refused():
    with pytest.raises(ZoolensError, match="forbids every path"):
        decode_crf(np.zeros((2, 2)), np.full((2, 2), -np.inf))
