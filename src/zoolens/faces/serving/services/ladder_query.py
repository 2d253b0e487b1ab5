"""The ladder of a service: what `query` answers, as far as this machine can serve it in the reference's place.

Nothing is listed by hand. A model that the query finds is left out where it cannot be opened, is not what was measured,
cannot be fed with the service's inputs, has other classes, or is no cheaper than a more equivalent one. Of each
measured model that is no tier it is said why. All that decides is in the store or in the models' files, so that the
ladder stays the same as long as these do.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

from zoolens.base.errors import ZoolensError
from zoolens.base.progress import Progress, Silent
from zoolens.base.store.store import Store
from zoolens.base.verdicts import Outcome
from zoolens.faces.serving.contracts.ladder import Ladder
from zoolens.faces.serving.services.candidate_outcomes import (
    Excluded,
    excluded,
    outside_the_bound,
    promised_outcome,
    unproved,
)
from zoolens.faces.serving.services.candidates import class_labels
from zoolens.faces.serving.services.definition import NamedFallback, Service, ServiceError
from zoolens.faces.serving.services.frozen_ladder import FrozenLadder, HeldRung, check_promises, read_frozen
from zoolens.faces.serving.services.input_conversion import NotConvertible
from zoolens.faces.serving.services.named_models import CannotServe, NamedModels, check_arms
from zoolens.faces.serving.services.rung_adapters import adapter_between, service_inputs, service_outputs
from zoolens.faces.serving.services.rung_costs import compare_costs
from zoolens.faces.serving.services.rung_maker import Examined, RungMaker, ServableRung, as_reason
from zoolens.faces.serving.services.service_ladder import SIMILARITY, ServiceLadder
from zoolens.faces.serving.services.tier_bounds import SELF, TierAgreement, TierBounds
from zoolens.findings.index.tables.rows import Row
from zoolens.findings.measure.latency import LatencySettings
from zoolens.findings.queries.answers.query_answers import Answer, without_bounds
from zoolens.findings.queries.answers.query_coverage import coverage_words
from zoolens.findings.queries.language.errors import ClauseError
from zoolens.findings.queries.query import query, tasks_of
from zoolens.inventory.tasks.task import DEFAULT_TASK

_EXAMINED: Final = 40  # models that are opened at most to look for tiers
_FOUND: Final = 200  # models that the query lists: the files of each are read once


@dataclass
class LadderBuilder:
    """Builds the ladder of a service, again and again while it is served."""

    name: str
    service: Service
    store: Store
    progress: Progress = field(default_factory=Silent)
    latency: LatencySettings = field(default_factory=LatencySettings)
    # Why, by model and runtime that broke its promise
    removed: dict[tuple[str, str], str] = field(default_factory=dict)
    stopped: threading.Event = field(default_factory=threading.Event)  # nobody waits for the ladder any more
    problem: str = ""  # why it could not be built the last time
    examined: Examined = field(default_factory=dict)
    # Whether models without stored times are timed: only for the first ladder. Later ones are built while requests are
    # answered, and timing would disturb both.
    may_time: bool = True

    def __post_init__(self) -> None:
        self._maker = RungMaker(
            self.name, self.service, self.store, self.progress, self.latency, self.stopped, self.examined
        )

    def build(self) -> ServiceLadder:
        service = self.service
        self._maker.service = service
        self._maker.timing = self.latency if self.may_time else None
        answer = self._first_answer()
        bounds = TierBounds(answer, service.confidence)
        reference = self._reference(answer)
        if service.ladder is None:
            kept, left_out, notes = self._searched(bounds, reference)
        else:
            frozen = read_frozen(Path(service.ladder), self.name, service)
            kept, left_out = self._thawed(frozen, reference)
            notes = [f"The ladder is the one that was frozen in {frozen.path}."]
        named = NamedModels(self._maker, answer, reference.candidate, self._ask_named)
        if isinstance(service.fallback, NamedFallback):
            named.add_fallback(service.fallback.model, kept, left_out)
        extra: list[ServableRung] = []
        arms, lacking = self._arms(named, kept, extra)
        shadow = None
        if service.shadow is not None:
            place = named.place_of(service.shadow.model, "shadow", kept, extra)
            shadow = [*kept, *extra][place].rung
        self.may_time = False
        # `excluded` names each of these models, with its reason.
        not_judged = coverage_words(answer.verdict.coverage)
        # The tiers have bounds here, although queries give none for answers that agree in part.
        told = [note for note in answer.notes if note not in (not_judged, without_bounds(answer.plan.view))]
        return ServiceLadder(
            service=service,
            ladder=Ladder(tuple(servable.rung for servable in kept)),
            candidates=tuple(servable.candidate for servable in kept),
            adapters=tuple(servable.adapter for servable in kept),
            inputs=service_inputs(service, reference.candidate),
            outputs=service_outputs(service, reference.candidate),
            labels=class_labels(reference.candidate),
            dataset=answer.dataset,
            probes=answer.n,
            confidence=bounds.level,
            agreement_name=SIMILARITY if answer.plan.view.searched_by_distance else answer.plan.view.equivalence_name,
            quality_unit=answer.plan.view.units.get(answer.plan.view.quality, ""),
            query=answer.query,
            excluded=tuple(left_out),
            notes=(*told, *notes, *self._notes(answer, kept)),
            lacking=lacking,
            extra=tuple(servable.rung for servable in extra),
            extra_candidates=tuple(servable.candidate for servable in extra),
            extra_adapters=tuple(servable.adapter for servable in extra),
            arms=arms,
            shadow=shadow,
        )

    # --- the query

    @cached_property
    def _task(self) -> str | None:
        """The task that the reference was measured in; None: the one that queries are about by themselves."""
        tasks = tasks_of(self.service.reference, self.store)
        return tasks[0] if tasks and DEFAULT_TASK not in tasks else None

    def _first_answer(self) -> Answer:
        """What the query for the ladder finds. Of answers that agree in part it bounds nothing: then a confidence is
        asked of the bounds that are made here."""
        try:
            return self._ask(self.service.within)
        except ClauseError:
            if self.service.confidence is None:
                raise
            answer = self._ask(self.service.within, sure=False)
            if answer.plan.view.counts_answers:
                raise
            return answer

    def _ask(self, within: float, where: str | None = None, *, sure: bool = True) -> Answer:
        service = self.service
        bounds = [*service.bounds]
        if service.objectives.energy is not None:
            bounds.append(f"energy <= {service.objectives.energy!r} J")
        if service.objectives.memory is not None and service.policy_name != "memory":
            bounds.append(f"memory <= {service.objectives.memory} B")
        text = f"ON {' AND '.join(bounds)}" if bounds and where is None else None
        return query(
            text,
            ref=service.reference,
            within=within,
            confidence=service.confidence if sure and where is None else None,
            data=service.data,
            task=self._task,
            where=where or service.where,
            exec={"runtime": service.runtime} if service.runtime else None,
            limit=_FOUND,
            store=self.store,
            progress=self.progress,
        )

    def _ask_named(self, name: str) -> Answer:
        return self._ask(0.0, where=f"name = '{name}'")

    def _found(self, bounds: TierBounds) -> Iterator[tuple[Row, TierAgreement]]:
        """What the query found, most equivalent first; only what fits, and only what was run."""
        answer = bounds.answer
        if not answer.exact:
            return
        matches = [match for match in answer.matches if match.equivalence is not None and match.row.signature]
        for match in sorted(matches, key=lambda match: -(match.equivalence or 0.0)):
            yield match.row, bounds.of(match)

    # --- tiers

    def _reference(self, answer: Answer) -> ServableRung:
        if answer.reference is None:
            raise ServiceError(f"The service {self.name} has no reference that was measured.")
        try:
            return self._maker.servable(answer.reference.row, SELF, None)
        except (ZoolensError, NotConvertible) as error:
            raise ServiceError(
                f"The reference of the service {self.name} cannot be served: {as_reason(error)}"
            ) from error

    def _searched(
        self, bounds: TierBounds, reference: ServableRung
    ) -> tuple[list[ServableRung], list[Excluded], list[str]]:
        """The tiers among what the query finds, the reference first; every other measured model; and of which tiers it
        is not known whether they are cheaper. These go first where there are more than the definition allows."""
        most = self.service.rungs
        kept, left_out = [reference], list[Excluded]()
        doubts: list[tuple[ServableRung, str]] = []
        opened = 0
        for row, agreement in self._found(bounds):
            if not bounds.by_query and promised_outcome(self.service, agreement) is not Outcome.SAME:
                left_out.append(unproved(row, agreement))
                continue
            if len(kept) - len(doubts) >= most:
                left_out.append(excluded(row, f"The ladder has its {most} tiers already.", Outcome.SAME))
                continue
            if opened == _EXAMINED:
                reason = f"It was not opened: {_EXAMINED} more equivalent models were."
                left_out.append(excluded(row, reason, Outcome.SAME))
                continue
            opened += 1
            found = self._considered(row, agreement, kept)
            if isinstance(found, Excluded):
                left_out.append(found)
                continue
            kept.append(found[0])
            if found[1]:
                doubts.append(found)
        surplus = max(0, len(kept) - most)
        for servable, sentence in doubts[:surplus]:
            kept = [other for other in kept if other is not servable]
            reason = f"The ladder has its {most} tiers already. {sentence}"
            left_out.append(Excluded(servable.rung.model, servable.rung.runtime, reason, Outcome.SAME))
        return (
            kept,
            [*left_out, *outside_the_bound(bounds.answer, self.service)],
            [sentence for _, sentence in doubts[surplus:]],
        )

    def _considered(
        self, row: Row, agreement: TierAgreement, kept: Sequence[ServableRung]
    ) -> Excluded | tuple[ServableRung, str]:
        """A tier with a sentence where it is not known to be cheaper; or why the model is none."""
        broken = self.removed.get((row.ref, str(row.runtime)))
        if broken is not None:
            return excluded(row, broken, Outcome.DIFFERENT)
        try:
            servable = self._maker.servable(row, agreement, kept[0].candidate)
        except NotConvertible as error:
            return excluded(row, as_reason(error), Outcome.SAME)
        except ZoolensError as error:
            return excluded(row, as_reason(error), Outcome.NOT_KNOWN, error.hint or "")
        others = [other.rung for other in kept]
        time_alone = self.service.policy_name == "latency"
        unit = "input" if self.service.texts is None else "token"
        cost = compare_costs(servable.rung, others, self.service.largest, time_alone=time_alone, unit=unit)
        if cost is None:
            return servable, ""
        if cost.cheaper is False:
            how = "more" if cost.other.equivalence > agreement.equivalence else "as"
            reason = f"It is no cheaper than {cost.other.model}, which is {how} equivalent: {cost.words}."
            return excluded(row, reason, Outcome.SAME)
        name, other = servable.rung.model, cost.other.model
        return servable, f"Whether {name} is cheaper than {other} is not known: {cost.words}."

    def _thawed(self, frozen: FrozenLadder, reference: ServableRung) -> tuple[list[ServableRung], list[Excluded]]:
        """The tiers of a ladder that was frozen, as far as they can be served, with the figures that they had then."""
        first, *others = frozen.rungs
        self._check_frozen_reference(frozen.path, first, reference)
        check_promises(frozen, self.name, reference.candidate.task)
        kept, left_out = [reference._replace(rung=first.rung)], list[Excluded]()
        for held in others:
            try:
                kept.append(self._thawed_rung(held, reference))
            except (ZoolensError, NotConvertible) as error:
                left_out.append(Excluded(held.rung.model, held.rung.runtime, as_reason(error), Outcome.NOT_KNOWN))
        return kept, left_out

    def _check_frozen_reference(self, path: Path, held: HeldRung, reference: ServableRung) -> None:
        """How equivalent the tiers are was measured with the reference of that time: with another file it says
        nothing."""
        if held.run == reference.candidate.run.id:
            return
        then = self.store.runs_of([held.run])
        if not then or then[0].key.model != reference.candidate.run.key.model:
            raise ServiceError(
                f"The ladder of the service {self.name} in {path} was frozen with another {held.rung.model}.",
                hint="Freeze it again: zoolens serve FILE --check --freeze LADDER.",
            )

    def _thawed_rung(self, held: HeldRung, reference: ServableRung) -> ServableRung:
        broken = self.removed.get((held.rung.model, held.rung.runtime))
        if broken is not None:
            raise ZoolensError(broken)
        candidate = self._maker.candidate(held.run)
        return ServableRung(held.rung, candidate, adapter_between(self.service, reference.candidate, candidate))

    def _arms(
        self, named: NamedModels, kept: Sequence[ServableRung], extra: list[ServableRung]
    ) -> tuple[dict[str, int], dict[str, str]]:
        """The numbers of the tiers of splits, by the name that the definition has; and which of the models cannot
        answer, with the reason: their requests are left to the policy."""
        arms: dict[str, int] = {}
        lacking: dict[str, str] = {}
        for split in self.service.splits:
            try:
                arms[split.model] = named.place_of(split.model, "split", kept, extra)
            except CannotServe as error:
                lacking[split.model] = error.message
        check_arms(self.name, arms)
        return arms, lacking

    def _notes(self, answer: Answer, kept: Sequence[ServableRung]) -> Iterator[str]:
        if answer.exact and answer.fitting > len(answer.matches):
            more = answer.fitting - len(answer.matches)
            yield f"{more:,} more models are equivalent within the bound, but less than those that are listed."
        if len(kept) == 1:
            yield "No model is known that can answer for the reference: the service cannot switch."
        busy = [rung.model for rung, candidate, _ in kept if self._maker.was_disturbed(candidate)]
        if busy:
            yield (
                f"{', '.join(busy)} {'was' if len(busy) == 1 else 'were'} timed under load: "
                "the quickest tenth of the calls counts. What is observed while serving corrects it."
            )
        for rung, candidate, _ in kept:
            measured, here = candidate.run.stack.version, candidate.job.stack.version
            if measured != here:
                yield (
                    f"{rung.model} was measured with {rung.runtime} {measured} and is served by {here}: "
                    "how equivalent it is was not measured with this version."
                )
