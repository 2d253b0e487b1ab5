"""The ladder of a service: what `query` answers, as far as this machine can serve it in the reference's place.

Nothing is listed by hand. A model that the query finds is left out where it cannot be opened, is not what was measured,
cannot be fed with the service's inputs, has other classes, or is no cheaper than a more equivalent one; each time it is
said why.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from zoolens.catalog.lookup import find
from zoolens.engine.machine import available_cores
from zoolens.errors import ZoolensError, first_line
from zoolens.index.rows import Row
from zoolens.measure.latency import LatencySettings
from zoolens.progress import Progress, Silent
from zoolens.queries.answers import Answer
from zoolens.queries.api import query
from zoolens.serving.adapters import Adapter
from zoolens.serving.ladder import Ladder, LatencyProfile, Rung
from zoolens.serving.services.candidates import (
    Candidate,
    NotConvertible,
    adapter_between,
    class_labels,
    examine,
    file_states,
    sample_input,
    service_inputs,
    service_outputs,
)
from zoolens.serving.services.definition import NamedFallback, Service, ServiceError
from zoolens.serving.services.profiles import (
    ensure_profile,
    preparation_seconds,
    profiled_sizes,
    stored_timings,
    with_contention,
    with_preparation,
)
from zoolens.serving.services.service_ladder import Excluded, ServiceLadder
from zoolens.store.store import Store

_EXAMINED: Final = 40  # models that are opened at most to look for rungs
_CHEAPER: Final = 0.95  # of another's time or memory: less is no reason to have a further model at hand
_MEMORY: Final = "peak_memory@process"
_ACCURACY: Final = "top1"
_ENERGY: Final = "energy@batch=1"

FileStates = tuple[tuple[str, int, int], ...]


class ServableRung(NamedTuple):
    """A rung with the model that it stands for, and how that is fed with what clients send."""

    rung: Rung
    candidate: Candidate
    adapter: Adapter


@dataclass
class LadderBuilder:
    """Asks for the ladder of a service again and again. What was found out about a model is kept as long as its files
    and the way it was measured stay the same. Only the first ladder has models timed: later ones are built while
    requests are answered, which would disturb both. `removed`: (model, runtime) that broke its promise meanwhile.
    `stopped`: nobody waits for the ladder any more. `problem`: why it could not be built the last time."""

    name: str
    service: Service
    store: Store
    progress: Progress = field(default_factory=Silent)
    latency: LatencySettings = field(default_factory=LatencySettings)
    removed: dict[tuple[str, str], str] = field(default_factory=dict)
    stopped: threading.Event = field(default_factory=threading.Event)
    problem: str = ""
    _examined: dict[str, tuple[Candidate, FileStates]] = field(default_factory=dict)
    _built: bool = False
    _profiles: dict[tuple[str, str], LatencyProfile] = field(default_factory=dict)

    def build(self) -> ServiceLadder:
        service = self.service
        answer = self._ask(service.within)
        kept = [self._reference(answer)]
        reference = kept[0].candidate
        excluded: list[Excluded] = []
        for row, equivalence, lower in self._stand_ins(answer):
            if len(kept) >= service.rungs:
                excluded.append(_excluded(row, f"The ladder has its {service.rungs} rungs already."))
                continue
            self._consider(row, equivalence, lower, reference, kept, excluded)
        if isinstance(service.fallback, NamedFallback):
            self._add_fallback(service.fallback.model, reference, kept, excluded)
        extra: list[ServableRung] = []
        arms = {split.model: self._place_of(split.model, "split", reference, kept, extra) for split in service.splits}
        self._check_arms(arms)
        shadow = None
        if service.shadow is not None:
            place = self._place_of(service.shadow.model, "shadow", reference, kept, extra)
            shadow = [*kept, *extra][place].rung
        self._built = True
        return ServiceLadder(
            service=service,
            ladder=Ladder(tuple(servable.rung for servable in kept)),
            candidates=tuple(servable.candidate for servable in kept),
            adapters=tuple(servable.adapter for servable in kept),
            inputs=service_inputs(service, reference),
            outputs=service_outputs(service, reference),
            labels=class_labels(reference),
            dataset=answer.dataset,
            probes=answer.n,
            confidence=answer.confidence,
            query=answer.query,
            excluded=tuple(excluded),
            notes=(*answer.notes, *self._notes(kept)),
            extra=tuple(servable.rung for servable in extra),
            extra_candidates=tuple(servable.candidate for servable in extra),
            extra_adapters=tuple(servable.adapter for servable in extra),
            arms=arms,
            shadow=shadow,
        )

    def _reference(self, answer: Answer) -> ServableRung:
        if answer.reference is None:
            raise ServiceError(f"The service {self.name} has no reference that was measured.")
        try:
            reference = self._examine(answer.reference.row)
            rung = self._rung(answer.reference.row, reference, reference, 1.0, 1.0)
            return ServableRung(rung, reference, adapter_between(self.service, reference, reference))
        except (ZoolensError, NotConvertible) as error:
            raise ServiceError(
                f"The reference of the service {self.name} cannot be served: {_reason(error)}"
            ) from error

    def _check_arms(self, arms: Mapping[str, int]) -> None:
        """A model may be written in several ways: only its place on the ladder shows that two splits mean the same."""
        names: dict[int, str] = {}
        for name, place in arms.items():
            other = names.setdefault(place, name)
            if other != name:
                raise ServiceError(
                    f"Two splits of the service {self.name} are the same model, written as {other} and {name}.",
                    hint="Remove one of them.",
                )

    # --- the query

    def _ask(self, within: float, where: str | None = None) -> Answer:
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
            confidence=service.confidence if where is None else None,
            data=service.data,
            where=where or service.where,
            exec={"runtime": service.runtime} if service.runtime else None,
            limit=_EXAMINED,
            store=self.store,
            progress=self.progress,
        )

    def _stand_ins(self, answer: Answer) -> Iterator[tuple[Row, float, float | None]]:
        """What the query found, most equivalent first; only what fits, and only what was run."""
        if not answer.exact:
            return
        matches = [match for match in answer.matches if match.equivalence is not None and match.row.signature]
        for match in sorted(matches, key=lambda match: -(match.equivalence or 0.0)):
            yield match.row, float(match.equivalence or 0.0), match.equivalence_lower

    # --- candidates

    def _examine(self, row: Row) -> Candidate:
        if self.stopped.is_set():
            raise ServiceError(f"The service {self.name} ends.")
        (run,) = self.store.runs_of([row.key])
        known = self._examined.get(row.key)
        if known is not None and known[0].run.resolved == run.resolved and known[1] == file_states(known[0]):
            return known[0]
        candidate = examine(run, self.progress)
        self._examined[row.key] = candidate, file_states(candidate)
        return candidate

    def _consider(
        self,
        row: Row,
        equivalence: float,
        lower: float | None,
        reference: Candidate,
        kept: list[ServableRung],
        excluded: list[Excluded],
    ) -> None:
        broken = self.removed.get((row.ref, str(row.runtime)))
        if broken is not None:
            excluded.append(_excluded(row, broken))
            return
        try:
            candidate = self._examine(row)
            adapter = adapter_between(self.service, reference, candidate)
            rung = self._rung(row, candidate, reference, equivalence, lower)
        except (ZoolensError, NotConvertible) as error:
            excluded.append(_excluded(row, _reason(error)))
            return
        better = self._no_cheaper_than(rung, [servable.rung for servable in kept])
        if better is not None:
            excluded.append(_excluded(row, f"It is no cheaper than {better.model}, which is more equivalent."))
            return
        kept.append(ServableRung(rung, candidate, adapter))

    def _rung(
        self, row: Row, candidate: Candidate, reference: Candidate, equivalence: float, lower: float | None
    ) -> Rung:
        memory = row.figures.get(_MEMORY)
        figures = {"accuracy": row.figures.get(_ACCURACY), "energy": row.figures.get(_ENERGY)}
        return Rung(
            model=candidate.job.entry.full_ref,
            runtime=candidate.job.runtime.name,
            equivalence=equivalence,
            equivalence_lower=lower,
            profile=self._profile(row.key, candidate, reference),
            memory_bytes=None if memory is None else int(memory.value) * self.service.batch.instances,
            figures={name: figure.value for name, figure in figures.items() if figure is not None},
        )

    def _profile(self, key: str, candidate: Candidate, reference: Candidate) -> LatencyProfile:
        known = self._profiles.get((key, candidate.job.stack.fingerprint))
        if known is not None:
            return known
        sizes = profiled_sizes(self.service.batch.size)
        fixed = candidate.source.shape[0] if candidate.source.shape else None
        profile = ensure_profile(
            self.store, candidate.job, candidate.run, sizes if fixed is None else (fixed,), self.progress,
            settings=None if self._built else self.latency,
        )  # fmt: skip
        threads = candidate.job.options.threads or 1
        profile = with_contention(profile, self.service.batch.instances, threads, available_cores())
        sample = sample_input(self.service, candidate.input)
        if sample is not None:
            adapter = adapter_between(self.service, reference, candidate)
            profile = with_preparation(profile, preparation_seconds(lambda: adapter.feeds(sample)))
        self._profiles[key, candidate.job.stack.fingerprint] = profile
        return profile

    def _no_cheaper_than(self, rung: Rung, others: Sequence[Rung]) -> Rung | None:
        """A more equivalent rung that costs no more in any way that matters: then nobody would ever choose this one."""
        largest = self.service.batch.size
        for other in others:
            quicker = any(rung.profile.of(size) < _CHEAPER * other.profile.of(size) for size in {1, largest})
            smaller = (
                rung.memory_bytes is not None
                and other.memory_bytes is not None
                and rung.memory_bytes < _CHEAPER * other.memory_bytes
            )
            ours, theirs = rung.figures.get("energy"), other.figures.get("energy")
            thriftier = ours is not None and theirs is not None and ours < _CHEAPER * theirs
            if not quicker and (self.service.policy_name == "latency" or not (smaller or thriftier)):
                return other
        return None

    def _add_fallback(
        self,
        name: str,
        reference: Candidate,
        kept: list[ServableRung],
        excluded: list[Excluded],
    ) -> None:
        """The named model as the last rung, with the equivalence that was measured of it, however low."""
        full_name = find(name).full_ref
        if any(servable.candidate.job.entry.full_ref == full_name for servable in kept):
            return
        excluded[:] = [other for other in excluded if other.model != full_name]
        added = self._named(name, "fallback", reference)
        better = added.rung.equivalence
        behind = [place for place, servable in enumerate(kept) if place and servable.rung.equivalence < better]
        kept.insert(behind[0] if behind else len(kept), added)

    def _place_of(
        self,
        name: str,
        role: str,
        reference: Candidate,
        kept: Sequence[ServableRung],
        extra: list[ServableRung],
    ) -> int:
        """The number of a named model's rung; one behind the ladder is made for it where it has none."""
        full_name = find(name).full_ref
        for place, servable in enumerate((*kept, *extra)):
            if servable.candidate.job.entry.full_ref == full_name:
                return place
        extra.append(self._named(name, role, reference))
        return len(kept) + len(extra) - 1

    def _named(self, name: str, role: str, reference: Candidate) -> ServableRung:
        entry = find(name)
        answer = self._ask(0.0, where=f"name = '{entry.manifest.name}'")
        matches = [match for match in answer.matches if match.ref == entry.full_ref and match.equivalence is not None]
        if not (answer.exact and matches):
            raise ServiceError(
                f"The {role} {name} of the service {self.name} was not measured on {answer.dataset}.",
                hint=f"Measure it: zoolens eval {name} --data DATA.",
            )
        row = matches[0].row
        try:
            candidate = self._examine(row)
            adapter = adapter_between(self.service, reference, candidate)
        except (ZoolensError, NotConvertible) as error:
            raise ServiceError(
                f"The {role} {name} of the service {self.name} cannot answer for it: {_reason(error)}"
            ) from error
        equivalence = float(matches[0].equivalence or 0.0)
        lower = matches[0].equivalence_lower
        return ServableRung(self._rung(row, candidate, reference, equivalence, lower), candidate, adapter)

    def _was_disturbed(self, candidate: Candidate) -> bool:
        timings, sizes = stored_timings(self.store, candidate.job), profiled_sizes(self.service.batch.size)
        return any(timings[size].disturbed for size in sizes if size in timings)

    def _notes(self, kept: Sequence[ServableRung]) -> Iterator[str]:
        if len(kept) == 1:
            yield "No model can stand in for the reference: the service cannot switch."
        busy = [rung.model for rung, candidate, _ in kept if self._was_disturbed(candidate)]
        if busy:
            yield (
                f"{', '.join(busy)} {'was' if len(busy) == 1 else 'were'} timed while the machine was busy: "
                "the quickest tenth of the calls counts. What is observed while serving corrects it."
            )
        for rung, candidate, _ in kept:
            measured, here = candidate.run.stack.version, candidate.job.stack.version
            if measured != here:
                yield (
                    f"{rung.model} was measured with {rung.runtime} {measured} and is served by {here}: "
                    "how equivalent it is was not measured with this version."
                )


def _excluded(row: Row, reason: str) -> Excluded:
    return Excluded(row.ref, str(row.runtime), reason)


def _reason(error: BaseException) -> str:
    text = error.message if isinstance(error, ZoolensError) else first_line(error)
    text = f"{text[:1].upper()}{text[1:]}"
    return text if text.endswith(".") else f"{text}."
