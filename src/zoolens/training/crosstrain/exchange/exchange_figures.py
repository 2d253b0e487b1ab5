"""What a study says of its sides, against what their stored answers say."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

from zoolens.base.store.records import Provenance, fingerprint
from zoolens.training.crosstrain.exchange.contents import Answers, Contents, DatasetEntry, ExportedSide, TrialFacts
from zoolens.training.crosstrain.training.job import Outcome
from zoolens.training.crosstrain.training.trial_runner import churn, side_of
from zoolens.training.crosstrain.training.trials import TrainedSide

_ROUNDING: Final = 1e-9
_LARGEST_IMAGE: Final = 1 << 14  # pixels of a side, or channels
_COMPARED: Final = ("accuracy", "correct", "total", "class_accuracy", "answered")


def metric_problems(contents: Contents) -> Iterator[str]:
    for place, labels in contents.labels.items():
        yield from _label_problems(contents.study.datasets[place], labels)
    for trial, facts in contents.sides:
        where = f"Trial {trial.trial.id!r}, {facts.side.framework}"
        dataset, truth = contents.study.datasets[trial.dataset], contents.labels.get(trial.dataset)
        for problem in _side_problems(facts, trial, dataset, truth):
            yield f"{where}: {problem}."
    for trial in contents.trials:
        yield from _churn_problems(trial)
    yield from _twin_problems(contents)


def _label_problems(dataset: DatasetEntry, labels: Answers) -> Iterator[str]:
    classes = _classes(dataset)
    if dataset.size != len(labels):
        yield f"labels.parquet has {len(labels)} labels of {dataset.name!r}, which has {dataset.size} test samples."
    image = dataset.details.get("image")
    if (
        not isinstance(image, list)
        or len(image) != 3
        or not all(isinstance(extent, int) and 0 < extent <= _LARGEST_IMAGE for extent in image)
    ):
        yield f"study.json: {dataset.name!r} does not say height, width and channels of its images."
    if classes is None or int(labels.max()) >= classes:
        yield f"labels.parquet: the labels of {dataset.name!r} do not fit its number of classes."


def _classes(dataset: DatasetEntry) -> int | None:
    classes = dataset.details.get("classes")
    return classes if isinstance(classes, int) and 0 < classes <= 1_000_000 else None


def _side_problems(
    facts: ExportedSide, trial: TrialFacts, dataset: DatasetEntry, labels: Answers | None
) -> Iterator[str]:
    if facts.answers is None:
        if facts.side.accuracy is not None and trial.provenance is not Provenance.CLAIMED:
            yield "it has no predictions that its accuracy could be recomputed from"
        if facts.recipe is not None and facts.side.status == "finished" and facts.side.accuracy is None:
            yield "it finished, and has neither an accuracy nor predictions"
        if facts.recipe is not None and trial.provenance is Provenance.CLAIMED:
            yield "a claim without predictions cannot stand for the training of a recipe"
        if facts.weights is not None:
            yield "it has weights, and no predictions that they gave"
        return
    if labels is None:
        yield "there are no labels to hold its predictions against"
        return
    classes = _classes(dataset)
    if classes is None or len(facts.answers) != len(labels) or int(facts.answers.max()) >= classes:
        yield "its predictions are not one of the classes for each test sample"
        return
    blank = Outcome(framework=facts.side.framework, versions={}, status="finished")
    recomputed = side_of(blank, facts.answers, labels, classes)
    for name in _COMPARED:
        stated, true = getattr(facts.side, name), getattr(recomputed, name)
        if not _same(stated, true):
            yield f"{_words(name)} is stated as {_shown(stated)}, and its predictions give {_shown(true)}"
    yield from _curve_problems(facts.side, recomputed)


def _curve_problems(side: TrainedSide, recomputed: TrainedSide) -> Iterator[str]:
    """The answers are those after the last epoch, and every accuracy is a count of the same samples."""
    assert recomputed.total is not None
    if side.accuracies and not _same(side.accuracies[-1], recomputed.accuracy):
        last = side.accuracies[-1]
        yield f"the accuracy after its last epoch is stated as {last}, and its predictions give {recomputed.accuracy}"
    counts = [accuracy * recomputed.total for accuracy in side.accuracies if accuracy is not None]
    if any(abs(count - round(count)) > 1e-6 * recomputed.total for count in counts):
        yield f"an accuracy of its epochs is no share of {recomputed.total} samples"


def _churn_problems(trial: TrialFacts) -> Iterator[str]:
    answers = {side.side.framework: side.answers for side in trial.sides if side.answers is not None}
    if len({len(answer) for answer in answers.values()}) > 1:
        return  # said of the side already
    true = churn([side.side.framework for side in trial.sides], answers)
    for (a, b), stated in trial.trial.churn.items():
        share = true.get((a, b), true.get((b, a)))
        if share is None and trial.provenance is not Provenance.CLAIMED:
            yield f"Trial {trial.trial.id!r}: the churn of {a} and {b} cannot be recomputed without their predictions."
        elif share is not None and not _same(stated, share):
            yield f"Trial {trial.trial.id!r}: the churn of {a} and {b} is stated as {stated}, and is {share}."


def _twin_problems(contents: Contents) -> Iterator[str]:
    """One training told twice must be told alike."""
    seen: dict[str, tuple[str, TrainedSide]] = {}
    for trial, facts in contents.sides:
        if facts.recipe is None or facts.side.status == "failed":
            continue
        recipe = facts.recipe.model_dump(mode="json", exclude={"dataset"})
        identity = [facts.side.framework, recipe, facts.told.model_dump(mode="json"), dict(facts.versions)]
        key = fingerprint([identity, dict(trial.conditions), contents.study.datasets[trial.dataset].fingerprint])
        first, side = seen.setdefault(key, (trial.trial.id, facts.side))
        if side != facts.side:
            yield f"Trials {first!r} and {trial.trial.id!r} tell the same training of {side.framework} differently."


def _same(stated: Any, true: Any) -> bool:
    if isinstance(stated, tuple) and isinstance(true, tuple):
        return len(stated) == len(true) and all(map(_same, stated, true))
    if stated is None or true is None:
        return stated is true
    return math.isclose(stated, true, rel_tol=0, abs_tol=_ROUNDING)


def _words(name: str) -> str:
    return {"class_accuracy": "the accuracy of each class", "answered": "how often each class was answered"}.get(
        name, f"the number {name}" if name in ("correct", "total") else f"the {name}"
    )


def _shown(value: Any) -> str:
    text = str(list(value) if isinstance(value, tuple) else value)
    return text if len(text) <= 80 else f"{text[:80]}…"
