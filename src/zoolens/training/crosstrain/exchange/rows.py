"""The contents of a study as tables: one row a trial, a side, an epoch, an answer, a label."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

import numpy as np
import pyarrow as pa

from zoolens.base.store.values import to_json
from zoolens.training.crosstrain.exchange.contents import Answers, Contents, ExportedSide, TrialFacts
from zoolens.training.crosstrain.exchange.exchange_schema import (
    EPOCHS,
    LABELS,
    PAIRS,
    PREDICTIONS,
    SIDES,
    TRIALS,
    Column,
    arrow_schema,
    hyperparameter_columns,
    setting_cells,
)
from zoolens.training.crosstrain.training.recipe import Recipe


def recipes_of(contents: Contents) -> tuple[Recipe, ...]:
    """Each that a side was trained by, once."""
    return tuple(dict.fromkeys(side.recipe for _, side in contents.sides if side.recipe is not None))


def settings_columns(contents: Contents) -> tuple[Column, ...]:
    return hyperparameter_columns(trial.trial.hyperparameters for trial in contents.trials)


def tables_of(contents: Contents) -> dict[str, pa.Table]:
    settings = settings_columns(contents)
    place_of = {recipe: place for place, recipe in enumerate(recipes_of(contents))}
    sides = [_side_row(number, trial, side, place_of) for number, (trial, side) in enumerate(contents.sides)]
    epochs = [row for number, (_, side) in enumerate(contents.sides) for row in _epoch_rows(number, side)]
    answers = {number: side.answers for number, (_, side) in enumerate(contents.sides) if side.answers is not None}
    return {
        "trials": _table((*TRIALS, *settings), [_trial_row(trial, settings) for trial in contents.trials]),
        "pairs": _table(PAIRS, [row for trial in contents.trials for row in _pair_rows(trial)]),
        "sides": _table(SIDES, sides),
        "epochs": _table(EPOCHS, epochs),
        "predictions": _numbers(PREDICTIONS, answers),
        "labels": _numbers(LABELS, contents.labels),
    }


def _table(columns: tuple[Column, ...], rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=arrow_schema(columns))


def _numbers(columns: tuple[Column, ...], values: Mapping[int, Answers]) -> pa.Table:
    """(owner, sample, value) for all owners, one after the other."""
    sizes = [len(value) for value in values.values()]
    arrays = (
        np.repeat(np.fromiter(values, np.int32, len(values)), sizes),
        np.concatenate([np.arange(size, dtype=np.int32) for size in sizes] or [np.empty(0, np.int32)]),
        np.concatenate([np.asarray(value, np.int32) for value in values.values()] or [np.empty(0, np.int32)]),
    )
    return pa.Table.from_arrays([pa.array(array, pa.int32()) for array in arrays], schema=arrow_schema(columns))


def _trial_row(trial_facts: TrialFacts, settings: tuple[Column, ...]) -> dict[str, Any]:
    return {
        "trial": trial_facts.trial.id,
        "dataset": trial_facts.dataset,
        "notes": to_json(trial_facts.trial.notes),
        "details": to_json(trial_facts.trial.details),
        "conditions": to_json(trial_facts.conditions),
        "provenance": str(trial_facts.provenance),
        **setting_cells(trial_facts.trial.hyperparameters, settings),
    }


def _pair_rows(trial_facts: TrialFacts) -> Iterator[dict[str, Any]]:
    for (a, b), share in trial_facts.trial.churn.items():
        yield {"trial": trial_facts.trial.id, "framework_a": a, "framework_b": b, "churn": share}


def _side_row(number: int, trial: TrialFacts, facts: ExportedSide, place_of: Mapping[Recipe, int]) -> dict[str, Any]:
    side = facts.side
    return {
        "side": number,
        "trial": trial.trial.id,
        "framework": side.framework,
        "status": side.status,
        "message": side.message,
        "accuracy": side.accuracy,
        "exact": side.exact,
        "correct": side.correct,
        "total": side.total,
        "class_accuracy": list(side.class_accuracy),
        "answered": list(side.answered),
        "collapsed": side.collapsed if side.answered else None,
        "seconds": side.seconds,
        "parameters": facts.parameters,
        "steps": facts.steps,
        "losses": len(side.losses),
        "accuracies": len(side.accuracies),
        "recipe": None if facts.recipe is None else place_of[facts.recipe],
        "told": to_json(facts.told.model_dump(mode="json")),
        "semantics": to_json(side.semantics),
        "versions": to_json(facts.versions),
    }


def _epoch_rows(number: int, facts: ExportedSide) -> Iterator[dict[str, Any]]:
    series = zip_longest(facts.side.losses, facts.side.accuracies, facts.epoch_seconds)
    for epoch, (loss, accuracy, seconds) in enumerate(series, start=1):
        yield {"side": number, "epoch": epoch, "loss": loss, "accuracy": accuracy, "seconds": seconds}
