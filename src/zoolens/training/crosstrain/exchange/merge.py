"""A checked folder into the store. All of it is checked first, also against what the store has; then it is merged."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain, islice
from pathlib import Path

import numpy as np

from zoolens.base.errors import ZoolensError
from zoolens.base.present.results import Result
from zoolens.base.store.store import Store, borrowed_store
from zoolens.findings.measure.answers import keep_labels, kept_labels
from zoolens.training.crosstrain.exchange.check import MAX_SHOWN, ExaminedFolder, examine
from zoolens.training.crosstrain.exchange.contents import NAME, WEIGHTS, Answers, Contents, ExportedSide, TrialFacts
from zoolens.training.crosstrain.exchange.files import FolderRefused, digest
from zoolens.training.crosstrain.exchange.labels import SAFE_NAMES, labels_here
from zoolens.training.crosstrain.exchange.seeds import seed_conflicts
from zoolens.training.crosstrain.study.stored_studies import (
    TrialFiling,
    file_trial,
    importing,
    read_study,
    side_done,
    study_names,
)
from zoolens.training.crosstrain.training.job import Epoch, Outcome
from zoolens.training.crosstrain.training.kept_weights import filed_answers, has_weights, keep_weights
from zoolens.training.crosstrain.training.trials import Study, TrainedSide, Trial
from zoolens.training.crosstrain.training.weights import read_weights


class SubmissionRefused(ZoolensError):
    """A folder that is not what it says, or that contradicts the store; `problems` has all that was found."""

    def __init__(self, folder: Path, problems: Sequence[str], *, hint: str) -> None:
        more = f" ({len(problems) - 1} more problems)" if len(problems) > 1 else ""
        super().__init__(f"{folder} is refused, and nothing was changed: {problems[0]}{more}", hint=hint)
        self.problems = tuple(problems)


@dataclass(frozen=True, repr=False)
class Merged(Result):
    """What came of merging a folder into a store."""

    study: str
    written: int  # trials that are new in the store
    kept: int  # those that were there, just so


def import_study(store: Store | str | Path | None, folder: Path | str) -> Study:
    """The study of a folder that `export_study` wrote, now in this store."""
    with borrowed_store(store) as opened:
        return read_study(opened, submit(opened, folder).study)


def submit(store: Store | str | Path | None, folder: Path | str, *, into: str | None = None) -> Merged:
    """Check a folder and merge it; `into`: under another name than its own. Submitting it again changes nothing. A
    trial that the store has with other content is refused, and the whole folder with it."""
    path = Path(folder)
    if into is not None and not re.fullmatch(NAME, into):
        raise ZoolensError(f"A study cannot be named {into[:60]!r}.", hint="Use letters, digits, dots and dashes.")
    try:
        examined = examine(path)
    except FolderRefused as refused:
        raise SubmissionRefused(path, refused.problems, hint="Export it again from where it was made.") from refused
    contents = examined.contents
    name = contents.study.name if into is None else into
    with borrowed_store(store) as opened:
        there = read_study(opened, name) if name in study_names(opened, hidden=True) else None
        known = {} if there is None else {trial.id: trial for trial in there.trials}
        every_conflict = chain(_framework_conflicts(contents, name, there), _conflicts(opened, contents, name, known))
        conflicts = list(islice(every_conflict, MAX_SHOWN))
        if conflicts:
            raise SubmissionRefused(path, conflicts, hint="To have both, merge it under another name.")
        return _merged(opened, examined, name, there)


# --- against the store


def _framework_conflicts(contents: Contents, name: str, there: Study | None) -> Iterator[str]:
    """Every trial of a study has the same sides."""
    if there is not None and there.frameworks != contents.study.frameworks:
        ours, theirs = ", ".join(there.frameworks), ", ".join(contents.study.frameworks)
        yield f"The study {name!r} of the store is trained by {ours}, and this one by {theirs}."


def _conflicts(store: Store, contents: Contents, name: str, known: Mapping[str, Trial]) -> Iterator[str]:
    yield from _label_conflicts(store, contents)
    yield from seed_conflicts(store, contents, name)
    for trial in contents.trials:
        if (there := known.get(trial.trial.id)) is not None:
            if difference := _difference(there, trial.trial):
                yield f"Trial {there.id!r} of {name!r} is in the store with other content: {difference}."
                continue
            sides = there.sides
        else:
            sides = tuple(trained for side in trial.sides if (trained := _trained(store, contents, trial, side)))
        yield from _side_conflicts(store, trial, sides)


def _label_conflicts(store: Store, contents: Contents) -> Iterator[str]:
    for place, labels in contents.labels.items():
        record = contents.study.datasets[place].record
        ours = kept_labels(store, record)
        if ours is None:
            recipes = (side.recipe for trial, side in contents.sides if trial.dataset == place and side.recipe)
            ours = labels_here(record, (recipe for recipe in recipes if recipe.dataset in SAFE_NAMES))
        if ours is not None and not np.array_equal(ours, labels):
            yield f"The labels of {record.name!r} are not those of the same data here."


def _trained(store: Store, contents: Contents, trial: TrialFacts, facts: ExportedSide) -> TrainedSide | None:
    """Returns this training if another trial of the store has it already."""
    if facts.recipe is None:
        return None
    return side_done(
        store,
        framework=facts.side.framework,
        recipe=facts.recipe,
        semantics=facts.told,
        dataset=contents.study.datasets[trial.dataset].record,
        versions=facts.versions,
        conditions=trial.conditions,
    )


def _side_conflicts(store: Store, trial: TrialFacts, sides: Sequence[TrainedSide]) -> Iterator[str]:
    """One training learnt one thing; how long it took may be told twice."""
    given = {side.side.framework: side for side in trial.sides}
    for side in sides:
        facts = given[side.framework]
        if facts.side.status == "failed" or side.status == "failed":
            continue
        differs = replace(side, run=None, seconds=None) != replace(facts.side, seconds=None)
        if differs or not _same_answers(store, side, facts.answers):
            yield (
                f"Trial {trial.trial.id!r}, {side.framework}: the store has the same training, run {side.run}, with "
                "another result."
            )


def _same_answers(store: Store, side: TrainedSide, answers: Answers | None) -> bool:
    ours = filed_answers(store, str(side.run))
    return ours is None or answers is None or np.array_equal(ours, answers)


def _difference(ours: Trial, theirs: Trial) -> str | None:
    """The first thing that differs, in words."""
    plain = replace(ours, sides=tuple(replace(side, run=None) for side in ours.sides))
    for field in fields(Trial):
        a, b = getattr(plain, field.name), getattr(theirs, field.name)
        if a == b:
            continue
        if field.name != "sides" or [side.framework for side in a] != [side.framework for side in b]:
            return f"its {field.name}"
        ours_side, theirs_side = next(pair for pair in zip(a, b, strict=True) if pair[0] != pair[1])
        figure = next(
            each.name
            for each in fields(TrainedSide)
            if getattr(ours_side, each.name) != getattr(theirs_side, each.name)
        )
        return f"{ours_side.framework}'s {figure}"
    return None


# --- into the store


def _merged(store: Store, examined: ExaminedFolder, name: str, there: Study | None) -> Merged:
    contents = examined.contents
    known = {} if there is None else {trial.id: trial for trial in there.trials}
    listed = there is not None and name in study_names(store)  # not new, nor removed from the list before
    details = there.details if there is not None and listed else contents.study.details
    new = sum(trial.trial.id not in known for trial in contents.trials)
    with importing(store, name, contents.study.frameworks, details, len(known) + new):
        for place, labels in contents.labels.items():
            keep_labels(store, contents.study.datasets[place].record, labels)
        for trial in contents.trials:
            filed = known.get(trial.trial.id) or _file(store, name, contents, trial)
            for facts in trial.sides:
                run = str(filed.side(facts.side.framework).run)
                if facts.weights is not None and facts.answers is not None and not has_weights(store, run):
                    _merge_weights(store, run, facts.weights, facts.answers, examined.digests)
    return Merged(name, new, len(contents.trials) - new)


def _file(store: Store, name: str, contents: Contents, trial: TrialFacts) -> Trial:
    by_framework = {side.side.framework: side for side in trial.sides}
    return file_trial(
        store,
        name,
        trial.trial,
        TrialFiling(
            recipe_of={framework: (facts.recipe, facts.told) for framework, facts in by_framework.items()},
            dataset=contents.study.datasets[trial.dataset].record,
            versions={framework: facts.versions for framework, facts in by_framework.items()},
            predictions={
                framework: facts.answers for framework, facts in by_framework.items() if facts.answers is not None
            },
            outcomes={
                framework: _outcome(facts) for framework, facts in by_framework.items() if facts.steps is not None
            },
            conditions=trial.conditions,
            provenance=trial.provenance,
        ),
    )


def _outcome(facts: ExportedSide) -> Outcome:
    """What was measured beside the trial itself."""
    side, total = facts.side, facts.side.total or 1
    epochs = []
    for number, seconds in enumerate(facts.epoch_seconds, start=1):
        if seconds is not None:
            accuracy = side.accuracies[number - 1] if number <= len(side.accuracies) else None
            loss = side.losses[number - 1] if number <= len(side.losses) else None
            correct = round((accuracy or 0.0) * total)
            epochs.append(Epoch(number=number, loss=loss, correct=correct, total=total, seconds=seconds))
    return Outcome(
        framework=side.framework,
        versions=dict(facts.versions),
        status="finished",
        epochs=tuple(epochs),
        steps=facts.steps or 0,
        parameters=facts.parameters,
    )


def _merge_weights(store: Store, run: str, path: Path, answers: Answers, digests: Mapping[str, str]) -> None:
    """Stores the weights from a copy of our own, which nobody changes after it was found to be the file that was
    checked."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "weights.safetensors"
        shutil.copyfile(path, copy, follow_symlinks=False)
        if digest(copy) != digests[f"{WEIGHTS}/{path.name}"]:
            raise ZoolensError(f"{path} changed while it was merged.", hint="Submit the folder again.")
        keep_weights(store, run, read_weights(copy), answers)
