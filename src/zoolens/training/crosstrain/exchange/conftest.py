"""A small study as it lies in a store, without any training: answers are drawn, figures are counted from them."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from zoolens.base.store.records import DatasetRecord
from zoolens.base.store.store import Store, open_store
from zoolens.findings.measure.answers import keep_labels
from zoolens.training.crosstrain.exchange.exchange_export import export_study
from zoolens.training.crosstrain.study.stored_studies import TrialFiling, file_study, file_trial
from zoolens.training.crosstrain.training.architectures import build, parameters
from zoolens.training.crosstrain.training.initial import initial_weights
from zoolens.training.crosstrain.training.job import Epoch, Outcome
from zoolens.training.crosstrain.training.kept_weights import keep_weights
from zoolens.training.crosstrain.training.recipe import Recipe
from zoolens.training.crosstrain.training.trial_runner import churn, side_of
from zoolens.training.crosstrain.training.trials import TrainedSide, Trial
from zoolens.training.crosstrain.training.weights import read_weights, write_weights
from zoolens.training.pairs.semantics import ALIGNED, Semantics

CLASSES, SAMPLES = 4, 20
LABELS = np.arange(SAMPLES, dtype=np.int32) % CLASSES
DATASET = DatasetRecord(
    "d" * 64, "tiny", SAMPLES, {"classes": CLASSES, "image": [2, 2, 1], "train": 16, "test": SAMPLES}
)
NETWORK = build("mlp", ALIGNED, (1, 2, 2), CLASSES)
READ = Semantics(init="kaiming_uniform", bias_init="zeros", dropout=0.0, adam_rule="outside", adam_epsilon=1e-8)
VERSIONS = {"torch": {"torch": "2.13.0"}, "jax": {"jax": "0.10.2", "keras": "3.15.1"}}
CONDITIONS = {"cpu": "a", "cores": 2}


def outcome(framework: str, answers: Any) -> Outcome:
    correct = int((answers == LABELS).sum())
    burst = bool((answers == 2).all())
    epochs = (
        Epoch(number=1, loss=1.5, correct=7, total=SAMPLES, seconds=0.5),
        Epoch(number=2, loss=None if burst else 1.25, correct=correct, total=SAMPLES, seconds=0.25),
    )
    return Outcome(
        framework=framework,
        versions={},
        status="non-finite" if burst else "finished",
        epochs=epochs,
        steps=8,
        parameters=parameters(NETWORK),
        semantics=READ,
        seconds=1.5,
    )


def file_numbered(
    store: Store,
    number: int,
    study: str = "small",
    seed: int = 0,
    name: str | None = None,
    rate: float = 0.1,
    **settings: Any,
) -> Trial:
    """`name`: of the trial, `rate`: learning rate of its recipe."""
    draw = np.random.default_rng([number, seed])
    answers = {name: draw.integers(0, CLASSES, SAMPLES).astype(np.int32) for name in VERSIONS}
    if number == 1:
        answers["jax"][:] = 2
    outcomes = {name: outcome(name, answers[name]) for name in VERSIONS}
    sides = {name: side_of(outcomes[name], answers[name], LABELS, CLASSES) for name in VERSIONS}
    if number == 2:  # it failed, and so it has nothing
        sides["jax"] = TrainedSide("jax", status="failed", message="no such device")
        del answers["jax"], outcomes["jax"]
    recipe = Recipe(architecture="mlp", dataset="tiny", learning_rate=rate, batch_size=4, epochs=2, seed=number)
    trial = Trial(
        name or f"{number:04}",
        {
            "learning_rate": rate,
            "epochs": 2,
            "optimizer.name": "adam",
            "odd": number or "none",
            **settings,
        },
        tuple(sides.values()),
        churn(list(VERSIONS), answers),
        ("a note",),
        {"subspace": number},
    )
    filed = file_trial(
        store,
        study,
        trial,
        TrialFiling(
            recipe_of=dict.fromkeys(VERSIONS, (recipe, ALIGNED)),
            dataset=DATASET,
            versions=VERSIONS,
            predictions=answers,
            outcomes=outcomes,
            conditions=CONDITIONS,
        ),
    )
    if number == 0:
        weights = initial_weights(NETWORK, ALIGNED, 0)
        assert keep_weights(store, filed.side("torch").run, weights, answers["torch"])
    return filed


def fill(store: Store) -> None:
    file_study(store, "small", tuple(VERSIONS), {"author": "us", "licence": "CC-BY-4.0"})
    keep_labels(store, DATASET, LABELS)
    for number in range(3):
        file_numbered(store, number)


@pytest.fixture(scope="session")
def exported(tmp_path_factory):
    place = tmp_path_factory.mktemp("exported")
    with open_store(place / "store.sqlite") as opened:
        fill(opened)
        return export_study(opened, "small", place / "out")


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "store.sqlite") as opened:
        fill(opened)
        yield opened


@pytest.fixture
def elsewhere(tmp_path):
    with open_store(tmp_path / "elsewhere.sqlite") as opened:
        yield opened


@dataclass
class Folder:
    """An exported study, and ways to falsify it."""

    path: Path

    def rehash(self):
        files = sorted(
            (one.relative_to(self.path).as_posix(), one)
            for one in self.path.rglob("*")
            if one.is_file() and one.name != "checksums.txt"
        )
        lines = [f"{hashlib.sha256(one.read_bytes()).hexdigest()}  {name}\n" for name, one in files]
        (self.path / "checksums.txt").write_text("".join(lines))

    def change(self, table, row, column, value):
        """As somebody would who knows the checksums."""
        path = self.path / f"{table}.parquet"
        found = pq.read_table(path)
        values = found[column].to_pylist()
        values[row] = value
        place = found.schema.get_field_index(column)
        changed = found.set_column(place, found.schema.field(column), [pa_array(values, found.schema.field(column))])
        pq.write_table(changed, path)
        self.rehash()

    def leave_out(self, table, row):
        path = self.path / f"{table}.parquet"
        found = pq.read_table(path)
        pq.write_table(found.take([place for place in range(found.num_rows) if place != row]), path)
        self.rehash()

    def change_weights(self, number, change):
        path = self.path / "weights" / f"{number}.safetensors"
        write_weights(path, change(read_weights(path)))
        self.rehash()

    def change_json(self, name, change):
        path = self.path / name
        content = json.loads(path.read_text())
        change(content)
        path.write_text(json.dumps(content))
        self.rehash()


def pa_array(values, field):
    import pyarrow as pa

    return pa.array(values, field.type)


@pytest.fixture
def folder(exported, tmp_path):
    return Folder(Path(shutil.copytree(exported, tmp_path / "out")))
