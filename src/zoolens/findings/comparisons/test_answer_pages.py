from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from zoolens.base.errors import ZoolensError
from zoolens.findings.comparisons.answer_pages import (
    SIGNATURES_KEPT,
    AnswerOrder,
    AnswerReader,
    AnswersShown,
    AnswersWithin,
    page_of_answers,
)
from zoolens.findings.comparisons.conftest import class_columns, vector_columns, write_run
from zoolens.findings.measure.predictions import KIND

LABELS = [0, 1, 2, 0, 1]
NAMES = ["cat", "dog", "<b>bird</b>"]
OURS = [[0.6, 0.3, 0.1], [0.7, 0.2, 0.1], [0.1, 0.0, 0.9], [0.2, 0.5, 0.3], [0.1, 0.8, 0.1]]  # wrong: 1 and 3
THEIRS = [[0.4, 0.5, 0.1], [0.8, 0.1, 0.1], [0.9, 0.1, 0.0], [0.2, 0.5, 0.3], [0.3, 0.4, 0.3]]  # other than we: 0, 2


@pytest.fixture
def runs(store):
    ours = write_run(store, "ours", OURS, LABELS, classes=NAMES)
    return ours, write_run(store, "theirs", THEIRS, LABELS, classes=NAMES)


def places(page):
    return [row.index for row in page.rows]


def test_a_page_is_sorted_and_filtered(store, runs):
    reader, (run, _) = AnswerReader(store), runs
    assert places(page_of_answers(reader, run)) == [0, 1, 2, 3, 4]
    assert places(page_of_answers(reader, run, order=AnswerOrder.SUREST)) == [2, 4, 1, 0, 3]
    assert places(page_of_answers(reader, run, order=AnswerOrder.LEAST_SURE, page=slice(1, 3))) == [0, 1]
    assert places(page_of_answers(reader, run, order=AnswerOrder.LOSS)) == [1, 3, 0, 4, 2]
    wrong = page_of_answers(reader, run, shown=AnswersShown.WRONG, order=AnswerOrder.SUREST, page=slice(1))
    assert (places(wrong), wrong.total, wrong.inputs) == ([1], 2, 5)
    assert places(page_of_answers(reader, run, shown=AnswersShown.RIGHT)) == [0, 2, 4]


def test_a_row_has_both_answers_in_words(store, runs):
    page = page_of_answers(AnswerReader(store), *runs, order=AnswerOrder.DISAGREEMENT, page=slice(3))
    assert places(page) == [2, 0, 1]  # the two that differ, the one of which both are surest first; then the surest
    row = page.rows[0]
    assert (row.input, row.label, row.truth, row.agreement) == ("2", 2, "<b>bird</b>", 0)
    assert (row.ours.words, row.ours.answer, row.ours.right) == ("<b>bird</b> (90 %)", 2, True)
    assert (row.theirs.words, row.theirs.answer, row.theirs.right) == ("cat (90 %)", 0, False)
    assert row.ours.score == pytest.approx(0.9)
    assert row.label_score == pytest.approx(0.9)
    apart = page_of_answers(AnswerReader(store), *runs, shown=AnswersShown.DISAGREEING)
    assert (places(apart), apart.total) == ([0, 2], 2)
    assert places(page_of_answers(AnswerReader(store), *runs, shown=AnswersShown.AGREEING)) == [1, 3, 4]


def test_inputs_without_a_label_are_neither_right_nor_wrong(store):
    labels = np.array([0, 1, -1, -1, 1])
    answered = {
        **class_columns(OURS, [0, 1, 0, 0, 1]),
        "label_score": np.array([0.6, 0.2, np.nan, np.nan, 0.8], np.float32),
    }
    run = write_run(store, "half", answered, labels, classes=NAMES)
    reader = AnswerReader(store)
    assert places(page_of_answers(reader, run, shown=AnswersShown.WRONG)) == [1]
    page = page_of_answers(reader, run, order=AnswerOrder.LOSS)
    assert (places(page), page.unknown) == ([1, 0, 4, 2, 3], 2)
    unlabelled = page.rows[3]
    assert (unlabelled.label, unlabelled.truth, unlabelled.ours.right, unlabelled.label_score) == (None, "", None, None)


def test_answers_that_were_stored_in_the_models_own_order_are_brought_into_the_datas(store):
    turned = [[row[2], row[0], row[1]] for row in OURS]  # as a model answers that calls the last class first
    manifest = {"outputs": [{"labels": [NAMES[2], NAMES[0], NAMES[1]]}]}
    run = write_run(store, "turned", turned, LABELS, classes=NAMES, **manifest)
    page = page_of_answers(AnswerReader(store), run, shown=AnswersShown.WRONG)
    assert places(page) == [1, 3]
    assert page.rows[0].ours.words == "cat (70 %)"


def test_what_cannot_be_told_is_said(store, runs):
    reader, (run, _) = AnswerReader(store), runs
    for asked in ({"order": AnswerOrder.DISAGREEMENT}, {"shown": AnswersShown.AGREEING}):
        with pytest.raises(ZoolensError, match="beside another run"):
            page_of_answers(reader, run, **asked)
    vectors = write_run(store, "vectors", vector_columns(OURS), LABELS, outputs=[{"task": "embedding"}])
    page = page_of_answers(reader, vectors)
    assert (page.rows[0].ours.answer, page.rows[0].ours.right, page.rows[0].ours.score) == (None, None, None)
    with pytest.raises(ZoolensError, match="no scores"):
        page_of_answers(reader, vectors, order=AnswerOrder.SUREST)
    with pytest.raises(ZoolensError, match="cannot judge"):
        page_of_answers(reader, vectors, shown=AnswersShown.RIGHT)
    with pytest.raises(ZoolensError, match="does"):
        page_of_answers(reader, run, vectors)
    elsewhere = write_run(store, "elsewhere", OURS, LABELS, dataset="letters")
    with pytest.raises(ZoolensError, match=f"Run {run.id[:8]} .* and run {elsewhere.id[:8]} .* same inputs"):
        page_of_answers(reader, run, elsewhere)
    unlabelled = write_run(store, "unlabelled", class_columns(OURS, LABELS), [-1] * 5)
    for asked in ({"shown": AnswersShown.RIGHT}, {"order": AnswerOrder.LOSS}):
        with pytest.raises(ZoolensError, match="no labels"):
            page_of_answers(reader, unlabelled, **asked)
    unfinished = write_run(store, "unfinished", OURS, LABELS, done=False)
    with pytest.raises(ZoolensError, match="no finished predictions"):
        page_of_answers(reader, unfinished)


def test_only_the_last_few_are_kept(store):
    runs = [write_run(store, f"m{number}", OURS, LABELS) for number in range(SIGNATURES_KEPT + 1)]
    reader = AnswerReader(store)
    assert reader.answers(runs[0]) is reader.answers(runs[0])
    for run in runs:
        reader.answers(run)
    Path(store.parts(runs[0].id, KIND)[0].address).unlink()
    with pytest.raises(ZoolensError, match="missing"):
        reader.answers(runs[0])
    assert reader.answers(replace(runs[-1])) is reader.answers(runs[-1])


def test_the_answers_within_a_cell_a_class_or_a_bin(store, runs):
    reader, (run, _) = AnswerReader(store), runs
    assert places(page_of_answers(reader, run, within=AnswersWithin(label=0))) == [0, 3]
    assert places(page_of_answers(reader, run, within=AnswersWithin(answer=1))) == [3, 4]
    assert places(page_of_answers(reader, run, within=AnswersWithin(label=0, answer=1))) == [3]
    assert places(page_of_answers(reader, run, within=AnswersWithin(bin=9))) == [0]  # from 60 to 66.7 %
    assert places(page_of_answers(reader, run, shown=AnswersShown.WRONG, within=AnswersWithin(bin=9))) == []
    with pytest.raises(ZoolensError, match="from 0 to 14"):
        page_of_answers(reader, run, within=AnswersWithin(bin=15))


def test_the_best_classes_come_with_their_scores(store, runs):
    (row,) = page_of_answers(AnswerReader(store), runs[0], page=slice(1)).rows
    assert [(ranked.number, ranked.name) for ranked in row.ours.best] == [(0, "cat"), (1, "dog"), (2, "<b>bird</b>")]
    assert [ranked.score for ranked in row.ours.best] == pytest.approx([0.6, 0.3, 0.1])
    nameless = write_run(store, "nameless", OURS, LABELS, dataset="nameless")
    (row,) = page_of_answers(AnswerReader(store), nameless, page=slice(1)).rows
    assert row.ours.best[0].name == "class 0"
