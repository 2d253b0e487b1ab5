"""Models that are no tier of a service: each is equivalent within the bound, is not, or that is not known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from zoolens.base.present.figures import percent, percent_down
from zoolens.base.verdicts import Gap, Outcome
from zoolens.faces.serving.services.definition import Service
from zoolens.faces.serving.services.tier_bounds import TierAgreement
from zoolens.findings.index.tables.rows import Row
from zoolens.findings.queries.answers.matches import Match
from zoolens.findings.queries.answers.near_misses import near_misses
from zoolens.findings.queries.answers.query_answers import Answer
from zoolens.findings.queries.answers.wording import predicate_words
from zoolens.findings.queries.planning.admission import all_pass

_MOST: Final = 1000  # models outside the bound that are listed
_EVALUATE: Final = "Evaluate it: zoolens eval {} --data DATA."
_EVALUATE_MORE: Final = "Evaluate it on more inputs: zoolens eval {} --data DATA."


@dataclass(frozen=True)
class Excluded:
    """A model that is no tier: an equivalent one may be left out because it is not cheaper, or cannot be fed here."""

    model: str
    runtime: str
    reason: str  # a sentence
    outcome: Outcome  # whether it is known to answer as the reference does, as often as is promised
    remedy: str = ""  # what would make an unknown outcome known

    @property
    def gap(self) -> Gap:
        """For a model of which it is not known."""
        return Gap(f"{self.model} in {self.runtime}: {self.reason.rstrip('.')}", remedy=self.remedy)

    def as_data(self) -> dict[str, Any]:
        data = {"model": self.model, "runtime": self.runtime, "reason": self.reason, "outcome": self.outcome.value}
        return {**data, "remedy": self.remedy} if self.remedy else data


def excluded(row: Row, reason: str, outcome: Outcome, remedy: str = "") -> Excluded:
    return Excluded(row.ref, str(row.runtime), reason, outcome, remedy)


def unproved(row: Row, agreement: TierAgreement) -> Excluded:
    """A model whose answers agree with the reference's as far as is promised, but on too few inputs to be sure."""
    least = (
        "has no lower bound"
        if agreement.lower is None
        else f"is at least {percent_down(agreement.lower)} with the confidence that is asked for"
    )
    reason = f"Its agreement with the reference is {percent(agreement.equivalence, 1)} on the probes and {least}."
    return excluded(row, reason, Outcome.NOT_KNOWN, _EVALUATE_MORE.format(_plain_name(row)))


def not_known(outsiders: Iterable[Excluded]) -> list[Excluded]:
    return [other for other in outsiders if other.outcome is Outcome.NOT_KNOWN]


def promised_outcome(service: Service, agreement: TierAgreement) -> Outcome:
    """Whether a model is known to answer as the reference does, as often as the service promises. With a confidence the
    lower bound must reach that share: where only the measured share does, more inputs are needed to tell."""
    if agreement.equivalence < service.within:
        return Outcome.DIFFERENT
    asked = agreement.least if service.confidence is None else agreement.lower
    if asked is None and service.confidence is None:
        asked = agreement.equivalence
    return Outcome.SAME if asked is not None and asked >= service.within else Outcome.NOT_KNOWN


def outside_the_bound(answer: Answer, service: Service) -> Iterator[Excluded]:
    """The measured models that the query does not find: too little equivalent, beyond another bound, or not compared
    with the reference at all. What EXEC or WHERE leaves out is no candidate."""
    for match in near_misses(answer.plan, _MOST):
        if not match.rejections:
            continue  # its file has changed
        within = answer.plan.within
        refused = within is not None and any(why.predicate == predicate_words(within) for why in match.rejections)
        outcome = _beyond(service, match) if refused else Outcome.SAME
        more = answer.plan.view.closer_agreement or _EVALUATE_MORE.format(_plain_name(match.row))
        remedy = more if outcome is Outcome.NOT_KNOWN else ""
        yield excluded(match.row, _rejected(match), outcome, remedy)
    yield from _not_compared(answer)
    yield from _replaced(answer)


def _beyond(service: Service, match: Match) -> Outcome:
    """The outcome of a model that WITHIN refuses: where the agreement that was seen is enough, its bound is not."""
    within = match.equivalence is not None and match.equivalence < service.within
    return Outcome.DIFFERENT if within else Outcome.NOT_KNOWN


def _replaced(answer: Answer) -> Iterator[Excluded]:
    """Models that would fit by what was measured of another file."""
    for number in answer.plan.changed:
        row = answer.plan.view.index.rows[number]
        remedy = _EVALUATE.format(_plain_name(row))
        yield excluded(row, "Its file is not the one that was measured.", Outcome.NOT_KNOWN, remedy)


def _not_compared(answer: Answer) -> Iterator[Excluded]:
    """Models of the store that have no answer to the probes, or answers in other classes than the reference's."""
    plan, view = answer.plan, answer.plan.view
    if plan.reference is None:
        return
    agreement = view.agreement(plan.reference.row)
    clauses = all_pass((rule for rule in plan.rules if rule.clause), len(view))
    models = view.models
    compared = set(models[~np.isnan(agreement)].tolist())
    for number in np.flatnonzero(np.isnan(agreement) & clauses):
        row = view.index.rows[int(number)]
        if int(models[number]) in compared or row.runtime is None:
            # It was compared in another runtime, or nobody here has run it.
            continue
        compared.add(int(models[number]))
        if row.signature:
            reason = "It has other classes than the reference, so that their answers were not compared."
            yield excluded(row, reason, Outcome.NOT_KNOWN, f"Give the manifest of {_plain_name(row)} a label_map.")
        else:
            reason = f"It was not evaluated on {answer.dataset}."
            yield excluded(row, reason, Outcome.NOT_KNOWN, _EVALUATE.format(_plain_name(row)))


def _plain_name(row: Row) -> str:
    """The model without its version, as commands take it."""
    return row.ref.partition("@")[0]


def _rejected(match: Match) -> str:
    words = "; ".join(why.sentence for why in match.rejections)
    return f"{words[:1].upper()}{words[1:]}."
