"""What every metric must do. A test class derives from `MetricContract` and names the function.

class TestBalanced(MetricContract):
    metric = staticmethod(balanced)
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from zoolens.base.store.records import Observation, Provenance
from zoolens.findings.measure.predictions import Predictions
from zoolens.inventory.tasks.task import Answers

N, CLASSES = 120, 6


def made_predictions(n: int = N, classes: int = CLASSES, seed: int = 0, *, scores: bool = True) -> Predictions:
    """Answers of a classifier that is right about half of the time; without scores where only classes were kept."""
    rng = np.random.default_rng(seed)
    labels = (np.arange(n) % classes).astype(np.int32)
    raw = rng.random((n, classes))
    raw[np.arange(n), labels] += 0.5
    probabilities = raw / raw.sum(axis=1, keepdims=True)
    top = np.argsort(-probabilities, axis=1)[:, :5].astype(np.int32)
    columns: dict[str, NDArray[Any]] = {"top": top}
    if scores:
        columns |= {
            "score": np.take_along_axis(probabilities, top, axis=1).astype(np.float32),
            "label_score": probabilities[np.arange(n), labels].astype(np.float32),
            "sum_squares": (probabilities**2).sum(axis=1).astype(np.float32),
            "digest": np.arange(n, dtype=np.uint64),
        }
    return Predictions(
        inputs=np.array([str(number) for number in range(n)]),
        labels=labels,
        outputs=(Answers("logits", "classification", columns, classes),),
        classes=tuple(f"class {number}" for number in range(classes)),
    )


def _backwards(straight: Predictions) -> Predictions:
    columns = {name: values[::-1] for name, values in straight.main.columns.items()}
    return replace(
        straight,
        inputs=straight.inputs[::-1],
        labels=straight.labels[::-1],
        outputs=(replace(straight.main, columns=columns),),
    )


class MetricContract:
    metric: ClassVar[Callable[[Predictions], Iterable[Observation]]]

    def observed(self, predictions: Predictions) -> list[Observation]:
        return list(type(self).metric(predictions))

    def test_it_observes_something_and_each_thing_once(self) -> None:
        names = [(observation.metric, observation.scope) for observation in self.observed(made_predictions())]
        assert names
        assert len(set(names)) == len(names)

    def test_figures_are_finite_measured_and_inside_their_interval(self) -> None:
        for observation in self.observed(made_predictions()):
            assert observation.provenance is Provenance.MEASURED
            assert observation.value is not None
            assert math.isfinite(observation.value)
            assert (observation.low is None) == (observation.high is None)
            if observation.low is not None and observation.high is not None:
                assert observation.low - 1e-9 <= observation.value <= observation.high + 1e-9
            if observation.unit == "fraction":
                assert 0 <= observation.value <= 1
            json.dumps(asdict(observation)["details"])  # the store keeps them as JSON

    def test_the_same_answers_give_the_same_figures(self) -> None:
        first, again = (self.observed(made_predictions()) for _ in range(2))
        assert [asdict(observation) for observation in first] == [asdict(observation) for observation in again]

    def test_the_order_of_the_inputs_does_not_matter(self) -> None:
        straight = made_predictions()
        for forward, backward in zip(self.observed(straight), self.observed(_backwards(straight)), strict=True):
            assert (forward.metric, forward.scope) == (backward.metric, backward.scope)
            assert forward.value == pytest.approx(backward.value, rel=1e-5)

    @pytest.mark.parametrize("n", [1, 2])
    def test_very_few_inputs_are_no_error(self, n: int) -> None:
        for observation in self.observed(made_predictions(n)):
            assert observation.value is None or math.isfinite(observation.value)

    def test_answers_without_scores_are_no_error(self) -> None:
        """Networks that were trained here have classes only: figures that need scores are left out."""
        for observation in self.observed(made_predictions(scores=False)):
            assert observation.value is None or math.isfinite(observation.value)
