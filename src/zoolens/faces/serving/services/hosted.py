"""One service while it is served: it has an endpoint, watches it, and records what happens."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from zoolens.base.protocol.messages import InferRequest, Tensor
from zoolens.faces.serving.contracts.adapter import Told
from zoolens.faces.serving.contracts.ladder import Rung
from zoolens.faces.serving.contracts.observer import BatchReport
from zoolens.faces.serving.plane.data_plane import Plane
from zoolens.faces.serving.plane.endpoint import Endpoint
from zoolens.faces.serving.plane.plane_settings import EndpointSettings, ModelSpec
from zoolens.faces.serving.plane.rungs import RungState
from zoolens.faces.serving.plane.service_spec import ServiceSpec
from zoolens.faces.serving.plane.signature import ModelSignature
from zoolens.faces.serving.plane.text_request import TextLimits
from zoolens.faces.serving.policies.policy import Policy
from zoolens.faces.serving.services.definition import LatencyObjective, TextSettings
from zoolens.faces.serving.services.events import (
    COUNTED_EVERY,
    AnswerCounts,
    Entry,
    EventKind,
    EventRecorder,
    ServiceEvent,
    counted_again_after,
)
from zoolens.faces.serving.services.ladder_words import described
from zoolens.faces.serving.services.latency_objective import LatencyRecord
from zoolens.faces.serving.services.live_comparison import LiveComparisons
from zoolens.faces.serving.services.service_ladder import ServiceLadder
from zoolens.faces.serving.services.splits import split_rung

_OPENING: Final = 60.0  # seconds that the start waits for fallbacks

log = logging.getLogger("zoolens.serving")


class HostedService:
    """Belongs to the event loop. `broken` is called with model, runtime and reason of a tier that broke its promise and
    is to be taken off the ladder. `flush`: seconds between two records of how many requests were answered."""

    def __init__(
        self,
        name: str,
        plane: Plane,
        built: ServiceLadder,
        events: EventRecorder,
        *,
        seed: int | None = None,
        flush: float = COUNTED_EVERY,
    ) -> None:
        self.name = name
        self.built = built
        self.service = built.service
        self.broken: Callable[[str, str, str], None] = lambda model, runtime, reason: None
        self.answered_by: dict[tuple[str, str], tuple[int, int]] = {}  # requests and rows since the start
        self.switches = 0
        self._last = built.ladder.reference  # who answered the last batch for which the policy was free to choose
        latency = self.service.objectives.latency
        self._latency = None if latency is None else LatencyRecord(latency)
        self._plane = plane
        self._events = events
        self._flush_seconds = flush
        self._endpoint: Endpoint | None = None
        self._policy = built.new_policy()
        self.comparisons = LiveComparisons(name, built, self._ask, self._promise_violated, seed)
        self._uncounted: dict[tuple[str, str], tuple[int, int]] = {}
        # Models of splits that cannot answer now.
        self._left_to_policy: set[str] = set()
        self._tasks: set[asyncio.Task[Any]] = set()

    # --- the endpoint

    @property
    def endpoint(self) -> Endpoint:
        assert self._endpoint is not None, "start it first"
        return self._endpoint

    async def start(self) -> None:
        self._endpoint = await self._plane.add_service(self._spec(self.built, self._policy))
        service = self.service
        if service.splits or service.shadow is not None or service.promise.share > 0:
            behind_the_ladder = self._endpoint.rungs[len(self.built.ladder.rungs) :]
            for state in behind_the_ladder:
                self._preload_if_room(state)
        await self._open_fallbacks(self._endpoint)
        self.record(ServiceEvent(EventKind.START, described(self.built), model=self.built.ladder.reference.model))
        self.spawn(self._flush())

    async def _open_fallbacks(self, endpoint: Endpoint) -> None:
        """Open the next tier and the quickest one before the first request: a burst must not wait for them, nor share
        the processor with their opening. What does not fit into the memory, or cannot be opened, is left for later."""
        if self.service.policy_name == "fixed" or len(self.built.ladder.rungs) < 2:
            return
        rungs = self.built.ladder.rungs
        largest = self.service.largest
        quickest = min(range(len(rungs)), key=lambda place: rungs[place].profile.of(largest))
        states = [endpoint.rungs[place] for place in dict.fromkeys((1, quickest)) if place]
        for state in states:
            self._preload_if_room(state)
        waiting = [state.slot.loading for state in states if state.slot.loading is not None]
        if waiting:
            await asyncio.wait(waiting, timeout=_OPENING)

    async def close(self) -> None:
        await self.comparisons.shadow.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.write_counts()
        if self._endpoint is not None:
            self.record(ServiceEvent(EventKind.STOP, "The service has ended."))
        self._policy.close()

    def replace(self, built: ServiceLadder, reason: str) -> bool:
        """Serve another ladder, unless it is the same. Whether it was another. Models of the same ladder that have
        failed are tried again: their files may be back."""
        if self._endpoint is None:
            return False
        if built.identity == self.built.identity:
            for state in self._endpoint.rungs:
                self._plane.pool.retry(state.slot)
            return False
        if (built.inputs, built.outputs) != (self.built.inputs, self.built.outputs):
            reason = "The reference takes or gives other tensors now: start the server again."
            self.record(ServiceEvent(EventKind.LADDER, reason))
            log.warning("service %s keeps its ladder: its reference takes or gives other tensors now", self.name)
            return False
        if self.service.texts is not None and built.reference_content != self.built.reference_content:
            # Texts that wait are tokens already: another tokenizer or template would read something else in them.
            reason = "The reference that writes texts was replaced: start the server again."
            self.record(ServiceEvent(EventKind.LADDER, reason))
            log.warning("service %s keeps its ladder: its reference was replaced", self.name)
            return False
        policy = built.new_policy()
        spec = self._spec(built, policy)
        slots = self._plane.slots(spec)
        # Nothing has changed as long as anything can fail: numbers of tiers belong to both, this and the endpoint.
        self.write_counts()
        self.comparisons.replace(built)
        old, self._policy, self.built = self._policy, policy, built
        self._endpoint.replace_ladder(spec, slots)
        old.close()
        self.record(ServiceEvent(EventKind.LADDER, f"{reason} {described(built)}"))
        log.info("service %s has another ladder: %s", self.name, reason)
        return True

    def _spec(self, built: ServiceLadder, policy: Policy) -> ServiceSpec:
        service = self.service
        latency = service.objectives.latency
        one_row = any(candidate.one_row for candidate in built.all_candidates)
        texts = None if service.texts is None else _text_limits(service.texts, latency)
        batch = 1 if one_row or texts is not None else service.batch.size
        return ServiceSpec(
            name=self.name,
            ladder=built.ladder,
            policy=policy,
            specs=[
                ModelSpec(
                    candidate.name,
                    candidate.job.runtime.name,
                    candidate.job.options,
                    candidate.environment,
                    content=candidate.job.model.fingerprint,
                )
                for candidate in built.all_candidates
            ],
            adapters=built.all_adapters,
            signature=ModelSignature(built.inputs, built.outputs, texts is None, batch),
            settings=EndpointSettings(
                max_batch=service.batch.size if texts is None else 1,
                max_delay=service.batch.delay,
                concurrency=service.batch.instances,
                objective=None if latency is None else latency.bound,
                shed_late=service.fallback != "best effort",
            ),
            observers=[self],
            feedback=self.comparisons.feedback,
            config={"zoolens_output": service.output if built.answers_classes else built.outputs[0].name},
            extra=built.extra,
            route=self._route if service.splits else None,
            labels={built.outputs[0].name: built.output_labels} if built.answers_classes else {},
            texts=texts,
        )

    # --- what happens

    def record(self, entry: Entry) -> None:
        self._events.record(self.name, entry)

    def answered(self, report: BatchReport) -> None:
        rung = report.answered_by
        if rung is None:
            return
        key = (rung.model, rung.runtime)
        if self._latency is not None:
            self._latency.add(report)
        for counts in (self.answered_by, self._uncounted):
            requests, rows = counts.get(key, (0, 0))
            counts[key] = requests + len(report.requests), rows + sum(report.rows)
        if report.free:
            self._note_switch(report, rung)
        if self.service.texts is None:
            self.comparisons.sample(report, rung, ask_others=not self._policy.saves_work)

    def _note_switch(self, report: BatchReport, rung: Rung) -> None:
        """Compare with who answered before: a batch that failed, or a ladder that was replaced, hides no switch."""
        before, self._last = self._last, rung
        if (before.model, before.runtime) != (rung.model, rung.runtime):
            self.switches += 1
            self.record(ServiceEvent(EventKind.SWITCH, report.reason, rung.model, before.model, report.waiting))

    def refused(self, endpoint: str, request: InferRequest, reason: str) -> None:
        """Refusals are counted by the endpoint."""

    async def _flush(self) -> None:
        began = time.monotonic()
        while True:
            await asyncio.sleep(min(self._flush_seconds, counted_again_after(time.monotonic() - began)))
            self.write_counts()

    def write_counts(self) -> None:
        """Record what was answered, and what was found out, since the last time."""
        if self._latency is not None and self._endpoint is not None:
            for entry in self._latency.entries(self._endpoint.counters.refusals):
                self.record(entry)
        counts, self._uncounted = self._uncounted, {}
        for (model, runtime), (requests, rows) in counts.items():
            self.record(AnswerCounts(model, runtime, requests, rows))
        for compared in self.comparisons.entries():
            self.record(compared)

    def _promise_violated(self, rung: Rung, reason: str) -> None:
        log.warning("service %s: %s", self.name, reason)
        self.record(ServiceEvent(EventKind.PROMISE, reason, rung.model))
        if self.service.promise.violated == "remove":
            self.broken(rung.model, rung.runtime, reason)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a task of the service %s failed", self.name, exc_info=error)

    # --- who answers a request, and who else is asked

    def _route(self, request: InferRequest) -> int | None:
        """The tier of the split that a request belongs to. While that cannot answer, the policy chooses."""
        place = split_rung(self.name, self.service, self.built.arms, request)
        if place is None:
            return None
        state = self.endpoint.rungs[place]
        problem, model = state.slot.problem, state.rung.model
        if problem is None and model not in self._left_to_policy:
            return place
        if state.slot.ready:
            self._left_to_policy.discard(model)
            self.record(ServiceEvent(EventKind.LADDER, f"{model} answers the requests of its split again."))
            return place
        if problem is not None and model not in self._left_to_policy:
            self._left_to_policy.add(model)
            sentence = f"Requests of the split {model} are left to the policy: it cannot answer: {problem.message}"
            self.record(ServiceEvent(EventKind.LADDER, sentence))
            log.warning("service %s: %s", self.name, sentence)
        # Tried again, not more often than every ten seconds.
        self._preload_if_room(state)
        return None

    async def _ask(self, wanted: tuple[str, str], inputs: Mapping[str, Tensor]) -> Told | None:
        for state in self.endpoint.rungs:
            if (state.rung.model, state.rung.runtime) == wanted:
                if not state.slot.ready:
                    self._preload_if_room(state)
                    return None
                return await self.endpoint.answer_in_background(state.place, inputs)
        return None

    def _preload_if_room(self, state: RungState) -> None:
        """Open a model that is only asked in the shadow, unless another one would have to be closed for it."""
        pool, size = self._plane.pool, state.rung.memory_bytes
        if pool.memory_limit is None or (size is not None and pool.may_fit(pool.memory_used + size)):
            pool.preload(state.slot)


def _text_limits(texts: TextSettings, latency: LatencyObjective | None) -> TextLimits:
    """Half of the texts that may be late may be so because they are longer than was expected."""
    if latency is None:
        return TextLimits(texts.prompt, texts.answer)
    return TextLimits(texts.prompt, texts.answer, share=(1 + latency.percentile / 100) / 2)
