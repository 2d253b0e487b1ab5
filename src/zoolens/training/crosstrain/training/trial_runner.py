"""One trial: the same recipe trained by every side, with the same first weights and the same batches where shared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ValidationError

from zoolens.base.errors import UnknownName, WorkerError, ZoolensError
from zoolens.base.store.records import fingerprint
from zoolens.training.crosstrain.training.architectures import build
from zoolens.training.crosstrain.training.initial import initial_weights
from zoolens.training.crosstrain.training.job import Epoch, Job, Outcome
from zoolens.training.crosstrain.training.manner import Manner
from zoolens.training.crosstrain.training.network import Network
from zoolens.training.crosstrain.training.recipe import Optimizer, Recipe, Schedule
from zoolens.training.crosstrain.training.trainer_pool import Workers, read_predictions
from zoolens.training.crosstrain.training.trainer_process import PREDICTIONS
from zoolens.training.crosstrain.training.trainers.registry import trainer_named
from zoolens.training.crosstrain.training.trials import Hyperparameter, TrainedSide, Trial
from zoolens.training.crosstrain.training.weights import write_weights
from zoolens.training.pairs.data.prepared_data import PreparedData, load, prepared
from zoolens.training.pairs.semantics import USUAL, Semantics

Answers = NDArray[np.int32]
Report = Callable[[str, Epoch], None]  # framework, epoch

# A semantic -> the field of the recipe's optimizer that goes before it.
CONSTANTS: Final[Mapping[str, str]] = {
    "adam_epsilon": "epsilon", "root_epsilon": "epsilon", "rmsprop_rho": "rho", "adagrad_start": "initial_accumulator",
}  # fmt: skip
_PARTS: Final[Mapping[str, type[BaseModel]]] = {
    "optimizer": Optimizer, "semantics": Semantics, "schedule": Schedule,
}  # fmt: skip


def none_known(_: Job) -> TrainedSide | None:
    """Train every side."""
    return None


def no_report(_framework: str, _epoch: Epoch) -> None:
    """For who waits for the end."""


def not_kept(_: TrainedSide) -> None:
    """For who keeps nothing, or only whole trials."""


@dataclass(frozen=True)
class TrialRequest:
    """One recipe and the frameworks that train it."""

    recipe: Recipe  # as it stands, with the hyperparameters applied
    frameworks: Sequence[str]
    trial_id: str
    hyperparameters: Mapping[str, Hyperparameter] = field(default_factory=dict)
    overrides: Mapping[str, Semantics] = field(default_factory=dict)  # semantics switched for one side alone

    def told(self, framework: str) -> Semantics:
        """The semantics that a side is told: its own over the recipe's."""
        return self.overrides.get(framework, Semantics()).over(self.recipe.wanted)


@dataclass(frozen=True)
class Memory:
    """What was trained before, and who keeps what is new."""

    # A side that need not be trained again; its answers are compared where they still lie in its output folder.
    known: Callable[[Job], TrainedSide | None] = none_known
    # Gets each new side as soon as it is trained, in the thread that trained it.
    keep: Callable[[TrainedSide], None] = not_kept


def train_trial(
    request: TrialRequest,
    workers: Workers,
    work: Path,
    *,
    manner: Manner | None = None,
    memory: Memory | None = None,
    report: Report = no_report,
) -> Trial:
    """Train every side of a trial and compare their answers. `work`: a folder; this trial's files go to
    `work`/TRIAL/FRAMEWORK."""
    how, remembered = manner or Manner(), memory or Memory()
    recipe, frameworks, switched = request.recipe, request.frameworks, request.overrides
    folder, data = work / request.trial_id, prepared(recipe)
    jobs = [
        Job(
            recipe=recipe,
            framework=framework,
            semantics=request.told(framework),
            data=data.folder,
            output=folder / framework,
            loop=how.loop or trainer_named(framework).usual_loop(how.device),
            device=how.device,
            threads=how.threads,
            keep_weights=how.keep_weights,
        )
        for framework in frameworks
    ]
    truth = load(data.folder).test_y
    sides = {job.framework: side for job in jobs if (side := remembered.known(job)) is not None}
    for job in jobs:
        if job.framework in sides:
            check_told(job, switched.get(job.framework), Semantics(**sides[job.framework].semantics))
    old = [job for job in jobs if job.framework in sides and (job.output / PREDICTIONS).is_file()]
    answers = {job.framework: read_predictions(job) for job in old}

    def train(job: Job) -> tuple[TrainedSide, Answers]:
        outcome, predicted = workers.train(job, lambda epoch: report(job.framework, epoch))
        check_told(job, switched.get(job.framework), outcome.semantics)
        side = side_of(outcome, predicted, truth, data.classes)
        remembered.keep(side)
        return side, predicted

    with _shared_weights(data, [job for job in jobs if job.framework not in sides], folder) as todo:
        for job, (side, predicted) in zip(todo, _each(train, todo, how.concurrent), strict=True):
            sides[job.framework] = side
            answers[job.framework] = predicted
    return Trial(
        request.trial_id,
        dict(request.hyperparameters),
        tuple(sides[framework] for framework in frameworks),
        churn(frameworks, answers),
        tuple(f"{name}: {sides[name].message}" for name in frameworks if sides[name].message),
        {
            "recipe": recipe.model_dump(mode="json"),
            "overrides": {name: semantics.model_dump(exclude_none=True) for name, semantics in switched.items()},
            "dataset": data.record.fingerprint,
        },
    )


def check_told(job: Job, switched: Semantics | None, read: Semantics) -> None:
    """An error where the live objects of a side (`read`) are not as the side was told: a switch without effect would be
    taken for one that makes no difference."""
    for name in contradicted(job.recipe, job.semantics, switched or Semantics(), read):
        raise ZoolensError(
            f"{job.framework} was set to {name} {getattr(job.semantics, name)} and its live objects have "
            f"{getattr(read, name)}: the setting had no effect.",
            hint="Leave that semantic out for this trainer, or mend the trainer.",
        )


def contradicted(recipe: Recipe, wanted: Semantics, switched: Semantics, read: Semantics) -> tuple[str, ...]:
    """Names of what a side was told and its live objects (`read`) have otherwise. `switched`: what of it is told to
    this side alone. The recipe's own constants go before those that all sides are told."""
    constants = {name: getattr(recipe.optimizer, field) for name, field in CONSTANTS.items()}
    own = [name for name, value in constants.items() if value is not None and getattr(switched, name) is None]
    return wanted.model_copy(update=dict.fromkeys(own)).differing(read)


def side_of(outcome: Outcome, answers: Answers, truth: NDArray[Any], classes: int) -> TrainedSide:
    """Exact counts from what was answered; without answers, a side that only says what went wrong."""
    facts: dict[str, Any] = {
        "status": outcome.status,
        "losses": tuple(epoch.loss for epoch in outcome.epochs),
        "accuracies": tuple(epoch.correct / epoch.total for epoch in outcome.epochs),
        "seconds": outcome.seconds,
        "semantics": outcome.semantics.model_dump(exclude_none=True),
        "message": outcome.message,
    }
    if not len(answers):
        return TrainedSide(outcome.framework, **facts)
    if len(answers) != len(truth) or answers.min() < 0 or answers.max() >= classes:
        raise WorkerError(f"{outcome.framework} did not answer one of {classes} classes for each test sample.")
    right = answers == truth
    present = np.bincount(truth, minlength=classes)
    correct_of = np.bincount(truth[right], minlength=classes)
    return TrainedSide(
        outcome.framework,
        accuracy=float(right.mean()),
        correct=int(right.sum()),
        total=len(truth),
        class_accuracy=tuple(
            int(good) / int(all_) if all_ else None for good, all_ in zip(correct_of, present, strict=True)
        ),
        answered=tuple(np.bincount(answers, minlength=classes).tolist()),
        **facts,
    )


def churn(frameworks: Sequence[str], answers: Mapping[str, Answers]) -> dict[tuple[str, str], float]:
    """Share of test samples that a pair answers differently, for every pair that answered."""
    there = [framework for framework in frameworks if len(answers.get(framework, ()))]
    return {(a, b): float((answers[a] != answers[b]).mean()) for a, b in combinations(there, 2)}


def apply(recipe: Recipe, hyperparameters: Mapping[str, Hyperparameter]) -> Recipe:
    """The recipe with some of its values replaced; dots lead into its parts ("optimizer.epsilon")."""
    settings = recipe.model_dump()
    for name, value in hyperparameters.items():
        if name not in HYPERPARAMETERS:
            raise UnknownName("hyperparameter", name, HYPERPARAMETERS)
        part, dot, field = name.rpartition(".")
        (settings.setdefault(part, {}) if dot else settings)[field] = value
    try:
        return Recipe.model_validate(settings)
    except ValidationError as error:
        first = error.errors()[0]
        place, why = ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")
        raise ZoolensError(
            f"{place} cannot be {first['input']!r}: {why}."
            if place
            else f"These hyperparameters do not go together: {why}.",
            hint="Set another value, or narrow the range that is searched.",
        ) from error


HYPERPARAMETERS: Final = (
    *(name for name in Recipe.model_fields if name not in _PARTS),
    *(f"{part}.{name}" for part, model in _PARTS.items() for name in model.model_fields),
)


@contextmanager
def _shared_weights(data: PreparedData, jobs: list[Job], folder: Path) -> Iterator[list[Job]]:
    """Where weights are shared: one file for all sides, or one for each kind of first weights that they want. Tensors
    of the same rule are the same in each."""
    files: dict[str, Path] = {}
    given = []
    for job in jobs:
        if job.recipe.weights != "shared":
            given.append(job)
            continue
        resolved = job.semantics.over(USUAL)
        key = fingerprint([resolved.init, resolved.bias_init, resolved.conv_bias])[:8]
        if key not in files:
            files[key] = folder / f"initial-{key}.safetensors"
            network = build(job.recipe.architecture, resolved, data.input_shape, data.classes)
            write_weights(files[key], first_weights(network, resolved, job.recipe.seed))
        given.append(job.model_copy(update={"weights": files[key]}))
    try:
        yield given
    finally:
        for path in files.values():
            path.unlink(missing_ok=True)


def first_weights(network: Network, semantics: Semantics, seed: int) -> dict[str, NDArray[Any]]:
    """`initial_weights`, for all sides."""
    try:
        return initial_weights(network, semantics, seed)
    except MemoryError as error:
        raise ZoolensError(
            f"There is not enough memory for the first weights of {network.architecture}.",
            hint="Use a smaller architecture, or smaller images.",
        ) from error


def _each(
    train: Callable[[Job], tuple[TrainedSide, Answers]], jobs: Sequence[Job], concurrent: bool
) -> list[tuple[TrainedSide, Answers]]:
    if not concurrent or len(jobs) < 2:
        return [train(job) for job in jobs]
    with ThreadPoolExecutor(len(jobs)) as threads:
        return list(threads.map(train, jobs))
