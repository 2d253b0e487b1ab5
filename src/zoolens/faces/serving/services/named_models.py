"""Models that a service's definition names: its fallback, the arms of its splits and its shadow.

They are named as the reference is, by what the store calls them, or as the catalog does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from zoolens.base.errors import ZoolensError
from zoolens.faces.serving.services.candidate_outcomes import Excluded
from zoolens.faces.serving.services.candidates import Candidate
from zoolens.faces.serving.services.definition import ServiceError
from zoolens.faces.serving.services.input_conversion import NotConvertible
from zoolens.faces.serving.services.rung_maker import RungMaker, ServableRung, as_reason
from zoolens.faces.serving.services.tier_bounds import TierBounds
from zoolens.findings.index.tables.rows import Row
from zoolens.findings.queries.answers.query_answers import Answer
from zoolens.inventory.catalog.lookup import find

Asked = Callable[[str], Answer]  # the query for the models of this name, however little equivalent they are


class CannotServe(ServiceError):
    """A named model was measured, but cannot be opened, or cannot answer for the reference."""


@dataclass
class NamedModels:
    """Finds the tiers of named models. `answer`: what the query for the ladder found."""

    maker: RungMaker
    answer: Answer
    reference: Candidate
    ask: Asked

    def place_of(self, name: str, role: str, kept: Sequence[ServableRung], extra: list[ServableRung]) -> int:
        """The number of a named model's tier; one behind the ladder is made for it where it has none."""
        row = self._row(name, role)
        for place, servable in enumerate((*kept, *extra)):
            if servable.candidate.job.model.fingerprint == row.model:
                return place
        extra.append(self._servable(name, role, row))
        return len(kept) + len(extra) - 1

    def add_fallback(self, name: str, kept: list[ServableRung], excluded: list[Excluded]) -> None:
        """The named model as the last tier, with the equivalence that was measured of it, however low."""
        row = self._row(name, "fallback")
        if any(servable.candidate.job.model.fingerprint == row.model for servable in kept):
            return
        added = self._servable(name, "fallback", row)
        excluded[:] = [other for other in excluded if other.model != added.rung.model]
        better = added.rung.equivalence
        behind = [place for place, servable in enumerate(kept) if place and servable.rung.equivalence < better]
        kept.insert(behind[0] if behind else len(kept), added)

    def _row(self, name: str, role: str) -> Row:
        view = self.answer.plan.view
        runtime = self.maker.service.runtime
        settings = (("runtime", runtime),) if runtime else ()
        try:
            number = view.find(name, settings)
        except ZoolensError:
            # Such as that of a file: the store knows it by another name.
            full_name = find(name).full_ref
            try:
                number = view.find(full_name, settings)
            except ZoolensError:
                raise self._not_measured(name, role) from None
        row = view.index.rows[number]
        if not row.signature:
            raise self._not_measured(name, role)
        return row

    def _not_measured(self, name: str, role: str) -> ServiceError:
        return ServiceError(
            f"The {role} {name} of the service {self.maker.name} was not measured on {self.answer.dataset}.",
            hint=f"Measure it: zoolens eval {name} --data DATA.",
        )

    def _servable(self, name: str, role: str, row: Row) -> ServableRung:
        answer = self.ask(str(row.attributes.get("name")))
        bounds = TierBounds(answer, self.maker.service.confidence)
        matches = [match for match in answer.matches if match.ref == row.ref and match.equivalence is not None]
        rows = answer.plan.view.index.rows
        if any(rows[number].ref == row.ref for number in answer.plan.changed):
            raise CannotServe(
                f"The {role} {name} of the service {self.maker.name} cannot answer for it: "
                "Its files or its manifest are not those that were measured."
            )
        if not (answer.exact and matches):
            raise ServiceError(
                f"How equivalent the {role} {name} of the service {self.maker.name} is to its reference is not known: "
                f"their answers on {answer.dataset} cannot be compared.",
                hint="Give its manifest labels or a label_map that name the reference's classes.",
            )
        match = matches[0]
        try:
            return self.maker.servable(match.row, bounds.of(match), self.reference)
        except (ZoolensError, NotConvertible) as error:
            raise CannotServe(
                f"The {role} {name} of the service {self.maker.name} cannot answer for it: {as_reason(error)}"
            ) from error


def check_arms(service: str, arms: Mapping[str, int]) -> None:
    """A model may be written in several ways: only its place on the ladder shows that two splits mean the same."""
    names: dict[int, str] = {}
    for name, place in arms.items():
        other = names.setdefault(place, name)
        if other != name:
            raise ServiceError(
                f"Two splits of the service {service} are the same model, written as {other} and {name}.",
                hint="Remove one of them.",
            )
