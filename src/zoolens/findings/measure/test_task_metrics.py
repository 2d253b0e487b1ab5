"""Answers are judged part by part, and none of a part is kept but what figures need."""

import weakref

import numpy as np
import pytest

from zoolens.base.errors import StoreError
from zoolens.base.store.records import Observation
from zoolens.findings.measure.predictions import Predictions
from zoolens.findings.measure.task_metrics import _Judged, _judged_parts, _notes, _observed
from zoolens.inventory.tasks.judgement import Judgement, Metric
from zoolens.inventory.tasks.ragged import Ragged
from zoolens.inventory.tasks.task import Answers, joined_answers, task_named

IMAGES = 20


def boxes(seed):
    """A part of a run of a detector, whose last image has no truth."""
    random = np.random.default_rng(seed)
    places = [random.uniform(0, 50, (3, 4)) for _ in range(IMAGES)]
    found = {
        "boxes": Ragged.of(places, np.float32),
        "classes": Ragged.of([[0, 1, 0]] * IMAGES, np.int32),
        "scores": Ragged.of([[0.9, 0.6, 0.2]] * IMAGES, np.float32),
        "dropped": np.ones(IMAGES, np.int32),
    }
    true = {
        "known": np.array([1] * (IMAGES - 1) + [0], np.int8),
        "boxes": Ragged.of([place[:2] for place in places], np.float64),
        "classes": Ragged.of([[0, 1]] * IMAGES, np.int32),
        "areas": Ragged.of([[100, 2000]] * IMAGES, np.float64),
        "crowds": Ragged.of([[0, 0]] * IMAGES, np.int8),
    }
    return part_of(Answers("out", "detection", found, truths=true))


def masks(seed):
    random = np.random.default_rng(seed)
    columns = {
        "runs": Ragged.of([[10, 6]] * IMAGES, np.int32),
        "height": np.full(IMAGES, 4, np.int32),
        "width": np.full(IMAGES, 4, np.int32),
    }
    found, true = ({**columns, "classes": Ragged.of(random.integers(0, 3, (IMAGES, 2)), np.uint16)} for _ in range(2))
    known = np.array([1] * (IMAGES - 1) + [0], np.int8)
    return part_of(Answers("out", "segmentation", found, truths={**true, "known": known}))


def part_of(answers):
    return Predictions(np.arange(IMAGES), np.full(IMAGES, -1, np.int32), (answers,))


@pytest.mark.parametrize("made", [boxes, masks])
def test_parts_are_judged_as_one_and_given_up_one_by_one(made):
    alive = []

    def parts():
        for seed in range(4):
            # The last one is in hand until the next has been read.
            assert sum(answers() is not None for answers in alive) <= 1
            part = made(seed)
            alive.append(weakref.ref(part.main))
            yield part
            del part

    found = _judged_parts(parts())
    assert (found.known, found.total) == (4 * (IMAGES - 1), 4 * IMAGES)
    whole = joined_answers([made(seed).main for seed in range(4)])
    known = np.flatnonzero(whole.truths["known"])
    scores = task_named(whole.task).scores(whole, np.full(len(whole), -1))
    np.testing.assert_array_equal(found.judging.scores(), scores[known])


def test_a_run_whose_first_parts_have_no_truths_is_judged_by_none():
    first = part_of(Answers("out", "detection", boxes(0).main.columns))
    assert _judged_parts([first, boxes(1)]).known == 0
    assert _judged_parts([boxes(0), boxes(1)]).known == 2 * (IMAGES - 1)


def test_a_main_metric_that_is_not_defined_is_missed():
    found = _Judged(task_named("detection"), None, known=1, total=3)
    judged = Judgement((Metric("ap"), Metric("other")), lambda weights: np.zeros((len(weights), 2)), ("averages",))
    first = "1 of 3 inputs has a truth that judges them"
    assert list(_notes(found, judged, [Observation("ap", 0.5)])) == [first, "averages"]
    undefined = "no ap, which these answers and truths do not define"
    assert list(_notes(found, judged, [Observation("other", 0.5)])) == [first, "averages", undefined]


def test_a_run_without_answers_is_refused():
    with pytest.raises(StoreError, match="has no answers"):
        _judged_parts([])


def test_how_far_a_figure_is_too_high_is_asked_only_where_it_has_an_interval():
    asked = []

    def optimism(name):
        asked.append(name)
        return 0.1

    def judged(inputs):
        shares = np.linspace(0.2, 0.8, inputs)
        means = lambda weights: np.stack([weights @ shares / weights.sum(axis=1)] * 2, axis=1)  # noqa: E731
        metrics = (Metric("map"), Metric("other", interval=False))
        return list(_observed(Judgement(metrics, means, optimism=optimism), inputs, None))

    few, _ = judged(10)
    assert (few.low, asked) == (None, [])
    many, without = judged(40)
    assert asked == ["map"]
    assert many.details["optimism"] == 0.1
    assert many.low < many.value - 0.1
    assert without.details["no_interval"]
