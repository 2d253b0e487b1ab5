"""Answers are judged as SQuAD's official scripts judge them, which wrote the digests and figures below."""

import hashlib
import json
import random

import numpy as np
import pytest

from zoolens.base.errors import ZoolensError
from zoolens.inventory.tasks.scoring.answer_spans import (
    Span,
    answer_f1,
    answer_parts,
    best_constant_f1,
    best_span,
    exact_match,
    f1_of_answerable,
    f1_of_unanswerable,
    normalize_answer,
)

WORDS = ["the", "The cat", "a", "An", "cat,", "dog", "Dog!", "théâtre", "x-ray", "…", "!?", "", "\u00a0", "İ"]
WORDS += ["1,000", "a.", "b"]
# Digests of exact match and F1 of each question: `metric_max_over_ground_truths` of evaluate-v1.1.py, for questions
# with references; `get_raw_scores` of evaluate-v2.0.py, for all.
SQUAD = {1: "fcbc66e449e4680f", 2: "3d488314093b5e42"}


def questions():
    rng = random.Random(29)
    rows = []
    for _ in range(3000):
        answer = " ".join(rng.choices(WORDS, k=int(rng.random() * 4)))
        references = [" ".join(rng.choices(WORDS, k=int(rng.random() * 4))) for _ in range(int(rng.random() * 4))]
        rows.append((answer, references))
    return rows


def judged(version, rows):
    return answer_parts([answer for answer, _ in rows], [references for _, references in rows], version)


@pytest.mark.parametrize("version", SQUAD)
def test_questions_are_judged_as_the_official_scripts_judge_them(version):
    parts = judged(version, [row for row in questions() if row[1] or version == 2])
    digest = hashlib.sha256()
    for pair in zip(parts.exact.tolist(), parts.f1.tolist(), strict=True):
        digest.update(json.dumps(pair).encode())
    assert digest.hexdigest()[:16] == SQUAD[version]


def test_means_are_those_of_the_official_script():
    """`make_eval_dict` of evaluate-v2.0.py: exact, f1, HasAns_f1, NoAns_f1 and their totals."""
    parts = judged(2, questions())
    means = [exact_match(parts), answer_f1(parts), f1_of_answerable(parts), f1_of_unanswerable(parts)]
    assert [100 * mean.value for mean in means] == pytest.approx(
        [19.866666666666667, 25.658888888888836, 20.500074638005692, 40.67796610169491], rel=1e-12
    )
    assert [mean.used for mean in means] == [3000, 3000, 2233, 767]


def test_weights_repeat_inputs():
    rows = questions()[:200]
    weights = np.random.default_rng(0).integers(0, 4, len(rows))
    repeated = [row for row, count in zip(rows, weights, strict=True) for _ in range(count)]
    for metric in (exact_match, answer_f1, f1_of_answerable, f1_of_unanswerable):
        assert metric(judged(2, rows), weights).value == pytest.approx(metric(judged(2, repeated)).value, rel=1e-12)


def test_normalization():
    assert normalize_answer("  The U.S.A.'s a-b an\tOwl ") == "usas ab owl"
    assert normalize_answer("the a an") == ""


def test_the_versions_differ_where_no_word_is_left():
    assert judged(1, [("the", ["a"])]).f1.tolist() == [0.0]
    assert judged(2, [("the", ["a"])]).f1.tolist() == [1.0]
    assert judged(1, [("the", ["a"])]).exact.tolist() == [1.0]


def test_a_question_without_reference_expects_no_answer():
    parts = judged(2, [("", []), ("cat", [])])
    assert (parts.exact.tolist(), parts.answerable.tolist()) == ([1.0, 0.0], [False, False])
    assert f1_of_answerable(parts).reason == "No question has an answer."
    assert not f1_of_answerable(parts).defined
    with pytest.raises(ZoolensError, match=r"which SQuAD 1.1 does not allow. Score it as version 2.0."):
        judged(1, [("", [])])


def test_no_question_at_all_is_undefined():
    parts = judged(2, [])
    assert exact_match(parts).reason == answer_f1(parts).reason == "There are no inputs."
    assert not exact_match(parts).defined


def test_long_texts_are_judged():
    text = "the cat " * 125_000
    assert judged(2, [(text, [text + "dog"])]).f1[0] == pytest.approx(1, abs=1e-5)


def test_counts_must_match():
    with pytest.raises(ZoolensError, match="There are 1 answers but references for 0 questions"):
        answer_parts(["a"], [])


@pytest.mark.parametrize("seed", range(30))
def test_the_span_is_the_best_of_all(seed):
    rng = np.random.default_rng(seed)
    length, longest = int(rng.integers(1, 12)), int(rng.integers(1, 6))
    starts, ends = rng.integers(-3, 4, (2, length)).astype(np.float32)
    permitted = rng.random(length) < 0.7
    spans = [
        Span(first, last, float(starts[first] + ends[last]))
        for first in np.flatnonzero(permitted).tolist()
        for last in range(first, min(first + longest, length))
        if permitted[last]
    ]
    assert best_span(starts, ends, longest, permitted) == max(spans, key=lambda span: span.score, default=None)


def test_without_permitted_tokens_there_is_no_span():
    assert best_span(np.zeros(3), np.zeros(3), 3, np.zeros(3, np.bool_)) is None
    assert best_span(np.empty(0), np.empty(0), 3) is None


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_logits_that_have_no_best_are_refused(value):
    with pytest.raises(ZoolensError, match="NaN or infinite"):
        best_span(np.array([0.0, value]), np.zeros(2), 2)
    with pytest.raises(ZoolensError, match="NaN or infinite"):
        best_span(np.zeros(2), np.array([value, 0.0]), 2)


def test_shapes_are_checked():
    with pytest.raises(ZoolensError, match="rows of one length"):
        best_span(np.zeros(3), np.zeros(2), 1)
    with pytest.raises(ZoolensError, match="at least 1 token; got 0"):
        best_span(np.zeros(3), np.zeros(3), 0)


def test_the_best_constant_answer_is_none_or_the_commonest():
    assert best_constant_f1([["yes"], ["Yes!", "no"], ["no way"]], 1) == 2 / 3
    assert best_constant_f1([["yes"], ["yes sir"], []]) == (1 + 2 / 3) / 3
    assert best_constant_f1([["a1"], [], [""]]) == 2 / 3
    # Of rare answers, words in common are not counted.
    assert best_constant_f1([[f"w{number} and"] for number in range(100)], 1) == 0.01
