"""Recall of each class: where a model is weak, and whether two models are weak in the same places."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from zoolens.base.statistics.intervals import CONFIDENCE, wilson
from zoolens.base.store.records import Observation
from zoolens.base.store.scopes import class_scope
from zoolens.findings.measure.predictions import Predictions

FEW = 5  # a class with fewer examples says nothing: ImageNet subsets with one image a class would fill the store


def per_class(predictions: Predictions) -> Iterator[Observation]:
    totals = np.bincount(predictions.labels)
    right = np.bincount(predictions.labels[predictions.correct], minlength=len(totals))
    for index in np.flatnonzero(totals >= FEW):
        low, high = wilson(int(right[index]), int(totals[index]))
        yield Observation(
            "recall",
            float(right[index] / totals[index]),
            scope=class_scope(int(index)),
            unit="fraction",
            low=low,
            high=high,
            n=int(totals[index]),
            details={**predictions.class_details(int(index)), "interval": "wilson", "confidence": CONFIDENCE},
        )
