"""A folder's files as contents again: every reference must lead somewhere."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from pydantic import ValidationError

from zoolens.base.store.records import Provenance
from zoolens.training.crosstrain.exchange.contents import STUDY, Contents, ExportedSide, TrialFacts
from zoolens.training.crosstrain.exchange.exchange_schema import MAX_NAME, MAX_PROBLEMS, settings_of
from zoolens.training.crosstrain.exchange.exchange_tables import FolderTables, read_tables
from zoolens.training.crosstrain.exchange.files import Files, FolderRefused
from zoolens.training.crosstrain.exchange.row_types import Row
from zoolens.training.crosstrain.training.trials import TrainedSide, Trial
from zoolens.training.pairs.semantics import Semantics

RESERVED: Final = frozenset({"study", "labels"})  # what the store files beside frameworks


def read_contents(files: Files) -> Contents:
    """Refused, with what is wrong, where it does not fit together."""
    tables = read_tables(files.content)
    problems = list(islice(_reference_problems(tables, files), MAX_PROBLEMS))
    if problems:
        raise FolderRefused(problems)
    return _assembled(tables, files)


# --- what refers to what


def _reference_problems(tables: FolderTables, files: Files) -> Iterator[str]:
    sides, trials = tables.rows["sides"], tables.rows["trials"]
    names = Counter(row["trial"] for row in trials)
    for framework in sorted(RESERVED & set(tables.study.frameworks)):
        yield f"{STUDY}: no framework can be named {framework}."
    if len(set(tables.study.frameworks)) < len(tables.study.frameworks):
        yield f"{STUDY} has a framework twice."
    yield from (f"trials.parquet: {name[:60]!r} is no name of a trial." for name in names if not _is_name(name))
    yield from (f"trials.parquet has the trial {name!r} {count} times." for name, count in names.items() if count > 1)
    if [row["side"] for row in sides] != list(range(len(sides))):
        yield "sides.parquet: its rows are not numbered from 0."
    pairs = Counter((row["trial"], row["framework"]) for row in sides)
    for (trial, framework), count in pairs.items():
        if trial not in names:
            yield f"sides.parquet has a side of the trial {trial!r}, which is not in trials.parquet."
        if framework not in tables.study.frameworks:
            yield f"sides.parquet has the framework {framework!r}, which is not in {STUDY}."
        if count > 1:
            yield f"sides.parquet has {framework} of the trial {trial!r} {count} times."
    led = {trial for trial, _ in pairs}
    for row in trials:
        if row["trial"] not in led:
            yield f"trials.parquet, trial {row['trial']!r}: it has no sides."
        if row["dataset"] >= len(tables.study.datasets):
            yield f"trials.parquet, trial {row['trial']!r}: there is no dataset {row['dataset']}."
    for row in tables.rows["pairs"]:
        if any((row["trial"], row[end]) not in pairs for end in ("framework_a", "framework_b")):
            yield f"pairs.parquet has a pair of the trial {row['trial']!r} that is not in sides.parquet."
    for row in sides:
        if row["recipe"] is not None and row["recipe"] >= len(tables.recipes):
            yield f"sides.parquet, side {row['side']}: there is no recipe {row['recipe']}."
        yield from _told_problems(row)
    yield from _owner_problems("predictions.parquet", tables.answers, len(sides))
    yield from _owner_problems("weights", files.weights, len(sides))
    yield from _owner_problems("labels.parquet", tables.labels, len(tables.study.datasets))
    yield from _epoch_problems(tables.rows["epochs"], sides)


def _is_name(text: str) -> bool:
    return 0 < len(text) <= MAX_NAME and text.isprintable()


def _told_problems(row: Row) -> Iterator[str]:
    try:
        Semantics.model_validate_json(row["told"])
    except ValidationError as error:
        yield f"sides.parquet, side {row['side']}, column told: {error.errors()[0]['msg']}."
    if not all(isinstance(version, str) for version in json.loads(row["versions"]).values()):
        yield f"sides.parquet, side {row['side']}, column versions: a version is not a text."


def _owner_problems(name: str, owners: Mapping[int, Any], count: int) -> Iterator[str]:
    return (f"{name}: there is no {owner} it could belong to." for owner in owners if owner >= count)


def _epoch_problems(epochs: Sequence[Row], sides: Sequence[Row]) -> Iterator[str]:
    counted: Counter[int] = Counter()
    for row in epochs:
        side = row["side"]
        counted[side] += 1
        if side >= len(sides) or row["epoch"] != counted[side]:
            yield f"epochs.parquet: epoch {row['epoch']} of side {side} is out of place."
            return
    for row in sides:
        if max(row["losses"], row["accuracies"]) > counted[row["side"]]:
            yield f"epochs.parquet has fewer epochs of side {row['side']} than sides.parquet says."


# --- plain values


def _assembled(tables: FolderTables, files: Files) -> Contents:
    epochs: dict[int, list[Row]] = {}
    for row in tables.rows["epochs"]:
        epochs.setdefault(row["side"], []).append(row)
    sides: dict[str, list[ExportedSide]] = {}
    for row in tables.rows["sides"]:
        sides.setdefault(row["trial"], []).append(_side_facts(row, epochs.get(row["side"], []), tables, files))
    churn: dict[str, dict[tuple[str, str], float]] = {}
    for row in tables.rows["pairs"]:
        churn.setdefault(row["trial"], {})[row["framework_a"], row["framework_b"]] = row["churn"]
    trials = [
        _trial_facts(row, tuple(sides.get(row["trial"], ())), churn.get(row["trial"], {}), tables)
        for row in tables.rows["trials"]
    ]
    return Contents(tables.study, tuple(trials), tables.labels)


def _trial_facts(
    row: Row, sides: tuple[ExportedSide, ...], churn: Mapping[tuple[str, str], float], tables: FolderTables
) -> TrialFacts:
    trial = Trial(
        row["trial"],
        settings_of(row, tables.settings),
        tuple(side.side for side in sides),
        churn,
        tuple(json.loads(row["notes"])),
        json.loads(row["details"]),
    )
    return TrialFacts(trial, row["dataset"], json.loads(row["conditions"]), Provenance(row["provenance"]), sides)


def _side_facts(row: Row, epochs: Sequence[Row], tables: FolderTables, files: Files) -> ExportedSide:
    side = TrainedSide(
        row["framework"],
        status=row["status"],
        accuracy=row["accuracy"],
        exact=row["exact"],
        correct=row["correct"],
        total=row["total"],
        losses=tuple(epoch["loss"] for epoch in epochs[: row["losses"]]),
        accuracies=tuple(epoch["accuracy"] for epoch in epochs[: row["accuracies"]]),
        class_accuracy=tuple(row["class_accuracy"]),
        answered=tuple(row["answered"]),
        seconds=row["seconds"],
        semantics=json.loads(row["semantics"]),
        message=row["message"],
    )
    if row["collapsed"] is not (side.collapsed if side.answered else None):
        raise FolderRefused([f"sides.parquet, side {row['side']}, column collapsed: the answers say {side.collapsed}."])
    return ExportedSide(
        side,
        None if row["recipe"] is None else tables.recipes[row["recipe"]],
        Semantics.model_validate_json(row["told"]),
        json.loads(row["versions"]),
        row["parameters"],
        row["steps"],
        tuple(epoch["seconds"] for epoch in epochs),
        tables.answers.get(row["side"]),
        files.weights.get(row["side"]),
    )
