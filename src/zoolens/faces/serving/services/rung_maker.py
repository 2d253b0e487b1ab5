"""Opens the models that may serve, and makes tiers of them: with their times, their figures and an adapter."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from zoolens.base.engine.machine import available_cores
from zoolens.base.errors import ZoolensError, first_line
from zoolens.base.progress import Progress
from zoolens.base.protocol.messages import Tensor
from zoolens.base.store.store import Store
from zoolens.faces.serving.contracts.adapter import Adapter
from zoolens.faces.serving.contracts.ladder import LatencyProfile, Rung
from zoolens.faces.serving.services.candidates import Candidate, Example, examine, file_states, quality_name
from zoolens.faces.serving.services.definition import Service, ServiceError
from zoolens.faces.serving.services.preparation import ensure_preparation, with_preparation
from zoolens.faces.serving.services.profiles import ensure_profile, profiled_sizes, stored_timings, with_contention
from zoolens.faces.serving.services.rung_adapters import adapter_between, sample_input
from zoolens.faces.serving.services.text_profiles import ensure_text_timings, stored_text_timings, text_memory
from zoolens.faces.serving.services.tier_bounds import TierAgreement
from zoolens.findings.index.tables.rows import Row
from zoolens.findings.measure.latency import LatencySettings

_MEMORY: Final = "peak_memory@process"
_ENERGY: Final = "energy@batch=1"

FileStates = tuple[tuple[str, int, int], ...]
Examined = dict[str, tuple[Candidate, FileStates]]


class ServableRung(NamedTuple):
    """A tier with the model that it stands for, and how that is fed with what clients send."""

    rung: Rung
    candidate: Candidate
    adapter: Adapter


@dataclass
class RungMaker:
    """Makes tiers of measured models, and keeps each as long as its files and the way it was measured stay the same."""

    name: str
    service: Service
    store: Store
    progress: Progress
    timing: LatencySettings | None  # how models without stored times are timed; None: they are refused
    stopped: threading.Event  # nobody waits for the ladder any more
    examined: Examined = field(default_factory=dict)
    _profiles: dict[tuple[str, str], LatencyProfile] = field(default_factory=dict)

    def candidate(self, key: str) -> Candidate:
        """Open the model of a run. A ZoolensError says why it cannot be served."""
        if self.stopped.is_set():
            raise ServiceError(f"The service {self.name} ends.")
        runs = self.store.runs_of([key])
        if not runs:
            raise ZoolensError("the store does not hold its evaluation any more.")
        if key in self.examined:
            known, states = self.examined[key]
            if known.run.resolved == runs[0].resolved and states == file_states(known):
                return known
        candidate = examine(runs[0], self.progress)
        self.examined[key] = candidate, file_states(candidate)
        return candidate

    def servable(self, row: Row, agreement: TierAgreement, reference: Candidate | None) -> ServableRung:
        """The tier of a measured model; of the reference itself without `reference`. A ZoolensError or NotConvertible
        says why it can be none."""
        candidate = self.candidate(row.key)
        adapter = adapter_between(self.service, reference or candidate, candidate)
        memory = row.figures.get(_MEMORY)
        size = None if memory is None else memory.value
        figures = {quality_name(candidate.task): row.figures.get(candidate.task.metric or "")}
        texts = self.service.texts
        if texts is None:
            figures["energy"] = row.figures.get(_ENERGY)
        profile = self._profile(row.key, candidate, adapter)
        if texts is not None:
            size = text_memory(self.store, candidate.job, texts)
        rung = Rung(
            model=candidate.job.entry.full_ref,
            runtime=candidate.job.runtime.name,
            equivalence=agreement.equivalence,
            equivalence_lower=agreement.lower,
            equivalence_least=agreement.least,
            profile=profile,
            memory_bytes=None if size is None else int(size) * self.service.batch.instances,
            figures={name: figure.value for name, figure in figures.items() if figure is not None},
        )
        return ServableRung(rung, candidate, adapter)

    def was_disturbed(self, candidate: Candidate) -> bool:
        if self.service.texts is not None:
            found = stored_text_timings(self.store, candidate.job, self.service.texts)
            return found is not None and found.disturbed
        timings = stored_timings(self.store, candidate.job)
        sizes = profiled_sizes(self.service.batch.size)
        return any(timings[size].disturbed for size in sizes if size in timings)

    def _profile(self, key: str, candidate: Candidate, adapter: Adapter) -> LatencyProfile:
        known = self._profiles.get((key, candidate.job.stack.fingerprint))
        if known is not None:
            return known
        profile = self._measured(candidate)
        threads = candidate.job.options.threads or 1
        profile = with_contention(profile, self.service.batch.instances, threads, available_cores())
        sample = None if self.service.texts is not None else sample_input(self.service, candidate)
        if sample is not None:
            convert = partial(_convert, adapter, sample, candidate.example)
            prepared = ensure_preparation(self.store, candidate, self.service.input, convert, self.timing)
            profile = with_preparation(profile, prepared)
        self._profiles[key, candidate.job.stack.fingerprint] = profile
        return profile

    def _measured(self, candidate: Candidate) -> LatencyProfile:
        """What was measured of the model alone: of batches, or of texts."""
        if self.service.texts is not None:
            timings = ensure_text_timings(
                self.store, candidate.job, candidate.run, self.service.texts, self.progress, self.timing
            )
            return timings.profile(self.service.texts.answer)
        sizes = profiled_sizes(self.service.batch.size)
        fixed = candidate.source.shape[0] if candidate.source.shape else None
        wanted = (1,) if candidate.one_row else sizes if fixed is None else (fixed,)
        return ensure_profile(self.store, candidate.job, candidate.run, wanted, self.progress, settings=self.timing)


def _convert(adapter: Adapter, sample: Mapping[str, Tensor], example: Example) -> None:
    """All that the server itself does for one input: it is prepared, and an answer of the model is read."""
    adapter.feeds(sample)
    if example.answers:
        adapter.outputs(example.answers, example.memos)


def as_reason(error: BaseException) -> str:
    """Why a model cannot serve, as a sentence."""
    text = error.message if isinstance(error, ZoolensError) else first_line(error)
    text = f"{text[:1].upper()}{text[1:]}"
    return text if text.endswith(".") else f"{text}."
