"""What an examination found: every variant that was tried, what the model minds, what the manifest should say."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from zoolens.base.present.results import Result, frame
from zoolens.base.statistics.intervals import Interval
from zoolens.findings.audit.doctor.next_token_sense import NextTokenSense
from zoolens.findings.audit.doctor.variants import NotSwept
from zoolens.findings.measure.run_data import ACCURACY
from zoolens.inventory.manifests.schema import Manifest


class Status(StrEnum):
    RIGHT = "right"
    IMPROVABLE = "improvable"  # another decoder, crop or resize is better: a matter of protocol, and no fault
    WRONG = "wrong"
    UNDECIDED = "undecided"  # nothing is better, but on these inputs something could be
    SUSPICIOUS = "suspicious"  # nothing works, or only with the classes in an order that has no name


@dataclass(frozen=True)
class VariantTrial:
    """One variant against the declared one, on the same inputs. `p_value` is adjusted (Holm) for all variants."""

    variant: str
    factor: str
    run: str | None
    n: int
    value: float | None  # of the diagnosis' metric; None where it cannot run
    interval: Interval | None
    change: float | None
    change_interval: Interval | None
    p_value: float | None  # None: no test applies
    steps: int  # how many axes differ from the declared variant
    error: str | None = None

    @property
    def compared(self) -> bool:
        """Whether this is another variant than the declared one, which is not compared with itself."""
        return self.steps > 0

    def as_row(self) -> dict[str, object]:
        """Returns the trial for a table. A variant that cannot run has no figures."""
        ran = not self.error
        compared = ran and self.compared
        low, high = self.interval or (None, None)
        change_low, change_high = self.change_interval or (None, None)
        return {
            "variant": self.variant,
            "factor": self.factor,
            "inputs": self.n,
            "value": self.value if ran else None,
            "low": low if ran else None,
            "high": high if ran else None,
            "change": self.change if compared else None,
            "change_low": change_low if compared else None,
            "change_high": change_high if compared else None,
            "p_value": self.p_value if compared else None,
            "run": self.run,
            "error": self.error,
        }


@dataclass(frozen=True)
class Sensitivity:
    """How much one factor matters, all others being those of the best variant."""

    factor: str
    n: int
    spread: float
    worst: str
    worst_value: float
    best: str
    best_value: float


@dataclass(frozen=True)
class Fault:
    """One thing the manifest says wrongly."""

    factor: str
    declared: str
    correct: str


@dataclass(frozen=True)
class Confirmation:
    """The declared variant against the best one. `fresh`: on inputs the search did not use."""

    fresh: bool
    n: int
    before: float | None  # None: as declared it cannot run
    after: float | None  # None: not defined on these inputs
    change: float | None
    change_interval: Interval | None
    p_value: float
    test: str  # what the p-value is of
    better: bool  # whether it is better by more than noise


@dataclass(frozen=True, repr=False)
class Diagnosis(Result):
    model: str
    runtime: str
    data: str
    metric: str  # what variants are judged by: the main metric of the model's task
    unit: str
    lower_is_better: bool
    noun: str  # what inputs are called
    status: Status
    sentence: str
    faults: tuple[Fault, ...]
    confirmation: Confirmation | None
    trials: tuple[VariantTrial, ...]  # the declared one first
    sensitivity: tuple[Sensitivity, ...]
    equals: tuple[str, ...]  # variants that cannot be told from the best one
    not_swept: tuple[NotSwept, ...]
    declared: Manifest
    corrected: Manifest | None
    notes: tuple[str, ...] = ()  # what else the user should know
    sense: NextTokenSense | None = None  # whether a language model works at all
    remedy: str = ""  # what would decide it, as a sentence; empty where it is decided

    def undecided(self, sentence: str, remedy: str) -> Diagnosis:
        """Return the same diagnosis as one that is not known, which says what would make it known."""
        return replace(self, status=Status.UNDECIDED, sentence=sentence, remedy=remedy)

    def suspicious(self, sentence: str) -> Diagnosis:
        """Return the same diagnosis as one that doubts everything, and so proposes nothing."""
        return replace(
            self, status=Status.SUSPICIOUS, sentence=sentence, faults=(), equals=(), corrected=None, remedy=""
        )

    def frame(self) -> Any:
        """Returns a pandas DataFrame with a row for each variant that was tried, the declared one first. Figures of
        a variant that cannot run are missing."""
        rows = [trial.as_row() for trial in self.trials]
        if self.metric == ACCURACY:
            # The names of 0.1.0, which are deprecated: see docs/stability.md.
            rows = [{**row, "images": row["inputs"], "accuracy": row["value"]} for row in rows]
        return frame(rows, "Diagnosis.frame")
