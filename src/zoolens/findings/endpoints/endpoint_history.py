"""Verifications of endpoints as they were kept: each verdict, its prompts and its evidence, prompt by prompt."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from zoolens.base.store.records import Run, RunKind
from zoolens.base.store.series import read_series, series_names
from zoolens.base.store.store import Store
from zoolens.base.verdicts.coverage import coverage_of
from zoolens.base.verdicts.verdict import Outcome, Verdict
from zoolens.findings.endpoints.hypothesis import TELLING, Hypothesis
from zoolens.findings.endpoints.questions import By
from zoolens.findings.endpoints.stored_verification import PROMPTS, TOLD

MOST: Final = 1_000  # verifications that are looked at, the newest
_ALIKE: Final = 1e-6  # of a logarithm that is computed again


@dataclass(frozen=True)
class StoredVerification:
    """One verification as it was kept. `models`: the one that the endpoint is said to have first, then the others, each
    with how it stands. `by`: None where that was not kept, or nothing was told."""

    run: Run
    address: str
    claimed: str
    sentence: str
    verdict: Verdict
    models: Mapping[str, str]
    settings: Mapping[str, Any]
    stated: Mapping[str, Any]  # what the endpoint said of its model
    by: By | None
    limits: tuple[str, ...]
    failure: str

    @property
    def when(self) -> datetime:
        return self.run.created

    @property
    def outcome(self) -> Outcome:
        """Same: it is the model."""
        return self.verdict.outcome

    @property
    def prompts(self) -> int:
        """How many were asked."""
        return self.run.dataset.size

    @property
    def error(self) -> float:
        return float(self.settings["error"])

    @property
    def allowance(self) -> float:
        return float(self.settings["allowance"])


@dataclass(frozen=True)
class AskedPrompt:
    """One prompt. `distances`: of each model; NaN where nothing, or too little, was told. `against`: the logarithm of
    the evidence against the model that was named, after this prompt."""

    tokens: int
    long: bool
    distances: tuple[float, ...]
    against: float


@dataclass(frozen=True)
class Evidence:
    """Logarithms of capitals (base ten) after each prompt. `other`: against any other model, by short and by long
    prompts; empty where that is not known, as by tokens."""

    against: tuple[float, ...]
    other: Mapping[str, tuple[float, ...]]
    decides: float  # from here on a capital decides


def verifications(store: Store, most: int = MOST) -> list[StoredVerification]:
    """The newest first."""
    return [read_verification(run) for run in store.runs(kind=RunKind.VERIFICATION, limit=most)]


def read_verification(run: Run) -> StoredVerification:
    """The verification that a run of this kind holds."""
    told, document = run.resolved[TOLD], run.model.manifest
    settings, by = told["settings"], told.get("by") or told["settings"].get("by")
    return StoredVerification(
        run=run,
        address=document["address"],
        claimed=document["claimed"],
        sentence=told["sentence"],
        verdict=Verdict(Outcome(told["outcome"]), coverage_of(told["coverage"])),
        models=told["standings"],
        settings=settings,
        stated=document["stated"],
        by=By(by) if by else None,
        limits=tuple(told.get("limits", ())),
        failure=told["failure"],
    )


def prompts_of(store: Store, run: Run) -> list[AskedPrompt]:
    """In the order in which they were asked; none where none was kept."""
    if PROMPTS not in series_names(store, run.id):
        return []
    rows = read_series(store, run.id, PROMPTS).to_pylist()
    return [AskedPrompt(row["tokens"], row["long"], tuple(row["distances"]), row["against"]) for row in rows]


def evidence_of(found: StoredVerification, prompts: Sequence[AskedPrompt]) -> Evidence:
    """How the evidence grew. What speaks against other models is not kept, and is computed again from the distances;
    where that does not give the evidence that was kept, as of another version, it is not known."""
    named = Hypothesis(found.claimed, found.error, found.allowance, float(found.settings["rounding"]))
    other: dict[str, list[float]] = {kind: [] for kind in TELLING}
    alike = found.by is By.LOGPROBS
    for prompt in prompts:
        distance = prompt.distances[0]
        named.add_distance(None if math.isnan(distance) else distance, long=prompt.long)
        alike &= math.isclose(named.log_against, prompt.against, abs_tol=_ALIKE)
        for kind, share in named.shares.items():
            other[kind].append(share.against_other / math.log(10))
    return Evidence(
        tuple(prompt.against / math.log(10) for prompt in prompts),
        {kind: tuple(values) for kind, values in other.items()} if alike else {},
        -math.log10(found.error),
    )
