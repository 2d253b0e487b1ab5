"""Figures of hand-made studies."""

from __future__ import annotations

import pytest

from zoolens.training.crosstrain.study.analysis.analysis_tables import (
    Summary,
    accuracy_table,
    apart,
    delta_table,
    least_apart,
    most_apart,
)
from zoolens.training.crosstrain.training.trials import Study, TrainedSide, Trial


def study(*pairs):
    trials = [
        Trial(str(i), {}, (TrainedSide("a", accuracy=a), TrainedSide("b", accuracy=b)))
        for i, (a, b) in enumerate(pairs)
    ]
    return Study("s", ("a", "b"), tuple(trials))


STUDY = study((0.5, 0.25), (0.75, 0.75), (None, 0.5), (0.25, 0.75))


def test_summaries_leave_out_what_is_not_there():
    first, second = accuracy_table(STUDY)
    assert first == Summary("a", 3, 0.25, 0.75, 0.5, 0.5)
    assert (second.count, second.median) == (4, 0.625)
    assert delta_table([STUDY]) == (Summary("s", 3, 0.0, 0.5, 0.25, 0.25),)
    assert delta_table([study()]) == (Summary("s", 0),)


def test_how_many_are_apart():
    share = apart([STUDY, STUDY], 0.25)
    assert (share.count, share.total) == (4, 6)
    assert share.share == pytest.approx(2 / 3)
    assert apart([]).share == 0
    assert apart([study((0.15, 0.1))]).count == 1  # 0.04999… in binary


def test_the_extremes_leave_out_trials_without_a_difference():
    assert [trial.id for trial in most_apart(STUDY)] == ["3", "0", "1"]
    assert [trial.id for trial in least_apart(STUDY, 2)] == ["1", "0"]


def test_a_published_difference_counts_before_its_rounded_accuracies():
    trial = Trial(
        "x", {}, (TrainedSide("a", accuracy=0.1), TrainedSide("b", accuracy=0.1)), details={"published_delta": 4e-10}
    )
    assert delta_table([Study("s", ("a", "b"), (trial,))])[0].maximum == 4e-10


@pytest.mark.parametrize("said", ["0.9", [1], None, 0.9, -1, 10**400])
def test_what_is_not_the_published_difference_of_these_accuracies_does_not_count(said):
    trial = Trial(
        "x", {}, (TrainedSide("a", accuracy=0.5), TrainedSide("b", accuracy=0.25)), details={"published_delta": said}
    )
    assert delta_table([Study("s", ("a", "b"), (trial,))])[0].maximum == 0.25
