"""Trials as observations in the one store.

Each side of a trial is a run: its model is the recipe with its semantics, its dataset the training data, its stack
"crosstrain:FRAMEWORK". The same training is the same run, whatever studies it belongs to. The trial itself is a row of
the store's table of trials, which is written once all its sides are: whoever finds one can read the whole trial.

Every write is idempotent and whole or absent, so a study that was killed is simply run again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count, permutations
from typing import Any, Final

from numpy.typing import NDArray

from zoolens.base import plugins
from zoolens.base.errors import UnknownName
from zoolens.base.store.records import (
    DatasetRecord,
    ModelRecord,
    Observation,
    Provenance,
    Run,
    RunKey,
    RunKind,
    StackRecord,
    Stage,
    fingerprint,
)
from zoolens.base.store.scopes import Dimension, Scope, epoch_scope, pair_scope
from zoolens.base.store.store import Store
from zoolens.base.store.studies import StudyRecord, TrialRecord, TrialSide
from zoolens.findings.measure.answers import TRAINED, has_answers, keep_trained_answers
from zoolens.training.crosstrain.training.fanout import this_machine
from zoolens.training.crosstrain.training.job import Outcome
from zoolens.training.crosstrain.training.recipe import Recipe
from zoolens.training.crosstrain.training.trials import IMPORTING, Study, TrainedSide, Trial
from zoolens.training.pairs.semantics import Semantics

RUNTIME: Final = "crosstrain:"  # and the framework's name
_DIGITS: Final = re.compile(r"([0-9]+)")

Told = tuple[Recipe | None, Semantics]
Facts = Mapping[tuple[str, str], Observation]  # of a run, by metric and scope
Versions = Mapping[str, str]  # distribution -> version; the first one is "the" version


# --- writing


def file_study(store: Store, name: str, frameworks: Sequence[str], details: Mapping[str, Any]) -> None:
    """What is said of a study as a whole. What was said before stays; the last word counts."""
    store.add_study(StudyRecord(name, tuple(frameworks), details))


@contextmanager
def importing(
    store: Store, name: str, frameworks: Sequence[str], details: Mapping[str, Any], trials: int
) -> Iterator[None]:
    """Trials are filed in the block. Until it ends, what is said of the study tells how many it will have, so that a
    part of it is not taken for the whole if the import is interrupted."""
    plain = {key: value for key, value in details.items() if key != IMPORTING}
    if trials > len(store.trials(name)):
        file_study(store, name, frameworks, {**plain, IMPORTING: trials})
    yield
    file_study(store, name, frameworks, plain)


@dataclass(frozen=True)
class TrialFiling:
    """What is filed with a trial beside its figures. Mappings are by framework."""

    # The recipe, with the semantics that the side was told (`Job.semantics`), not what it resolved them to.
    recipe_of: Mapping[str, Told]
    dataset: DatasetRecord
    versions: Mapping[str, Versions]
    predictions: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    # What else can change the numbers, such as loop, device and threads; None: this machine.
    conditions: Mapping[str, Any] | None = None
    provenance: Provenance = Provenance.MEASURED


def file_trial(store: Store, study: str, trial: Trial, facts: TrialFiling) -> Trial:
    """File a trial and return it with the runs of its sides. A side that was trained before stays as it is."""
    surroundings = this_machine() if facts.conditions is None else facts.conditions
    filed = []
    for side in trial.sides:
        recipe, semantics = facts.recipe_of[side.framework]
        model = _model(side.framework, recipe, semantics, study, trial)
        stack = _stack(side.framework, facts.versions[side.framework], surroundings)
        run = store.begin_run(model, facts.dataset, stack, kind=RunKind.TRAINING)
        answers, outcome = facts.predictions.get(side.framework), facts.outcomes.get(side.framework)
        _file_side(store, run, side, answers, outcome, facts.provenance)
        filed.append(replace(side, run=run.id))
    complete = replace(trial, sides=tuple(filed))
    _file_churn(store, study, complete)
    store.add_trial(_record(study, complete))  # last: whoever finds it finds all of it
    return complete


def file_side(
    store: Store,
    side: TrainedSide,
    training: tuple[Recipe, Semantics],
    dataset: DatasetRecord,
    outcome: Outcome,
    *,
    answers: NDArray[Any] | None,
    conditions: Mapping[str, Any],
) -> str:
    """File one side before the others of its trial are trained, and return its run; `file_trial` then finds it."""
    stack = _stack(side.framework, outcome.versions, conditions)
    run = store.begin_run(_recipe_model(side.framework, *training), dataset, stack, kind=RunKind.TRAINING)
    _file_side(store, run, side, answers, outcome, Provenance.MEASURED)
    return run.id


def _model(framework: str, recipe: Recipe | None, semantics: Semantics, study: str, trial: Trial) -> ModelRecord:
    """Without a recipe (a published trial) nobody knows what would be the same training: each trial is its own."""
    if recipe is not None:
        return _recipe_model(framework, recipe, semantics)
    settings = {"hyperparameters": dict(trial.hyperparameters), "framework": framework}
    identity: dict[str, Any] = {"study": study, "trial": trial.id, **settings}
    ref = f"crosstrain:{trial.details.get('architecture') or study}"
    return ModelRecord(fingerprint(["crosstrain", identity]), ref, "recipe", identity)


def _recipe_model(framework: str, recipe: Recipe, semantics: Semantics) -> ModelRecord:
    manifest = {
        "recipe": recipe.model_dump(mode="json"),
        "semantics": semantics.model_dump(mode="json"),
        "framework": framework,
    }
    identity = {**manifest, "recipe": recipe.model_dump(mode="json", exclude={"dataset"})}  # its content is in the key
    if recipe.optimizer.weight_decay:
        identity["weight_decay"] = "as the semantics say"  # before, Keras added it to the gradient in every mode
    return ModelRecord(fingerprint(["crosstrain", identity]), f"crosstrain:{recipe.architecture}", "recipe", manifest)


def _stack(framework: str, versions: Versions, conditions: Mapping[str, Any]) -> StackRecord:
    version = next(iter(versions.values()), None)
    identity = {"framework": framework, "version": version, "packages": dict(versions), "conditions": dict(conditions)}
    if (code := plugins.code_of(plugins.TRAINERS, framework)) is not None:
        identity["plugin"] = code
    return StackRecord(fingerprint(["crosstrain", identity]), f"{RUNTIME}{framework}", identity, identity)


def _file_side(
    store: Store,
    run: Run,
    side: TrainedSide,
    answers: NDArray[Any] | None,
    outcome: Outcome | None,
    provenance: Provenance,
) -> None:
    if has_answers(run):
        return
    if side.status == "failed":
        store.fail_stage(run.id, Stage.TRAINING, side.message or "it failed without a word")
        return
    kept = {"answers": None} if answers is None else keep_trained_answers(store, run.id, answers)
    observations = [*_figures(side), *(_measured(outcome) if outcome else ())]
    details = {"status": side.status, "message": side.message}
    learnt = {**details, "semantics": dict(side.semantics), **kept}
    observations.append(Observation(TRAINED, float(len(side.losses)), unit="epochs", details=learnt))
    store.finish_stage(
        run.id,
        Stage.TRAINING,
        [replace(observation, provenance=provenance) for observation in observations],
        details=details,
    )


def _figures(side: TrainedSide) -> Iterator[Observation]:
    counted = {"correct": side.correct, "exact": side.exact}
    if side.accuracy is not None:
        yield Observation("accuracy", side.accuracy, unit="fraction", n=side.total, details=counted)
    if side.seconds is not None:
        yield Observation("training_time", side.seconds, unit="s")
    yield from _series("loss", Dimension.EPOCH, side.losses, first=1)
    yield from _series("accuracy", Dimension.EPOCH, side.accuracies, first=1, unit="fraction")
    yield from _series("recall", Dimension.CLASS, side.class_accuracy, unit="fraction")
    yield from _series("answered", Dimension.CLASS, side.answered)


def _series(
    metric: str, over: Dimension, values: Iterable[float | None], first: int = 0, unit: str = ""
) -> Iterator[Observation]:
    for place, value in enumerate(values, start=first):
        number = float("nan") if value is None else float(value)
        yield Observation(metric, number, scope=str(Scope(over, str(place))), unit=unit)


def _measured(outcome: Outcome) -> Iterator[Observation]:
    """What a side measured that is not part of a trial."""
    if outcome.parameters is not None:
        yield Observation("parameters", float(outcome.parameters))
    yield Observation("steps", float(outcome.steps))
    for epoch in outcome.epochs:
        yield Observation("epoch_time", epoch.seconds, scope=epoch_scope(epoch.number), unit="s")


def _record(study: str, trial: Trial) -> TrialRecord:
    sides = tuple(
        TrialSide(side.framework, str(side.run), side.message if side.status == "failed" else None)
        for side in trial.sides
    )
    return TrialRecord(study, trial.id, trial.hyperparameters, sides, trial.notes, trial.details)


def _file_churn(store: Store, study: str, trial: Trial) -> None:
    run_of = {side.framework: str(side.run) for side in trial.sides}
    known = store.observations_by_run(list(run_of.values()), metrics=["churn"])
    for framework, run_id in run_of.items():
        there = _by_scope(known.get(run_id, ()))
        shares = [share for share in _churn(trial, framework, run_of) if (share.metric, share.scope) not in there]
        if shares:
            store.finish_stage(run_id, f"trial {study}/{trial.id}", shares)


def _churn(trial: Trial, framework: str, run_of: Mapping[str, str]) -> Iterator[Observation]:
    for (a, b), share in trial.churn.items():
        if a == framework:
            yield Observation("churn", share, scope=pair_scope(run_of[b]), unit="fraction", details={"other": b})


# --- reading


def study_names(store: Store, *, hidden: bool = False) -> list[str]:
    """`hidden`: also those that were removed from the list, and those without a trial, whose first could not be
    trained."""
    known, filled = store.studies(), set(store.studies_with_trials())
    if hidden:
        return sorted(filled | set(known))
    return sorted(name for name in filled if name not in known or not known[name].removed)


def remove_study(store: Store, name: str) -> None:
    """Take a study off the list. Its trainings stay, and whoever trains into it again brings it back."""
    study = read_study(store, name)
    store.add_study(StudyRecord(name, study.frameworks, study.details, removed=True))


def read_study(store: Store, name: str) -> Study:
    """A study with all its trials, by their ids in natural order."""
    records, known = store.trials(name), store.studies(name).get(name)
    if known is None and not records:
        raise UnknownName("study", name, study_names(store))
    runs = {side.run for record in records for side in record.sides}
    facts = {run: _by_scope(observed) for run, observed in store.observations_by_run(runs).items()}
    trials = tuple(_trial(record, facts) for record in sorted(records, key=lambda record: natural_order(record.name)))
    frameworks = dict.fromkeys(side.framework for trial in trials for side in trial.sides)
    known = known or StudyRecord(name, tuple(frameworks))
    return Study(name, known.frameworks, trials, known.details)


def side_done(
    store: Store,
    *,
    framework: str,
    recipe: Recipe,
    semantics: Semantics,
    dataset: DatasetRecord,
    versions: Versions,
    conditions: Mapping[str, Any] | None = None,
) -> TrainedSide | None:
    """The side that was trained so already, else None; the arguments are those of `file_trial`. One that failed is not
    done; one that did not stay finite, or ran out of memory, is."""
    stack = _stack(framework, versions, this_machine() if conditions is None else conditions)
    model = _recipe_model(framework, recipe, semantics)
    key = RunKey(model.fingerprint, dataset.fingerprint, stack.fingerprint)
    return _side(framework, key.id, _by_scope(store.observations_by_run([key.id]).get(key.id, ())))


def _trial(record: TrialRecord, facts: Mapping[str, Facts]) -> Trial:
    sides = []
    for side in record.sides:
        failed = TrainedSide(side.framework, status="failed", message=side.error or "", run=side.run)
        sides.append(_side(side.framework, side.run, facts.get(side.run, {})) or failed)
    churn = {
        (a.framework, b.framework): float(share.value)
        for a, b in permutations(record.sides, 2)
        if (share := facts.get(a.run, {}).get(("churn", pair_scope(b.run)))) and share.value is not None
    }
    return Trial(record.name, record.hyperparameters, tuple(sides), churn, record.notes, record.details)


def _side(framework: str, run: str, facts: Facts) -> TrainedSide | None:
    learnt = facts.get((TRAINED, ""))
    if learnt is None:
        return None
    accuracy, seconds = facts.get(("accuracy", "")), facts.get(("training_time", ""))
    return TrainedSide(
        framework,
        status=learnt.details["status"],
        accuracy=accuracy.value if accuracy else None,
        exact=accuracy.details["exact"] if accuracy else True,
        correct=accuracy.details["correct"] if accuracy else None,
        total=accuracy.n if accuracy else None,
        losses=tuple(_read_series(facts, "loss", Dimension.EPOCH, 1)),
        accuracies=tuple(_read_series(facts, "accuracy", Dimension.EPOCH, 1)),
        class_accuracy=tuple(_read_series(facts, "recall", Dimension.CLASS, 0)),
        answered=tuple(int(count or 0) for count in _read_series(facts, "answered", Dimension.CLASS, 0)),
        seconds=seconds.value if seconds else None,
        semantics=learnt.details["semantics"],
        message=learnt.details["message"],
        run=run,
    )


def _read_series(facts: Facts, metric: str, over: Dimension, first: int) -> Iterator[float | None]:
    for place in count(first):
        if (observed := facts.get((metric, str(Scope(over, str(place)))))) is None:
            return
        yield observed.value


def _by_scope(observations: Iterable[Observation]) -> Facts:
    return {(observation.metric, observation.scope): observation for observation in observations}


def natural_order(name: str) -> list[tuple[int, str]]:
    """Numbers in a name count as numbers: 9 comes before 10."""
    pieces = (piece.lstrip("0") if piece.isdecimal() else piece for piece in _DIGITS.split(name))
    return [(len(piece) if place % 2 else 0, piece) for place, piece in enumerate(pieces)]
