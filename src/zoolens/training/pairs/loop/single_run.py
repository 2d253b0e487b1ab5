"""`train_once`: one side trained once, and what came of it on the held-out samples."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event
from typing import Final

import numpy as np

from zoolens.base.errors import Circumstance, DatasetError, ZoolensError
from zoolens.training.pairs.data.sources import BatchSource
from zoolens.training.pairs.live.live_training import Losses
from zoolens.training.pairs.loop.trainable_sides import TrainableSide
from zoolens.training.pairs.networks.framework import Array

_PAUSE: Final = 1.0  # seconds of training between two reports
_MOST: Final = 1000  # steps between two reports

Report = Callable[[int], None]  # called with the number of steps that were done since


@dataclass(frozen=True)
class Length:
    """How long a training is: whole epochs, and at most so many steps where that is not None."""

    epochs: int
    most_steps: int | None = None

    def __post_init__(self) -> None:
        if self.epochs < 1 or (self.most_steps is not None and self.most_steps < 1):
            raise ZoolensError("A training has at least one epoch and one step.")

    def steps(self, source: BatchSource, seed: int = 0) -> int:
        """The number of steps in all epochs together."""
        whole = sum(source.epoch_steps(epoch, seed) for epoch in range(1, self.epochs + 1))
        return whole if self.most_steps is None else min(whole, self.most_steps)


@dataclass(frozen=True)
class SingleRun:
    """One training of one side."""

    first_loss: float
    losses: tuple[float, ...]  # the mean of each epoch
    steps: int
    seconds: float
    # The number of the step whose loss was no finite number. Nothing was trained after it, and there are no answers.
    not_finite: int | None = None
    answers: Array | None = None  # to the held-out samples
    # How many answers, of `total`, name the right class by the largest of their numbers. None: a sample has no class,
    # or several; or one number answers for two classes, and the loss decides where their border is.
    correct: int | None = None
    total: int | None = None

    @property
    def accuracy(self) -> float | None:
        return None if self.correct is None or not self.total else self.correct / self.total


def train_once(
    side: TrainableSide,
    source: BatchSource,
    seed: int,
    length: Length,
    *,
    fresh: bool = True,
    report: Report | None = None,
    stop: Event | None = None,
) -> SingleRun:
    """Train one side and ask it about the held-out samples. `fresh`: begin anew (`TrainableSide.begin`); otherwise
    whoever calls has begun. `stop`: set by another thread, it ends the training with a Circumstance."""
    if fresh:
        side.begin(seed)
    began = time.perf_counter()
    epochs: list[Losses] = []
    left = length.steps(source, seed)
    for epoch in range(1, length.epochs + 1):
        losses = _epoch(side, source, (epoch, seed), left, report, stop)
        epochs.append(losses)
        left -= len(losses)
        if left <= 0 or not len(losses) or not np.isfinite(losses).all():
            break
    run = _losses(epochs, time.perf_counter() - began)
    if not run.steps:  # both sides would still have equal weights, and look the same
        raise DatasetError(f"{source.name} gives no batch, and so nothing was trained.")
    return run if run.not_finite is not None else _judged(run, side, source)


def _epoch(
    side: TrainableSide,
    source: BatchSource,
    place: tuple[int, int],
    left: int,
    report: Report | None,
    stop: Event | None,
) -> Losses:
    """The losses of one epoch, up to the first that is not finite. As many steps are asked for at once as take about a
    second."""
    parts: list[Losses] = []
    count, wanted = 1, min(left, source.epoch_steps(*place))
    while wanted > 0:
        if stop is not None and stop.is_set():
            raise Circumstance("The training was stopped.")
        began = time.perf_counter()
        losses = side.next_steps(source, *place, min(count, wanted))
        if not len(losses):
            break
        each = (time.perf_counter() - began) / len(losses)
        parts.append(losses)
        wanted -= len(losses)
        if report is not None:
            report(len(losses))
        if not np.isfinite(losses).all():
            break
        count = max(1, min(_MOST, int(_PAUSE / max(each, 1e-9)), 4 * count))
    return np.concatenate(parts) if parts else np.zeros(0)


def _losses(epochs: list[Losses], seconds: float) -> SingleRun:
    every = np.concatenate(epochs) if epochs else np.zeros(0)
    bad = np.flatnonzero(~np.isfinite(every))
    return SingleRun(
        first_loss=float(every[0]) if len(every) else float("nan"),
        losses=tuple(float(np.mean(losses)) for losses in epochs if len(losses)),
        steps=len(every),
        seconds=seconds,
        not_finite=int(bad[0]) + 1 if len(bad) else None,
    )


def _judged(run: SingleRun, side: TrainableSide, source: BatchSource) -> SingleRun:
    if not source.held_out_samples:
        return run
    answers = side.held_out_answers(source)
    targets = held_out_targets(source)
    values = run.__dict__ | {"answers": answers}
    if not np.isfinite(answers).all():
        return SingleRun(**values | {"not_finite": run.steps, "answers": None})
    named = _classes_of(source, targets)
    if named is not None and answers.ndim == 2 and answers.shape[1] > 1:
        values |= {"correct": int((answers.argmax(-1) == named).sum()), "total": len(named)}
    return SingleRun(**values)


def held_out_targets(source: BatchSource) -> Array:
    """Returns the targets of all held-out samples, in order."""
    return np.concatenate([batch.targets for batch in source.held_out()])


def _classes_of(source: BatchSource, targets: Array) -> Array | None:
    """The one class of each sample; None where targets are none, or several for a sample, as rows of labels are."""
    if source.classes is None:
        return None
    if targets.ndim == 2 and source.target_kind in ("one-hot", "probabilities"):
        named: Array = targets.argmax(-1)
        return named
    return targets.reshape(-1) if targets.size == len(targets) else None
