"""What a verification says, in sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from zoolens.base.present.figures import percent
from zoolens.base.verdicts.verdict import Outcome
from zoolens.findings.endpoints.hypothesis import TELLING, Hypothesis, Standing
from zoolens.findings.endpoints.questions import By
from zoolens.findings.endpoints.verification import Verification


def sentence(found: Verification) -> str:
    """The verdict, with what it was seen by, the number of prompts and the error."""
    name, count = found.named.name, f"{len(found.asked):,} prompts"
    error = f"error {found.named.error:g}"
    outcome = found.verdict.outcome
    left = [each.name for each in found.fitting()]
    if outcome is Outcome.DIFFERENT:
        instead = [each.name for each in found.hypotheses[1:] if each.standing is Standing.FITS]
        found_instead = f" It answers as {' or '.join(instead)} does." if instead else ""
        if not instead and len(found.hypotheses) > 1:
            found_instead = f" It could be {' or '.join(left)}." if left else " It is none of the other models either."
        return f"It is not {name}: {found.named.cause} ({count}, {error}).{found_instead}"
    if outcome is Outcome.SAME:
        return (
            f"It is {name}, or a model within a total variation of {found.named.allowance:g} of it at more than "
            f"{percent(1 - TELLING['short'], 0)} of short prompts and {percent(1 - TELLING['long'], 0)} of long ones "
            f"({count}, {error})."
        )
    why = f" Asking ended early: {found.failure}" if found.failure else ""
    if found.by is By.TOKENS and len(left) == 1 < len(found.hypotheses):
        return f"Not known: of these models only {left[0]} is left by its tokens ({count}, {error}).{why}"
    if left == [name] and found.named.standing is Standing.OPEN:
        return f"Not known: it could be {name}; nothing found so far excludes it ({count}, {error}).{why}"
    return f"Not known: it could be {' or '.join(left)} ({count}, {error}).{why}"


def model_lines(found: Verification) -> Iterator[tuple[str, str]]:
    """For each model its name, and what is known of it."""
    for each in found.hypotheses:
        yield each.name, f"{each.standing.value}, {_evidence(each)}"


def _evidence(each: Hypothesis) -> str:
    odds = f"evidence against it 10^{each.log_against / math.log(10):.1f}"
    if not each.distances and not each.by_tokens:
        return f"{odds}{_untold(each)}"
    if not each.distances:
        return f"{odds} from {each.tokens.asked:,} tokens"
    largest, mean = max(each.distances), sum(each.distances) / len(each.distances)
    return f"{odds}, total variation {mean:.4f} on average and {largest:.4f} at most{_untold(each)}"


def _untold(each: Hypothesis) -> str:
    return f", too little told of {each.untold:,} prompts" if each.untold else ""


def limits(found: Verification) -> Iterator[str]:
    """What the verdict does not say."""
    if found.by is By.LOGPROBS:
        for each in found.hypotheses:
            if each.standing is Standing.FITS and each.draws_otherwise:
                yield f"The log-probabilities are those of {each.name}; its tokens are not drawn from them."
        yield (
            "Log-probabilities say which model computes them. Whether tokens are chosen by them, at the temperature "
            "that is asked for, takes more prompts to see: --by tokens asks for that alone."
        )
    elif found.by is By.TOKENS:
        yield "Tokens alone tell models apart that were named; that no other model chooses alike cannot be seen."
    if found.settings["chat"]:
        yield "Only the template of one system message and one user message was seen."


def as_data(found: Verification) -> dict[str, Any]:
    return {
        "address": found.address,
        "sentence": sentence(found),
        **found.verdict.as_data(),
        "by": None if found.by is None else found.by.value,
        "prompts": len(found.asked),
        "models": [
            {
                "name": each.name,
                "standing": each.standing.value,
                "log10_evidence_against": each.log_against / math.log(10),
                "mean_distance": sum(each.distances) / len(each.distances) if each.distances else None,
            }
            for each in found.hypotheses
        ],
        "limits": list(limits(found)),
        "settings": dict(found.settings),
        "run": None if found.run is None else found.run.id,
        "failure": found.failure,
    }
