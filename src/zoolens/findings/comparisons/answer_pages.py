"""What a run answered, input by input, in pages: sorted by confidence, loss or disagreement with another run.

answers = AnswerReader(store)
page = page_of_answers(answers, run, order=AnswerOrder.LOSS, shown=AnswersShown.WRONG, page=slice(20))
page.rows[0].input, page.rows[0].ours.words

Answers to 50,000 inputs are read and sorted as arrays; only the rows of the page become objects.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ZoolensError
from zoolens.base.recent_values import RecentValues
from zoolens.base.store.records import Run
from zoolens.base.store.store import Store
from zoolens.findings.comparisons.behaviour import check_paired, pair_answers
from zoolens.findings.comparisons.signatures import Signature, known_score, signature_in_data_order
from zoolens.findings.measure.class_order import other_class_names
from zoolens.findings.measure.metrics.calibration import BINS, confidence_bins
from zoolens.inventory.tasks.drawing import Drawing
from zoolens.inventory.tasks.task import taken_answers, task_named

BEST: Final = 3  # classes of an answer that are told with their scores
SIGNATURES_KEPT: Final = 4  # in memory: about 5 MB each for 50,000 inputs of a classifier
_NONE: Final = -1  # in place of a label: the data do not say

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


class AnswerOrder(StrEnum):
    """Which inputs come first. Inputs of which it is not known come last."""

    INDEX = "index"  # as in the dataset
    SUREST = "surest"  # the highest score of the answer
    LEAST_SURE = "least sure"
    LOSS = "loss"  # the lowest probability of the true class; of other tasks the lowest score of the answer; of texts
    # that a language model foresees, the most bits per byte
    DISAGREEMENT = "disagreement"  # the other run answers otherwise, those first of which both are surest


class AnswersShown(StrEnum):
    """Which inputs are listed."""

    ALL = "all"
    RIGHT = "right"
    WRONG = "wrong"
    AGREEING = "agreeing"  # with the other run
    DISAGREEING = "disagreeing"


@dataclass(frozen=True)
class AnswersWithin:
    """Only inputs of the class `label`, answered with the class `answer`, and of a confidence in the bin with this
    number (see `measure.reliability`); None leaves each of them open."""

    label: int | None = None
    answer: int | None = None
    bin: int | None = None


EVERYWHERE: Final = AnswersWithin()
FIRST_PAGE: Final = slice(50)
_OF_PAIRS: Final = (AnswerOrder.DISAGREEMENT, AnswersShown.AGREEING, AnswersShown.DISAGREEING)


@dataclass(frozen=True)
class RankedClass:
    """A class and the score that it got."""

    number: int
    name: str
    score: float


@dataclass(frozen=True)
class SideAnswer:
    """What one run answered to one input."""

    words: str
    answer: int | None  # number of the class; None where the output is not of classes
    score: float | None  # of that class; None: unknown
    right: bool | None  # None: unknown
    best: tuple[RankedClass, ...] = ()  # the classes with the highest scores, as far as they were kept
    judged: float | None = None  # how right the answer is, between 0 and 1, of a task whose truth is no class
    drawing: Drawing | None = None


@dataclass(frozen=True)
class AnswerRow:
    """One input with the answers of one or two runs."""

    index: int
    input: str
    label: int | None  # number of the true class; None: no label
    truth: str  # name of the true class, or in words what else is right; "": not known
    ours: SideAnswer
    theirs: SideAnswer | None
    label_score: float | None  # probability that the run gave to the true class
    agreement: float | None  # between 0 and 1; None without another run
    truth_drawing: Drawing | None = None  # what is right


@dataclass(frozen=True)
class AnswerPage:
    """`total` inputs are listed, of `inputs` that were answered. `unknown`: how many of those listed stand last because
    what they are sorted by is not known of them."""

    rows: tuple[AnswerRow, ...]
    total: int
    inputs: int
    unknown: int = 0


class AnswerReader:
    """Reads the answers of a store's runs and keeps the last few. Several threads may use one."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._recent: RecentValues[str, Signature] = RecentValues(SIGNATURES_KEPT)

    def answers(self, run: Run) -> Signature:
        """Return what a run answered, in the dataset's order of classes.

        Refused where it has not answered every input. What a finished run answered never changes, so it can be kept.
        """
        return self._recent.kept(run.id, lambda: signature_in_data_order(self._store, run))


def page_of_answers(
    reader: AnswerReader,
    run: Run,
    other: Run | None = None,
    *,
    order: AnswerOrder = AnswerOrder.INDEX,
    shown: AnswersShown = AnswersShown.ALL,
    within: AnswersWithin = EVERYWHERE,
    page: slice = FIRST_PAGE,
) -> AnswerPage:
    """Return a page of what `run` answered, beside the answers of `other` to the same inputs where it is given.

    `within` is about the answers of `run`; `page` is the part of the sorted inputs that is listed.
    """
    ordered = _ordered(reader, run, other, order, shown, within)
    places = ordered.places[page].tolist()
    rows = tuple(_row(ordered.ours, ordered.theirs, ordered.agreement, place) for place in places)
    return AnswerPage(rows, len(ordered.places), len(ordered.ours), ordered.unknown)


def order_of_answers(
    reader: AnswerReader,
    run: Run,
    other: Run | None = None,
    *,
    order: AnswerOrder = AnswerOrder.INDEX,
    shown: AnswersShown = AnswersShown.ALL,
    within: AnswersWithin = EVERYWHERE,
) -> list[int]:
    """The places, among all inputs, of those that the pages of `page_of_answers` list together, in their order."""
    places: list[int] = _ordered(reader, run, other, order, shown, within).places.tolist()
    return places


@dataclass(frozen=True, eq=False)
class _Ordered:
    """What is listed, by place; `unknown` of them stand last."""

    ours: Signature
    theirs: Signature | None
    agreement: Floats | None
    places: NDArray[np.int64]
    unknown: int


def _ordered(
    reader: AnswerReader,
    run: Run,
    other: Run | None,
    order: AnswerOrder,
    shown: AnswersShown,
    within: AnswersWithin,
) -> _Ordered:
    ours = reader.answers(run)
    theirs = None if other is None else _paired(ours, reader.answers(other))
    if theirs is None and (needed := next((asked for asked in (order, shown) if asked in _OF_PAIRS), None)):
        raise ZoolensError(
            f"What is {needed} is only known beside another run.", hint="Name another run on the same inputs."
        )
    agreement = None if theirs is None else pair_answers(ours.main, theirs.main).agreement
    listed = np.flatnonzero(_listed(ours, agreement, shown) & _within(ours, within))
    key = _sort_key(ours, theirs, agreement, order)[listed]
    places = listed[np.argsort(key, kind="stable")]
    return _Ordered(ours, theirs, agreement, places, int(np.count_nonzero(np.isnan(key))))


def _paired(ours: Signature, theirs: Signature) -> Signature:
    check_paired(ours, theirs)
    a, b = ours.run, theirs.run
    if ours.main.task != theirs.main.task:
        raise ZoolensError(
            f"Run {a.id[:8]} does {ours.main.task} and run {b.id[:8]} does {theirs.main.task}.",
            hint="Name runs whose main outputs do the same.",
        )
    if other_class_names(a, b):
        raise ZoolensError(
            f"The dataset's class names differ between run {a.id[:8]} and run {b.id[:8]}.",
            hint="Evaluate both again.",
        )
    return theirs


def _listed(ours: Signature, agreement: Floats | None, shown: AnswersShown) -> Mask:
    if shown is AnswersShown.ALL:
        return np.ones(len(ours), np.bool_)
    if agreement is not None and shown is AnswersShown.AGREEING:
        return np.asarray(agreement == 1, np.bool_)
    if agreement is not None and shown is AnswersShown.DISAGREEING:
        return np.asarray(agreement < 1, np.bool_)
    if not ours.labelled:
        raise ZoolensError("The dataset has no labels, so the accuracy is unknown.", hint="List all answers.")
    right = _right(ours)
    return np.asarray(ours.known & (right if shown is AnswersShown.RIGHT else ~right), np.bool_)


def _within(ours: Signature, within: AnswersWithin) -> Mask:
    mask = np.ones(len(ours), np.bool_)
    if within.label is not None:
        mask &= ours.labels == within.label
    if within.answer is not None:
        mask &= np.asarray(ours.answers == within.answer)
    if within.bin is not None:
        if not 0 <= within.bin < BINS:
            raise ZoolensError(f"Bins of confidence have numbers from 0 to {BINS - 1}.", hint="Name one of them.")
        sure = _confidence(ours)
        mask &= np.isfinite(sure) & (confidence_bins(np.nan_to_num(sure)) == within.bin)
        # The bins of a calibration hold what can be right or wrong.
        if ours.labelled:
            mask &= ours.labels != _NONE
    return mask


def _right(signature: Signature) -> Mask:
    if signature.scores is None:
        raise ZoolensError(f"Labels cannot judge answers of the task {signature.main.task}.", hint="List all of them.")
    return np.asarray(signature.scores == 1)


def _sort_key(ours: Signature, theirs: Signature | None, agreement: Floats | None, order: AnswerOrder) -> Floats:
    """What inputs are sorted by, smallest first and NaN last."""
    if order is AnswerOrder.INDEX:
        return np.arange(len(ours), dtype=np.float64)
    if order is AnswerOrder.DISAGREEMENT and theirs is not None and agreement is not None:
        # An agreement of 0 comes before one of 1; among equals, scores (at most 1) decide.
        return np.asarray(2 * agreement - np.nan_to_num(np.minimum(_confidence(ours), _confidence(theirs))))
    if order is AnswerOrder.LOSS and not ours.labelled:
        raise ZoolensError(
            "The dataset has no labels, so the loss is unknown.",
            hint="Sort by confidence or by index.",
        )
    key = {
        AnswerOrder.SUREST: lambda: -_confidence(ours),
        AnswerOrder.LEAST_SURE: lambda: _confidence(ours),
        AnswerOrder.LOSS: lambda: _rightness(ours),
    }[order]()
    if np.isnan(key).all() and len(key):
        raise ZoolensError(
            f"Run {ours.run.id[:8]} has kept no scores that its answers could be sorted by.",
            hint="Sort by index, or evaluate the model with `zoolens eval`, which keeps scores.",
        )
    return key


def _rightness(signature: Signature) -> Floats:
    """The probability of the true class; of a task whose truth is no class, how right each answer is."""
    task = task_named(signature.main.task)
    if task.truth is None:
        return signature.label_score.astype(np.float64)
    fine = task.fine_scores(signature.main) if signature.scores is not None else None
    scores = signature.scores if fine is None else fine
    return np.full(len(signature), np.nan) if scores is None else np.where(signature.known, scores, np.nan)


def _confidence(signature: Signature) -> Floats:
    """The score of each answer; NaN where none was kept."""
    return np.asarray(signature.score[:, 0], np.float64)


def _row(ours: Signature, theirs: Signature | None, agreement: Floats | None, place: int) -> AnswerRow:
    label = int(ours.labels[place])
    return AnswerRow(
        index=place,
        input=str(ours.inputs[place]),
        label=None if label == _NONE else label,
        truth=_truth(ours, place),
        ours=_side(ours, place),
        theirs=None if theirs is None else _side(theirs, place),
        label_score=known_score(ours.label_score[place]),
        agreement=None if agreement is None else float(agreement[place]),
        truth_drawing=_truth_drawing(ours, place),
    )


def _truth(signature: Signature, place: int) -> str:
    """What is right of one input, in words; empty where that is not known."""
    task, label = task_named(signature.main.task), int(signature.labels[place])
    if task.truth is None:
        return "" if label == _NONE else signature.class_name(label)
    if not signature.main.truths or not signature.known[place]:
        return ""
    return task.show_truth(signature.main, place, signature.classes)


def _truth_drawing(signature: Signature, place: int) -> Drawing | None:
    if not signature.main.truths or not signature.known[place]:
        return None
    return task_named(signature.main.task).drawing(signature.main, place, signature.classes, truth=True)


def drawn_classes(reader: AnswerReader, run: Run, place: int, *, truth: bool) -> NDArray[Any] | None:
    """The map of classes that a run answered to one input, or that is right; None: there is none."""
    signature = reader.answers(run)
    if not 0 <= place < len(signature):
        raise ZoolensError(f"Run {run.id[:8]} has {len(signature):,} inputs; they are counted from 0.")
    if truth:
        drawn = _truth_drawing(signature, place)
    else:
        drawn = task_named(signature.main.task).drawing(signature.main, place, signature.classes)
    return None if drawn is None else drawn.classes


def _judged(signature: Signature, place: int) -> float | None:
    """How right one answer is, of a task whose truth is no class."""
    if not signature.main.truths or not signature.known[place]:
        return None
    alone = taken_answers(signature.main, np.array([place]))
    scores = task_named(signature.main.task).scores(alone, signature.labels[place : place + 1])
    return None if scores is None else float(scores[0])


def _side(signature: Signature, place: int) -> SideAnswer:
    task = task_named(signature.main.task)
    label = int(signature.labels[place])
    answer = int(signature.answers[place]) if task.discrete else None
    return SideAnswer(
        words=task.show(signature.main, place, signature.classes),
        answer=answer,
        score=known_score(signature.score[place, 0]),
        right=None if label == _NONE or answer is None else answer == label,
        best=_best(signature, place) if task.discrete else (),
        judged=_judged(signature, place),
        drawing=task.drawing(signature.main, place, signature.classes),
    )


def _best(signature: Signature, place: int) -> tuple[RankedClass, ...]:
    top, score = signature.main.columns.get("top"), signature.main.columns.get("score")
    if top is None or score is None:
        return ()
    ranked = zip(top[place, :BEST].tolist(), score[place, :BEST].tolist(), strict=True)
    return tuple(
        RankedClass(number, signature.class_name(number), value) for number, value in ranked if np.isfinite(value)
    )
