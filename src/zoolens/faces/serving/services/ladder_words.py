"""What is said about a ladder: the models that are no tier and why, and what the service cannot promise."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Final

from zoolens.base.phrases import first_few
from zoolens.base.verdicts import Outcome
from zoolens.faces.serving.services.ladder_verdict import ladder_verdict
from zoolens.faces.serving.services.service_ladder import ServiceLadder

_OUTSIDE: Final = 5  # models that are named although they are not equivalent enough
_NAMED: Final = 6  # sentences of one event
_FEW: Final = 3  # models that one of them names

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
    rungs = ", ".join(f"{rung.model} ({rung.equivalence:.1%})" for rung in built.ladder.rungs)
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
