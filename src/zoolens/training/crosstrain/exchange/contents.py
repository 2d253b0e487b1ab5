"""What an exported folder holds, as plain values: what is written from a store, read from a folder, and merged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, TypeAdapter

from zoolens.base.store.records import DatasetRecord, Provenance
from zoolens.training.crosstrain.exchange.exchange_schema import FORMAT, MAX_TEXT
from zoolens.training.crosstrain.training.recipe import Recipe, RecipePart
from zoolens.training.crosstrain.training.trials import TrainedSide, Trial
from zoolens.training.pairs.semantics import Semantics

STUDY: Final = "study.json"
RECIPES: Final = "recipes.json"
SCHEMA: Final = "schema.json"
DATASHEET: Final = "datasheet.md"
CHECKSUMS: Final = "checksums.txt"
WEIGHTS: Final = "weights"

NAME: Final = r"^[\w.-]{1,140}$"  # of a study
MAX_SAMPLES: Final = 1 << 31
Answers = NDArray[np.int32]
Name = Annotated[str, Field(pattern=NAME)]
Framework = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_.-]{0,59}$")]
RecipeList: Final = TypeAdapter(tuple[Recipe, ...])


class DatasetEntry(RecipePart):
    """A dataset as it was when it was trained on; `fingerprint` is over its content and limits."""

    fingerprint: str = Field(pattern=r"^[0-9a-f]{64}$")
    name: str = Field(max_length=MAX_TEXT)
    size: int = Field(ge=0, lt=MAX_SAMPLES)
    details: dict[str, Any] = Field(default_factory=dict)

    @property
    def record(self) -> DatasetRecord:
        return DatasetRecord(self.fingerprint, self.name, self.size, self.details)


class StudyFile(RecipePart):
    """study.json."""

    format: Literal["zoolens crosstrain study 1"] = FORMAT
    name: Name
    frameworks: tuple[Framework, ...]
    details: dict[str, Any] = Field(default_factory=dict)
    datasets: tuple[DatasetEntry, ...] = ()


@dataclass(frozen=True)
class ExportedSide:
    """A side, and what the store knows of it beside."""

    side: TrainedSide
    recipe: Recipe | None  # None: a claim of somebody who gave none
    told: Semantics  # the semantics that its trainer was given
    versions: Mapping[str, str]
    parameters: int | None = None
    steps: int | None = None
    epoch_seconds: tuple[float | None, ...] = ()
    answers: Answers | None = None
    weights: Path | None = None  # where they lie, if they were kept


@dataclass(frozen=True)
class TrialFacts:
    trial: Trial
    dataset: int  # its place among the study's
    conditions: Mapping[str, Any]
    provenance: Provenance
    sides: tuple[ExportedSide, ...]


@dataclass(frozen=True)
class Contents:
    """`labels`: of the test samples, by the place of the dataset."""

    study: StudyFile
    trials: tuple[TrialFacts, ...]
    labels: Mapping[int, Answers] = field(default_factory=dict)

    @property
    def sides(self) -> Iterator[tuple[TrialFacts, ExportedSide]]:
        """All sides with their trials, in the order of their numbers."""
        return ((trial, side) for trial in self.trials for side in trial.sides)

    def counts(self) -> dict[str, int]:
        sides = [side for _, side in self.sides]
        return {
            "trials": len(self.trials),
            "sides": len(sides),
            "finished": sum(side.side.status == "finished" for side in sides),
            "with predictions": sum(side.answers is not None for side in sides),
            "with weights": sum(side.weights is not None for side in sides),
            "claims": sum(trial.provenance is Provenance.CLAIMED for trial, _ in self.sides),
            "collapsed": sum(side.side.collapsed for side in sides),
        }
