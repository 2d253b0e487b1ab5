"""What every task must do. A test class derives from `TaskContract` and names the class of the task.

class TestTagging(TaskContract):
    task_class = Tagging

A task whose answers are no rows of numbers overrides `values`, one with a truth of its own `truths`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from zoolens.findings.measure.predictions import schema
from zoolens.inventory.datasets.truth import Truth
from zoolens.inventory.tasks.documents import AnswerClasses, as_json
from zoolens.inventory.tasks.ragged import Ragged
from zoolens.inventory.tasks.task import TRUTH_KNOWN, Answers, Column, Task, known_truths, taken_answers

N, WIDTH = 12, 6


class TaskContract:
    task_class: ClassVar[type[Task]]

    @pytest.fixture
    def task(self) -> Task:
        return self.task_class()

    def values(self, seed: int) -> Any:
        """What postprocessing, or the task's reader, gives for a batch of N inputs: here inputs × classes or numbers.
        Override it where these do not fit. A slice of it must be a smaller batch."""
        scores = np.random.default_rng(seed).random((N, WIDTH))
        return np.asarray(scores / scores.sum(axis=1, keepdims=True), np.float32)

    def labels(self) -> NDArray[np.int32]:
        return np.arange(N, dtype=np.int32) % WIDTH

    def truths(self) -> Sequence[Truth | None]:
        """What is right of each of the N inputs. Override it for a task with a truth of its own."""
        return [None] * N

    def answers(self, task: Task, seed: int = 0, labels: NDArray[Any] | None = None) -> Answers:
        """What is read back of a batch after it was kept as Arrow keeps it."""
        kept = task.keep(self.values(seed), self.labels() if labels is None else labels)
        columns = read_back(kept, task.columns(main=True), task.ragged)
        columns["digest"] = np.arange(N, dtype=np.uint64) + N * seed  # as every output has one
        return Answers("out", task.name, columns, WIDTH, self.stored_truths(task))

    def stored_truths(self, task: Task) -> dict[str, Any]:
        if task.truth is None:
            return {}
        truths = self.truths()
        known = np.array([truth is not None for truth in truths], np.int8)
        kept = task.keep_truth(truths)
        return {**read_back(kept, task.truth_columns(), task.ragged), TRUTH_KNOWN: known}

    def test_it_says_what_it_is(self, task: Task) -> None:
        assert task.name
        assert task.summary
        assert task.unit
        assert task.agreement_name()

    def test_it_keeps_the_columns_that_it_declares_for_every_input(self, task: Task) -> None:
        for main in (True, False):
            kept = task.keep(self.values(0), self.labels() if main else None)
            assert set(kept) == set(task.columns(main=main))
            assert {len(column) for column in kept.values()} == {N}
        schema([task.name])  # which refuses columns that every table of answers has

    def test_it_keeps_the_truths_that_it_declares_for_every_input(self, task: Task) -> None:
        if task.truth is None:
            assert not task.truth_columns()
            return
        for truths in (self.truths(), [None] * N, []):
            kept = task.keep_truth(truths)
            assert set(kept) == set(task.truth_columns())
            assert {len(column) for column in kept.values()} == {len(truths)}
        assert TRUTH_KNOWN not in task.truth_columns()
        assert {truth.kind for truth in self.truths() if truth is not None} == {task.truth}

    def test_columns_of_rows_of_several_lengths_are_declared(self, task: Task) -> None:
        assert task.ragged <= {*task.columns(main=True), *task.truth_columns()}
        kept = dict(task.keep(self.values(0), self.labels()))
        if task.truth is not None:
            kept |= task.keep_truth(self.truths())
        assert {name for name, column in kept.items() if isinstance(column, Ragged)} <= task.ragged

    def test_an_empty_batch_is_kept(self, task: Task) -> None:
        kept = task.keep(self.values(0)[:0], self.labels()[:0])
        assert {len(column) for column in kept.values()} == {0}

    def test_unlabelled_inputs_are_ordinary(self, task: Task) -> None:
        answers = self.answers(task, labels=np.full(N, -1, np.int32))
        assert (task.agreement(answers, answers) == 1).all()

    def test_agreement_is_a_number_between_0_and_1_for_every_input(self, task: Task) -> None:
        agreement = task.agreement(self.answers(task, 0), self.answers(task, 1))
        assert agreement.shape == (N,)
        assert ((agreement >= 0) & (agreement <= 1)).all()

    def test_agreement_is_all_or_nothing_unless_it_is_graded(self, task: Task) -> None:
        if not task.graded:
            agreement = task.agreement(self.answers(task, 0), self.answers(task, 1))
            assert set(np.unique(agreement)) <= {0.0, 1.0}

    def test_the_least_agreement_is_no_more_than_the_agreement(self, task: Task) -> None:
        a, b = self.answers(task, 0), self.answers(task, 1)
        agreement, least = task.agreement(a, b), task.least_agreement(a, b)
        assert least.shape == (N,)
        assert ((least >= 0) & (least <= agreement + 1e-12)).all()
        if task.agreement_is_exact:
            np.testing.assert_array_equal(least, agreement)

    def test_everything_agrees_with_itself(self, task: Task) -> None:
        assert (task.agreement(self.answers(task), self.answers(task)) == 1).all()

    def test_scores_are_between_0_and_1_for_every_input_or_there_are_none(self, task: Task) -> None:
        scores = task.scores(self.answers(task), self.labels())
        assert (scores is not None) == task.judged
        if scores is not None:
            assert scores.shape == (N,)
            assert ((scores >= 0) & (scores <= 1)).all()

    def test_metrics_of_resamples_lie_in_their_ranges(self, task: Task) -> None:
        answers = self.answers(task)
        # A judgement is about inputs whose truth is known.
        known = np.flatnonzero(known_truths(answers, self.labels()))
        judgement = task.judgement(taken_answers(answers, known))
        if judgement is None:
            return
        names, count = [metric.name for metric in judgement.metrics], len(known)
        assert task.metric == names[0]  # lists and queries know the main metric by it
        assert len(set(names)) == len(names) > 0
        drawn = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), 3).astype(np.int64)
        values = judgement.aggregate(np.concatenate([np.ones((2, count), np.int64), drawn]))
        assert values.shape == (5, len(names))
        np.testing.assert_allclose(values[0], values[1], rtol=1e-9, atol=1e-12)
        # Sums of another number of resamples at once may be rounded otherwise.
        np.testing.assert_allclose(judgement.of(names[-1])(drawn), values[2:, -1], rtol=1e-9, atol=1e-12)
        for metric, column in zip(judgement.metrics, values.T, strict=True):
            low, high = metric.limits
            assert (np.isnan(column) | ((column >= low) & (column <= high))).all()

    def test_answers_that_are_judged_in_pieces_are_judged_as_all_at_once(self, task: Task) -> None:
        answers = self.answers(task)
        known = np.flatnonzero(known_truths(answers, self.labels()))
        if task.truth is None or len(known) < 2:
            return
        judging = task.judging()
        for places in np.split(known, [1, 1 + len(known) // 2]):
            if len(places):
                judging.add(taken_answers(answers, places), self.labels()[places])
        scores, at_once = judging.scores(), task.scores(taken_answers(answers, known), self.labels()[known])
        assert (scores is None) == (at_once is None)
        if scores is not None and at_once is not None:
            np.testing.assert_array_equal(scores, at_once)
        pieces, whole = judging.judgement(), task.judgement(taken_answers(answers, known))
        assert (pieces is None) == (whole is None)
        if pieces is None or whole is None:
            return
        assert (pieces.metrics, pieces.notes) == (whole.metrics, whole.notes)
        weights = np.random.default_rng(1).integers(0, 3, (4, len(known)))
        found = pieces.with_classes(weights)
        assert found.shape == (4, len(pieces.limits))
        np.testing.assert_allclose(found, whole.with_classes(weights), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found[:, : len(pieces.metrics)], whole.aggregate(weights), rtol=1e-9, atol=1e-12)
        if whole.by_class is not None:
            of_classes = whole.by_class.aggregate(weights)
            np.testing.assert_allclose(found[:, len(pieces.metrics) :], of_classes, rtol=1e-9, atol=1e-12)

    def test_a_signature_is_one_class_or_one_vector_an_input(self, task: Task) -> None:
        signature = task.signature(self.answers(task))
        assert len(signature) == N
        assert signature.ndim == (1 if task.discrete else 2)
        if task.discrete:
            assert np.issubdtype(signature.dtype, np.integer)

    def test_classes_agree_where_they_are_the_same(self, task: Task) -> None:
        if task.discrete:
            a, b = self.answers(task, 0), self.answers(task, 1)
            assert ((task.agreement(a, b) == 1) == (task.signature(a) == task.signature(b))).all()

    def test_figures_of_a_pair_can_be_asked_for(self, task: Task) -> None:
        low, high = task.figures(self.answers(task, 0), self.answers(task, 1)).l2
        assert np.isnan(low) or 0 <= low <= high

    def test_an_answer_is_shown_on_one_line(self, task: Task) -> None:
        for names in (None, tuple(f"name {place}" for place in range(WIDTH))):
            shown = task.show(self.answers(task), 3, names)
            assert shown.strip()
            assert "\n" not in shown

    def test_every_answer_is_a_document_of_json(self, task: Task) -> None:
        answers = self.answers(task)
        for place in range(N):
            document = json.loads(as_json(task.document(answers, place, AnswerClasses())))
            assert isinstance(document, dict | list)


def read_back(kept: Mapping[str, Column], types: Mapping[str, pa.DataType], ragged: frozenset[str]) -> dict[str, Any]:
    """Columns as they are after Arrow held them."""
    stored = {name: pa.array(list(kept[name]), kind) for name, kind in types.items()}
    return {name: _rows(column) if name in ragged else _array(column) for name, column in stored.items()}


def _rows(column: pa.Array) -> Ragged:
    element = column.type.value_type
    dtype = str if pa.types.is_string(element) else element.to_pandas_dtype()
    return Ragged.of([np.array(row, dtype) for row in column.to_pylist()], dtype)


def _array(column: pa.Array) -> NDArray[Any]:
    # An array of bytes would lose zeros at their end.
    return np.array(column.to_pylist(), object if pa.types.is_binary(column.type) else None)
