"""What is said about a ladder: the models that are no tier and why, and what the service cannot promise."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from zoolens.base.phrases import first_few
from zoolens.base.present.figures import percent
from zoolens.base.verdicts import Outcome
from zoolens.faces.serving.services.ladder_verdict import ladder_verdict
from zoolens.faces.serving.services.service_ladder import ServiceLadder

_OUTSIDE: Final = 5  # models that are named although they are not equivalent enough
_NAMED: Final = 6  # sentences of one event
_FEW: Final = 3  # models that one of them names
_OLD: Final = timedelta(days=30)

log = logging.getLogger("zoolens.serving")


def left_out(built: ServiceLadder) -> Iterator[str]:
    """A sentence for each model that is no tier: first those that are equivalent within the bound, then those of which
    that is not known, and of those that are known not to be, the first few."""
    others = {outcome: [other for other in built.excluded if other.outcome is outcome] for outcome in Outcome}
    for other in others[Outcome.SAME]:
        yield f"Not used: {other.model} in {other.runtime}. {other.reason}"
    for other in others[Outcome.NOT_KNOWN]:
        yield f"Unknown: {other.model} in {other.runtime}. {other.reason} {other.remedy}".rstrip()
    outside = others[Outcome.DIFFERENT]
    for other in outside[:_OUTSIDE]:
        yield f"Not within the bound: {other.model} in {other.runtime}. {other.reason}"
    if len(outside) > _OUTSIDE:
        yield f"Not within the bound: {len(outside) - _OUTSIDE:,} more (--check --json lists them)."
    for split, reason in built.lacking.items():
        yield f"Requests of the split {split} are left to the policy. {reason}"


def described(built: ServiceLadder) -> str:
    """The tiers, and which models that are equivalent, or of which that is not known, are none; for an event."""
    rungs = ", ".join(f"{rung.model} ({percent(rung.equivalence, 1)})" for rung in built.ladder.rungs)
    sentences = [f"The ladder is {rungs}."]
    for outcome, word in ((Outcome.SAME, "Not used"), (Outcome.NOT_KNOWN, "Unknown")):
        by_reason: dict[str, list[str]] = {}
        for other in built.excluded:
            if other.outcome is outcome:
                by_reason.setdefault(other.reason, []).append(other.model)
        sentences += [f"{word}: {_few(models)}. {reason}" for reason, models in by_reason.items()]
    told = sentences[:_NAMED]
    more = len(sentences) - len(told)
    if more:
        told.append(f"{more:,} more reasons: see `zoolens serve --check`.")
    return " ".join(told)


def ages(built: ServiceLadder, now: datetime) -> Iterator[str]:
    """What the ladder rests on that is old, and how to make it new. What other files, another runtime or another
    machine made old is not here: that is measured again by itself, or its model is no tier."""
    rungs = built.ladder.rungs
    timed = [rung.model for rung in rungs if _is_old(rung.profile.measured, now)]
    answered = [
        rung.model
        for rung, candidate in zip(rungs, built.candidates, strict=True)
        if _is_old(candidate.run.created, now)
    ]
    if timed:
        again = " ".join(dict.fromkeys(model.partition("@")[0] for model in timed))
        yield (
            f"Timed more than {_OLD.days} days ago: {_few(timed)}. Files, runtime and machine are the same; if the "
            f"machine has changed otherwise, time them again: zoolens eval {again} --no-accuracy --fresh."
        )
    if answered:
        yield f"First evaluated more than {_OLD.days} days ago, with the same files: {_few(answered)}."


def _is_old(measured: datetime | None, now: datetime) -> bool:
    return measured is not None and now - measured > _OLD


def age(measured: datetime, now: datetime) -> str:
    """How long ago something was measured: "5 min", "3 h" or "12 days"."""
    seconds = max(0.0, (now - measured).total_seconds())
    if seconds < 2 * 3600:
        return f"{seconds / 60:.0f} min"
    if seconds < 2 * 86400:
        return f"{seconds / 3600:.0f} h"
    return f"{seconds / 86400:,.0f} days"


def _few(models: Sequence[str]) -> str:
    """The first names, each once; what a page shows of an event is cut otherwise."""
    return first_few(list(dict.fromkeys(models)), _FEW)


def announce(service: str, built: ServiceLadder) -> None:
    """Log who is left out and what cannot be promised, when a service starts."""
    rungs = ", ".join(rung.model for rung in built.ladder.rungs)
    log.info("service %s: the ladder is %s", service, rungs)
    for sentence in left_out(built):
        log.info("service %s: %s", service, sentence)
    for sentence in ladder_verdict(built).sentences:
        log.warning("service %s: %s", service, sentence)
