"""The pairs of classes a model confuses most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from zoolens.base.store.records import Observation
from zoolens.findings.measure.predictions import Predictions

SHOWN = 3


def confusion(predictions: Predictions) -> Iterator[Observation]:
    wrong = ~predictions.correct
    pairs = Counter(zip(predictions.labels[wrong].tolist(), predictions.top[wrong, 0].tolist(), strict=True))
    for rank, ((truth, answer), count) in enumerate(
        sorted(pairs.items(), key=lambda item: (-item[1], item[0]))[:SHOWN]
    ):
        yield Observation(
            "confusion",
            count / len(predictions),
            scope=f"rank={rank + 1}",
            unit="fraction",
            n=len(predictions),
            details={"truth": predictions.class_name(truth), "answer": predictions.class_name(answer), "count": count},
        )
