"""The published study CrossedWires: 400 pairs of PyTorch and TensorFlow trainings for each of three networks.

Its trials come as three CSV files, which are a stranger's: every row is checked, and what is wrong is named by file,
line and column. The accuracies are kept as published. PyTorch's are unweighted means over the batches of the test set,
so they are not exact; TensorFlow's are, and are told as counts too.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from zoolens.base.errors import DatasetError
from zoolens.base.safety.untrusted import read_text
from zoolens.base.store.records import DatasetRecord, Provenance, fingerprint
from zoolens.base.store.store import Store
from zoolens.training.crosstrain.study.published import Imported
from zoolens.training.crosstrain.study.stored_studies import (
    TrialFiling,
    file_trial,
    importing,
    natural_order,
    read_study,
    study_names,
)
from zoolens.training.crosstrain.training.trials import Hyperparameter, Study, TrainedSide, Trial
from zoolens.training.pairs.semantics import Semantics

ARCHITECTURES: Final = ("vgg16", "resnet50", "densenet121")
FRAMEWORKS: Final = ("pytorch", "tensorflow")
TEST_SAMPLES: Final = 10_000
CITATION: Final = (
    "M. Zvyagin, T. Brettin, A. Ramanathan, S. K. Jha: CrossedWires: A Dataset of Syntactically Equivalent but "
    "Semantically Disparate Deep Learning Models, 2021, arXiv:2108.12768 (data: CC-BY-4.0)"
)
_DATASET: Final = DatasetRecord(
    fingerprint(["crossedwires", "cifar10"]), "cifar10 as published", 50_000, {"test_samples": TEST_SAMPLES}
)
_COLUMNS: Final = (
    "architecture", "Name", "accuracy_diff", "pt_test_acc", "tf_test_acc", "State", "Created", "Runtime",
    "adam_epsilon", "batch_size", "epochs", "learning_rate", "pt_average_training_loss", "tf_training_loss",
)  # fmt: skip
_MAX_BYTES: Final = 64 << 20
_MAX_ROWS: Final = 100_000
_MAX_TEXT: Final = 200
_ROUNDING: Final = 2e-9  # the files of one architecture have nine decimals


def read_published(folder: Path | str) -> tuple[Study, ...]:
    """One study for each architecture: "crossedwires-vgg16" and so on."""
    return tuple(_read_study(Path(folder) / f"{name}_trials_clean.csv", name) for name in ARCHITECTURES)


def import_published(store: Store, folder: Path | str, progress: Callable[[int, int], None] | None = None) -> Imported:
    """File the published trials as what others claim. Those that are there already are left alone. `progress` is told
    after each how many of how many are dealt with."""
    studies = read_published(folder)
    names = study_names(store)
    total = sum(len(study.trials) for study in studies)
    written = kept = 0
    for study in studies:
        known = {trial.id for trial in read_study(store, study.name).trials} if study.name in names else set()
        with importing(store, study.name, study.frameworks, study.details, len(study.trials)):
            for trial in study.trials:
                if trial.id in known:
                    kept += 1
                else:
                    _file(store, study.name, trial)
                    written += 1
                if progress:
                    progress(written + kept, total)
    return Imported(tuple(study.name for study in studies), written, kept)


def _file(store: Store, study: str, trial: Trial) -> None:
    file_trial(
        store,
        study,
        trial,
        TrialFiling(
            recipe_of=dict.fromkeys(FRAMEWORKS, (None, Semantics())),
            dataset=_DATASET,
            versions={name: {} for name in FRAMEWORKS},
            conditions={"published": CITATION},
            provenance=Provenance.CLAIMED,
        ),
    )


@dataclass(frozen=True)
class _Row:
    path: Path
    line: int
    values: Mapping[str, str]

    def wrong(self, column: str, problem: str) -> DatasetError:
        shown = self.values[column]
        shown = shown if len(shown) <= 40 else f"{shown[:40]}…"
        return DatasetError(
            f"{self.path}, line {self.line}, column {column}: {shown!r} {problem}.",
            hint="Is it the published file, whole and unaltered?",
        )

    def text(self, column: str) -> str:
        value = self.values[column]
        if not value or len(value) > _MAX_TEXT:
            raise self.wrong(column, f"is not a text of 1 to {_MAX_TEXT} characters")
        return value

    def number(self, column: str, low: float, high: float = math.inf) -> float:
        try:
            value = float(self.values[column])
        except ValueError:
            raise self.wrong(column, "is not a number") from None
        if not (low <= value <= high and math.isfinite(value)):
            raise self.wrong(column, f"is not between {low:g} and {high:g}")
        return value

    def whole(self, column: str, high: float) -> int:
        value = self.number(column, 1, high)
        if not value.is_integer():
            raise self.wrong(column, "is not a whole number")
        return int(value)

    def losses(self, column: str, epochs: int) -> tuple[float | None, ...]:
        """One an epoch; none at all where they were not kept. What is not finite is None."""
        text = self.values[column]
        if not text:
            return ()
        try:
            values = json.loads(text, parse_int=float)
        except (ValueError, RecursionError):
            raise self.wrong(column, "is not a list of numbers") from None
        if not isinstance(values, list) or not all(isinstance(value, float | None) for value in values):
            raise self.wrong(column, "is not a list of numbers")
        if len(values) != epochs:
            raise self.wrong(column, f"has {len(values)} losses for {epochs} epochs")
        return tuple(value if value is not None and math.isfinite(value) else None for value in values)


def _read_study(path: Path, architecture: str) -> Study:
    trials: dict[str, Trial] = {}
    for row in _rows(path):
        trial = _trial(row, architecture)
        if trial.id in trials:
            raise row.wrong("Name", "is there twice")
        trials[trial.id] = trial
    if not trials:
        raise DatasetError(f"{path} holds no trials.", hint="Is it the published file, whole and unaltered?")
    details = {
        "source": f"CrossedWires, {architecture}",
        "citation": CITATION,
        "architecture": architecture,
        "dataset": "cifar10",
        "published": True,
    }
    ordered = tuple(trials[name] for name in sorted(trials, key=natural_order))
    return Study(f"crossedwires-{architecture}", FRAMEWORKS, ordered, details)


def _rows(path: Path) -> Iterator[_Row]:
    try:
        with io.StringIO(read_text(path, _MAX_BYTES), newline="") as file:
            reader = csv.DictReader(file, strict=True)
            missing = [name for name in _COLUMNS if name not in (reader.fieldnames or ())]
            if missing:
                raise DatasetError(f"{path} has no column {missing[0]}.", hint=f"Needed: {', '.join(_COLUMNS)}.")
            for number, values in enumerate(reader, start=1):
                if None in values or None in values.values() or number > _MAX_ROWS:
                    problem = "has too many or too few fields" if number <= _MAX_ROWS else "is one row too many"
                    raise DatasetError(f"{path}, line {reader.line_num} {problem}.", hint="Is the file whole?")
                yield _Row(path, reader.line_num, values)
    except OSError as error:
        raise DatasetError(
            f"{path} cannot be read: {error.strerror}.", hint="Name the folder that holds the three CSV files."
        ) from error
    except (csv.Error, UnicodeDecodeError) as error:
        raise DatasetError(f"{path} is not a CSV file: {error}.") from error


def _trial(row: _Row, architecture: str) -> Trial:
    if row.text("architecture") != architecture:
        raise row.wrong("architecture", f"should be {architecture}")
    epochs = row.whole("epochs", 10_000)
    hyperparameters: dict[str, Hyperparameter] = {
        "learning_rate": row.number("learning_rate", 0),
        "adam_epsilon": row.number("adam_epsilon", 0),
        "batch_size": row.whole("batch_size", TEST_SAMPLES),
        "epochs": epochs,
    }
    sides = (
        TrainedSide(
            "pytorch",
            accuracy=row.number("pt_test_acc", 0, 1),
            exact=False,
            losses=row.losses("pt_average_training_loss", epochs),
        ),
        _counted("tensorflow", row.number("tf_test_acc", 0, 1), row.losses("tf_training_loss", epochs)),
    )
    delta = row.number("accuracy_diff", 0, 1)
    if abs(abs((sides[0].accuracy or 0.0) - (sides[1].accuracy or 0.0)) - delta) > _ROUNDING:
        raise row.wrong("accuracy_diff", "is not the difference of the two accuracies")
    return Trial(
        row.text("Name"), hyperparameters, sides, notes=_notes(row), details=_details(row, architecture, delta)
    )


def _counted(framework: str, accuracy: float, losses: tuple[float | None, ...]) -> TrainedSide:
    """A share of 10,000 test samples, as near as float32 tells it."""
    correct = round(accuracy * TEST_SAMPLES)
    exact = math.isclose(accuracy, correct / TEST_SAMPLES, abs_tol=1e-7)
    counts: dict[str, Any] = {"correct": correct, "total": TEST_SAMPLES} if exact else {}
    return TrainedSide(framework, accuracy=accuracy, exact=exact, losses=losses, **counts)


def _details(row: _Row, architecture: str, delta: float) -> dict[str, Any]:
    return {
        "architecture": architecture,
        "published_delta": delta,
        "created": row.text("Created"),
        "seconds": row.number("Runtime", 0),  # of both sides together
    }


def _notes(row: _Row) -> tuple[str, ...]:
    notes = []
    if (state := row.text("State")) != "finished":
        notes.append(f"published with the state {state!r}")
    if not row.values["tf_training_loss"]:
        notes.append("published without its losses")
    return tuple(notes)
