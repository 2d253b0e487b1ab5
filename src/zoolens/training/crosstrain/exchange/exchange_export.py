"""A study of the store as a folder of Parquet, JSON and safetensors files that explains itself."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pydantic import ValidationError

from zoolens.base.errors import ZoolensError
from zoolens.base.paths import exported_folder
from zoolens.base.store.records import Provenance
from zoolens.base.store.scopes import epoch_scope
from zoolens.base.store.store import Store, borrowed_store
from zoolens.findings.measure.answers import TRAINED, kept_labels, trained_answers
from zoolens.training.crosstrain.exchange.contents import (
    CHECKSUMS,
    DATASHEET,
    RECIPES,
    SCHEMA,
    STUDY,
    WEIGHTS,
    Answers,
    Contents,
    DatasetEntry,
    ExportedSide,
    StudyFile,
    TrialFacts,
)
from zoolens.training.crosstrain.exchange.datasheet import datasheet
from zoolens.training.crosstrain.exchange.exchange_schema import description
from zoolens.training.crosstrain.exchange.files import checksum_lines, digest
from zoolens.training.crosstrain.exchange.labels import labels_here
from zoolens.training.crosstrain.exchange.rows import recipes_of, settings_columns, tables_of
from zoolens.training.crosstrain.exchange.seeds import replicates_of
from zoolens.training.crosstrain.study.stored_studies import Facts, read_study
from zoolens.training.crosstrain.training.kept_weights import has_weights, weights_of
from zoolens.training.crosstrain.training.recipe import Recipe
from zoolens.training.crosstrain.training.trials import Study, TrainedSide, Trial
from zoolens.training.crosstrain.training.weights import write_weights
from zoolens.training.pairs.semantics import Semantics


def export_study(store: Store | str | Path | None, name: Study | str, folder: Path | str) -> Path:
    """Write the study to this folder, which must not exist or be empty, and return it. It appears whole. Replicates are
    a study of their own (`seeds.replicates_of`)."""
    target = Path(folder).absolute()
    study = name if isinstance(name, str) else name.name
    with borrowed_store(store, must_exist=True) as opened:
        contents, runs, made = gathered(opened, study)
        with exported_folder(target) as building:
            _write(opened, contents, runs, made, building)
    return target


def gathered(store: Store, name: str) -> tuple[Contents, list[str], list[datetime]]:
    """What the store knows of a study, the runs of its sides in their order, and when these were made."""
    study = read_study(store, name)
    runs = [str(side.run) for trial in study.trials for side in trial.sides]
    gathering = _Gathering(store, runs)
    trials = tuple(gathering.trial(trial) for trial in study.trials)
    places = {place: entry.record for place, entry in enumerate(gathering.datasets.values())}
    recipes: dict[int, list[Recipe]] = {}
    for trial in trials:
        recipes.setdefault(trial.dataset, []).extend(side.recipe for side in trial.sides if side.recipe is not None)
    labels: dict[int, Answers] = {}
    for place, record in places.items():
        truth = kept_labels(store, record)
        truth = labels_here(record, recipes.get(place, ())) if truth is None else truth
        if truth is not None:
            labels[place] = truth
    try:
        file = StudyFile(
            name=study.name,
            frameworks=study.frameworks,
            details=dict(study.details),
            datasets=tuple(gathering.datasets.values()),
        )
    except ValidationError as error:
        raise ZoolensError(f"{study.name!r} cannot be exported under its name: {error.errors()[0]['msg']}.") from error
    return Contents(file, trials, labels), runs, [gathering.runs[run].created for run in runs]


class _Gathering:
    """Numbers the datasets as they come."""

    def __init__(self, store: Store, runs: Collection[str]) -> None:
        self._store = store
        self.runs = {run.id: run for run in store.runs_of(set(runs))}
        by_run = store.observations_by_run(runs)
        self._facts = {
            run: {(observation.metric, observation.scope): observation for observation in by_run.get(run, ())}
            for run in runs
        }
        self.datasets: dict[str, DatasetEntry] = {}

    def trial(self, trial: Trial) -> TrialFacts:
        """Gathers a trial. Its sides were filed together: on the same data, under the same conditions."""
        first = self.runs[str(trial.sides[0].run)]
        data = first.dataset
        entry = DatasetEntry(fingerprint=data.fingerprint, name=data.name, size=data.size, details=dict(data.details))
        self.datasets.setdefault(data.fingerprint, entry)
        sides = tuple(self._side(side, self._facts[str(side.run)]) for side in trial.sides)
        learnt = [self._facts[str(side.run)].get((TRAINED, "")) for side in trial.sides]
        claimed = any(observation.provenance is Provenance.CLAIMED for observation in learnt if observation)
        return TrialFacts(
            replace(trial, sides=tuple(side.side for side in sides)),
            list(self.datasets).index(data.fingerprint),
            first.stack.identity["conditions"],
            Provenance.CLAIMED if claimed else Provenance.MEASURED,
            sides,
        )

    def _side(self, side: TrainedSide, facts: Facts) -> ExportedSide:
        run = self.runs[str(side.run)]
        manifest, learnt = run.model.manifest, facts.get((TRAINED, ""))
        answered = learnt is not None and learnt.details.get("answers") is not None
        times = (facts.get(("epoch_time", epoch_scope(number))) for number in range(1, len(side.losses) + 1))
        return ExportedSide(
            replace(side, run=None),
            Recipe.model_validate(manifest["recipe"]) if "recipe" in manifest else None,
            Semantics.model_validate(manifest.get("semantics", {})),
            _ordered(run.stack.identity),
            _count(facts, "parameters"),
            _count(facts, "steps"),
            tuple(time.value for time in times if time is not None),
            trained_answers(self._store, run.id) if answered else None,
            Path(WEIGHTS) if answered and has_weights(self._store, run.id) else None,
        )


def _count(facts: Facts, metric: str) -> int | None:
    observation = facts.get((metric, ""))
    return None if observation is None or observation.value is None else int(observation.value)


def _ordered(identity: Mapping[str, Any]) -> dict[str, str]:
    """The framework's own version first: a database may have changed the order."""
    packages = {str(name): str(version) for name, version in identity["packages"].items()}
    return dict(sorted(packages.items(), key=lambda package: package[1] != identity["version"]))


def _write(store: Store, contents: Contents, runs: list[str], made: list[datetime], folder: Path) -> None:
    for name, table in tables_of(contents).items():
        pq.write_table(table, folder / f"{name}.parquet", compression="zstd")
    _write_json(folder / STUDY, contents.study.model_dump(mode="json"))
    _write_json(folder / RECIPES, [recipe.model_dump(mode="json") for recipe in recipes_of(contents)])
    _write_json(folder / SCHEMA, description(settings_columns(contents)))
    (folder / DATASHEET).write_text(
        datasheet(contents, made, replicates_of(store, contents.study.name)), encoding="utf-8"
    )
    for number, (_, side) in enumerate(contents.sides):
        if side.weights is not None:
            header = {"framework": side.side.framework}
            write_weights(folder / WEIGHTS / f"{number}.safetensors", weights_of(store, runs[number]), header)
    digests = {path.relative_to(folder).as_posix(): digest(path) for path in folder.rglob("*") if path.is_file()}
    (folder / CHECKSUMS).write_text(checksum_lines(digests), encoding="utf-8")


def _write_json(path: Path, content: Any) -> None:
    path.write_text(f"{json.dumps(content, indent=1, ensure_ascii=False)}\n", encoding="utf-8")
