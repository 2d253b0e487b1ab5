"""Top-1 and top-5 accuracy with Wilson intervals."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from zoolens.base.statistics.intervals import CONFIDENCE, wilson
from zoolens.base.store.records import Observation
from zoolens.findings.measure.predictions import Predictions


def topk(predictions: Predictions) -> Iterator[Observation]:
    n = len(predictions)
    hits = predictions.top == predictions.labels[:, None]
    for k in (1, 5):
        if k > predictions.top.shape[1]:
            continue
        right = int(np.count_nonzero(hits[:, :k].any(axis=1)))
        low, high = wilson(right, n)
        yield Observation(
            f"top{k}",
            right / n,
            unit="fraction",
            low=low,
            high=high,
            n=n,
            details={"interval": "wilson", "confidence": CONFIDENCE, "correct": right, "ties": predictions.ties},
        )
