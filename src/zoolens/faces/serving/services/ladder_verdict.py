"""Whether a service can keep what its definition promises, as far as measurements tell before it is served."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoolens.base.verdicts import Coverage, Gap, Outcome, Tally, Verdict, combined, judged
from zoolens.faces.serving.contracts.ladder import Rung
from zoolens.faces.serving.policies.memory import MemorySettings
from zoolens.faces.serving.policies.policy_settings import read_settings
from zoolens.faces.serving.services.candidate_outcomes import not_known, promised_outcome
from zoolens.faces.serving.services.memory_limit import read_memory_limit
from zoolens.faces.serving.services.service_ladder import ServiceLadder, ladder_data
from zoolens.faces.serving.services.tier_bounds import agreement_of

_AGAIN = "Time it again on an idle machine: zoolens eval {} --fresh."


@dataclass(frozen=True)
class LadderVerdict:
    """`verdict` is "same" where every promise can be kept, "different" where one cannot. `sentences` say of each that
    is not kept, or of which that is not known, why."""

    verdict: Verdict
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class _Promise:
    """One thing that the definition promises. `kept`: None where that is not known; then `why` says why not."""

    kept: bool | None
    why: str = ""
    gaps: tuple[Gap, ...] = ()

    @property
    def verdict(self) -> Verdict:
        coverage = Coverage((Tally("promises", int(self.kept is not None), 1),), self.gaps)
        return judged(coverage, different=self.kept is False)


def ladder_verdict(built: ServiceLadder) -> LadderVerdict:
    promises = list(_promises(built))
    verdict = combined(promise.verdict for promise in promises)
    sentences = tuple(promise.why for promise in promises if promise.why)
    return LadderVerdict(verdict, sentences)


def candidates_verdict(built: ServiceLadder) -> Verdict:
    """Whether it is known of every measured model if it is equivalent within the bound. Known is "same" here."""
    unknown = not_known(built.excluded)
    known = len(built.ladder.rungs) + len(built.excluded) - len(unknown)
    coverage = Coverage((Tally("models", known, known + len(unknown)),), tuple(other.gap for other in unknown))
    return judged(coverage, different=False)


def checked_data(built: ServiceLadder) -> dict[str, Any]:
    """What `--check --json` says about a service."""
    found = ladder_verdict(built)
    return {**ladder_data(built), **found.verdict.as_data(), "problems": list(found.sentences)}


def _promises(built: ServiceLadder) -> Iterator[_Promise]:
    yield _equivalence(built)
    if built.service.objectives.latency is not None:
        yield _latency(built, built.service.objectives.latency.bound)
    limit = _memory_limit(built)
    if limit is not None:
        yield _memory(built.ladder.rungs, limit)


def _equivalence(built: ServiceLadder) -> _Promise:
    """Where no tier besides the reference is known to be equivalent, it matters what is not known. A fallback that is
    named may be less equivalent than is promised."""
    unknown = not_known(built.excluded)
    equivalent = [rung for rung in built.ladder.rungs[1:] if _is_promised(built, rung)]
    if equivalent or not unknown or built.service.policy_name == "fixed":
        return _Promise(True)
    models = "1 model" if len(unknown) == 1 else f"{len(unknown):,} models"
    why = f"Whether a model can answer for the reference is not known: {models} could not be judged."
    return _Promise(None, why, tuple(other.gap for other in unknown))


def _is_promised(built: ServiceLadder, rung: Rung) -> bool:
    return promised_outcome(built.service, agreement_of(rung)) is Outcome.SAME


def _latency(built: ServiceLadder, bound: float) -> _Promise:
    rungs = built.ladder.rungs
    texts = built.service.texts
    size = 1 if texts is None else texts.answer
    quickest = min(rungs, key=lambda rung: rung.profile.of(size))
    if any(rung.profile.interval(size)[1] <= bound for rung in rungs):
        return _Promise(True)
    low, high = map(_ms, quickest.profile.interval(size))
    span = low if low == high else f"{low} to {high}"
    what = "one input" if texts is None else f"a text of {texts.answer:,} tokens behind {texts.prompt:,}"
    takes = f"the quickest tier, {quickest.model}, takes {span} for {what}"
    if all(rung.profile.interval(size)[0] > bound for rung in rungs):
        return _Promise(False, f"No tier answers within {_ms(bound)}: {takes}.")
    remedy = _AGAIN.format(quickest.model.partition("@")[0])
    gap = Gap(f"whether {quickest.model} answers within {_ms(bound)}", remedy=remedy)
    return _Promise(None, f"Whether any tier answers within {_ms(bound)} is not known: {takes}.", (gap,))


def _memory(rungs: tuple[Rung, ...], limit: int) -> _Promise:
    known = [rung.memory_bytes for rung in rungs if rung.memory_bytes is not None]
    if any(size <= limit for size in known):
        return _Promise(True)
    if len(known) == len(rungs):
        least = _megabytes(min(known))
        return _Promise(False, f"No tier fits into {_megabytes(limit)}: the smallest takes {least}.")
    gaps = tuple(
        Gap(f"memory of {rung.model}", remedy=f"Measure it: zoolens eval {rung.model.partition('@')[0]}.")
        for rung in rungs
        if rung.memory_bytes is None
    )
    return _Promise(None, f"Whether any tier fits into {_megabytes(limit)} is not known.", gaps)


def _memory_limit(built: ServiceLadder) -> int | None:
    """The least of the limits that the definition sets for an open model."""
    service = built.service
    limits = []
    if service.policy_name == "memory":
        limits.append(read_settings(MemorySettings, service.policy_settings, "memory").limit)
    if service.memory_limit_file is not None:
        limits.append(read_memory_limit(Path(service.memory_limit_file)))
    return min((limit for limit in limits if limit is not None), default=None)


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.4g} MB"
