"""One service while it is served: it watches its endpoint, records what happens, and asks other models as well."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

import numpy as np

from zoolens import plugins
from zoolens.protocol.errors import Refusal, ServingError
from zoolens.protocol.messages import InferRequest, Tensor
from zoolens.serving.ladder import Rung
from zoolens.serving.observer import BatchReport
from zoolens.serving.plane.data_plane import Plane, ServiceSpec
from zoolens.serving.plane.endpoint import Endpoint
from zoolens.serving.plane.rungs import RungState
from zoolens.serving.plane.settings import EndpointSettings, ModelSpec
from zoolens.serving.plane.signature import Signature
from zoolens.serving.policies.base import Policy
from zoolens.serving.services.comparison import Classes, Pair, answered_classes
from zoolens.serving.services.events import Answered, Entry, Event, EventKind, Kept, Recorder
from zoolens.serving.services.labels import AnsweredRequest, AnswerMemory, OtherAnswer
from zoolens.serving.services.ladder_query import ServiceLadder
from zoolens.serving.services.shadowing import Question, Shadow

_OPENING: Final = 60.0  # seconds that the start waits for stand-ins
_FLUSH: Final = 60.0  # seconds between two rows of counts
_FEWEST_COMPARED: Final = 30  # comparisons before a promise is judged
_FEWEST_TIMED: Final = 100  # requests before the latency objective is judged
_OUR_REFUSALS: Final = (Refusal.OVERLOADED, Refusal.TOO_LATE, Refusal.UNAVAILABLE, Refusal.INTERNAL)
_HASHES: Final = 1 << 32  # different hashes of four bytes, for splitting

log = logging.getLogger("zoolens.serving")


class HostedService:
    """Belongs to the event loop. `broken` is called with model, runtime and reason of a rung that broke its promise and
    is to be taken off the ladder. `flush`: seconds between two records of how many requests were answered."""

    def __init__(
        self,
        name: str,
        plane: Plane,
        built: ServiceLadder,
        events: Recorder,
        *,
        seed: int | None = None,
        flush: float = _FLUSH,
    ) -> None:
        self.name = name
        self.built = built
        self.service = built.service
        self.broken: Callable[[str, str, str], None] = lambda model, runtime, reason: None
        self.pairs: dict[tuple[str, str], Pair] = {}
        self.answered_by: dict[tuple[str, str], tuple[int, int]] = {}  # requests and rows since the start
        self.switches = 0
        self._last = built.ladder.reference  # who answered the last batch for which the policy was free to choose
        self._timed = self._in_time = self._refused = self._all_timed = self._all_in_time = 0
        self._objective_broken = False
        self._plane = plane
        self._events = events
        self._flush_seconds = flush
        self._endpoint: Endpoint | None = None
        self._policy = self._new_policy(built)
        self._shadow = Shadow(self._ask, seed)
        self._compared: dict[tuple[str, str], tuple[int, int, int]] = {}  # what was recorded of each pair last
        self._uncounted: dict[tuple[str, str], tuple[int, int]] = {}
        self._answers = AnswerMemory()
        self._warned: set[tuple[str, str]] = set()
        self._tasks: set[asyncio.Task[Any]] = set()

    # --- the endpoint

    @property
    def endpoint(self) -> Endpoint:
        assert self._endpoint is not None, "start it first"
        return self._endpoint

    async def start(self) -> None:
        self._endpoint = await self._plane.add_service(self._spec(self.built, self._policy))
        if self.service.splits or self.service.shadow is not None or self.service.promise.share > 0:
            for state in self._endpoint.rungs[len(self.built.ladder.rungs) :]:
                self._preload_if_room(state)
        await self._open_stand_ins(self._endpoint)
        self.record(Event(EventKind.START, self._described(self.built), model=self.built.ladder.reference.model))
        self.spawn(self._flush())

    async def _open_stand_ins(self, endpoint: Endpoint) -> None:
        """Open the next rung and the quickest one before the first request: a burst must not wait for them, nor share
        the processor with their opening. What does not fit into the memory, or cannot be opened, is left for later."""
        if self.service.policy_name == "fixed" or len(self.built.ladder.rungs) < 2:
            return
        rungs = self.built.ladder.rungs
        quickest = min(range(len(rungs)), key=lambda place: rungs[place].profile.of(self.service.batch.size))
        states = [endpoint.rungs[place] for place in dict.fromkeys((1, quickest)) if place]
        for state in states:
            self._preload_if_room(state)
        waiting = [state.slot.loading for state in states if state.slot.loading is not None]
        if waiting:
            await asyncio.wait(waiting, timeout=_OPENING)

    async def close(self) -> None:
        await self._shadow.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.write_counts()
        if self._endpoint is not None:
            self.record(Event(EventKind.STOP, "The service has ended."))
        self._policy.close()

    def replace(self, built: ServiceLadder, reason: str) -> bool:
        """Serve another ladder, unless it is the same. Whether it was another."""
        if built.identity == self.built.identity or self._endpoint is None:
            return False
        if (built.inputs, built.outputs) != (self.built.inputs, self.built.outputs):
            reason = "The reference takes or gives other tensors now: start the server again."
            self.record(Event(EventKind.LADDER, reason))
            log.warning("service %s keeps its ladder: its reference takes or gives other tensors now", self.name)
            return False
        policy = self._new_policy(built)
        spec = self._spec(built, policy)
        slots = self._plane.slots(spec)
        # Nothing has changed as long as anything can fail: numbers of rungs belong to both, this and the endpoint.
        self.write_counts()
        self._forget_changed(built)
        old, self._policy, self.built = self._policy, policy, built
        self._endpoint.replace_ladder(spec.ladder, policy, slots, spec.adapters, spec.extra, labels=spec.labels)
        old.close()
        self.record(Event(EventKind.LADDER, f"{reason} {self._described(built)}"))
        log.info("service %s has another ladder: %s", self.name, reason)
        return True

    def _forget_changed(self, built: ServiceLadder) -> None:
        """Drop what was found out about models that have another content, or another promise, by now."""
        before, after = self.built.by_model, built.by_model
        changed = {model for model in before.keys() | after.keys() if before.get(model) != after.get(model)}
        self.pairs = {key: pair for key, pair in self.pairs.items() if not changed & set(key)}
        self._warned = {key for key in self._warned if key[0] not in changed}

    def _new_policy(self, built: ServiceLadder) -> Policy:
        policy: type[Policy] = plugins.load(plugins.POLICIES, self.service.policy_name)
        return policy(built.ladder, self.service.policy_settings)

    def _spec(self, built: ServiceLadder, policy: Policy) -> ServiceSpec:
        service = self.service
        latency = service.objectives.latency
        one_row = any(candidate.source.shape and candidate.source.shape[0] == 1 for candidate in built.all_candidates)
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
            signature=Signature(built.inputs, built.outputs, True, 1 if one_row else service.batch.size),
            settings=EndpointSettings(
                max_batch=service.batch.size,
                max_delay=service.batch.delay,
                concurrency=service.batch.instances,
                objective=None if latency is None else latency.bound,
                shed_late=service.fallback != "best effort",
            ),
            observers=[self],
            feedback=self.feedback,
            config={"zoolens_output": service.output},
            extra=built.extra,
            route=self._route if service.splits else None,
            labels={built.outputs[0].name: built.output_labels},
        )

    def _described(self, built: ServiceLadder) -> str:
        rungs = ", ".join(f"{rung.model} ({rung.equivalence:.1%})" for rung in built.ladder.rungs)
        return f"The ladder is {rungs}."

    # --- what happens

    def record(self, entry: Entry) -> None:
        self._events.record(self.name, entry)

    def answered(self, report: BatchReport) -> None:
        rung = report.answered_by
        if rung is None:
            return
        key = (rung.model, rung.runtime)
        if self.service.objectives.latency is not None:
            bound = self.service.objectives.latency.bound
            self._timed += len(report.waited)
            self._in_time += sum(waited + report.seconds <= bound for waited in report.waited)
        for counts in (self.answered_by, self._uncounted):
            requests, rows = counts.get(key, (0, 0))
            counts[key] = requests + len(report.requests), rows + sum(report.rows)
        if report.free:
            self._note_switch(report, rung)
        self._look_closer(report, rung)

    def _note_switch(self, report: BatchReport, rung: Rung) -> None:
        """Compare with who answered before: a batch that failed, or a ladder that was replaced, hides no switch."""
        before, self._last = self._last, rung
        if (before.model, before.runtime) != (rung.model, rung.runtime):
            self.switches += 1
            self.record(Event(EventKind.SWITCH, report.reason, rung.model, before.model, report.waiting))

    def refused(self, endpoint: str, request: InferRequest, reason: str) -> None:
        """Refusals are counted by the endpoint."""

    async def _flush(self) -> None:
        while True:
            await asyncio.sleep(self._flush_seconds)
            self.write_counts()

    def write_counts(self) -> None:
        """Record what was answered, and what was found out, since the last time."""
        self._write_objective()
        counts, self._uncounted = self._uncounted, {}
        for (model, runtime), (requests, rows) in counts.items():
            self.record(Answered(model, runtime, requests, rows))
        for key, pair in self.pairs.items():
            state = (pair.compared_requests, pair.labelled, pair.dropped)
            if state != self._compared.get(key, (0, 0, 0)):
                self._compared[key] = state
                self.record(pair.compared())

    def _write_objective(self) -> None:
        latency = self.service.objectives.latency
        if latency is None or self._endpoint is None:
            return
        refusals = self._endpoint.counters.refusals
        refused = sum(refusals.get(refusal, 0) for refusal in _OUR_REFUSALS)
        requests, within, before = self._timed, self._in_time, self._refused
        self._timed, self._in_time, self._refused = 0, 0, refused
        self._all_timed += requests + refused - before
        self._all_in_time += within
        share = self._all_in_time / max(1, self._all_timed)
        if not self._objective_broken and self._all_timed >= _FEWEST_TIMED and share < latency.percentile / 100:
            self._objective_broken = True
            self.record(
                Event(
                    EventKind.OBJECTIVE,
                    f"{share:.1%} of {self._all_timed:,} requests were answered within {latency.bound * 1e3:.4g} ms, "
                    f"but {latency.percentile:.4g} % should be.",
                )
            )
        if requests or refused > before:
            self.record(Kept(requests, within, refused - before, latency.bound, latency.percentile))

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a task of the service %s failed", self.name, exc_info=error)

    # --- A/B: who answers a request

    def _route(self, request: InferRequest) -> int | None:
        """The rung of the arm that a request belongs to, first by its headers; None where it belongs to none."""
        splits, arms = self.service.splits, self.built.arms
        for split in splits:
            if split.header is not None and request.headers.get(split.header.name.lower()) == split.header.value:
                return arms[split.model]
        place = hashed_share(self.name, _sticky_key(request, self.service.sticky))
        begin = 0.0
        for split in splits:
            weight = split.weight or 0.0
            if begin <= place < begin + weight:
                return arms[split.model]
            begin += weight
        return None

    # --- shadow: who else is asked

    def _look_closer(self, report: BatchReport, rung: Rung) -> None:
        """Draw from the requests of a batch those that other models are asked about as well."""
        others = self._also_asked(rung)
        if not (others or self._remembers):
            return
        output = next(iter(report.outputs.values()))
        start = 0
        for request, rows in zip(report.requests, report.rows, strict=True):
            end = start + rows
            tickets = ((other, self._shadow.drawn(share)) for other, share in others)
            drawn = [(other, ticket) for other, ticket in tickets if ticket is not None]
            if drawn or (self._remembers and request.id):
                classes = answered_classes(output[start:end])
                entry = self._answers.add(request.id, rung.model, classes) if self._remembers else None
                inputs = {name: np.array(tensor[start:end]) for name, tensor in report.inputs.items()} if drawn else {}
                for other, ticket in drawn:
                    self._shadow.offer(self._question(entry, rung, other, inputs, classes, ticket))
            start = end

    def _also_asked(self, rung: Rung) -> list[tuple[Rung, float]]:
        """Which rungs are asked about an answer of this one, and about which share of its answers; none are where the
        policy saves energy or computing time."""
        if self._policy.saves_work:
            return []
        service, reference = self.service, self.built.ladder.reference
        others: dict[str, tuple[Rung, float]] = {}
        if rung.model != reference.model and service.promise.share > 0:
            others[reference.model] = (reference, service.promise.share)
        if service.splits and rung.model != reference.model and rung.model in self.built.arm_models:
            others[reference.model] = (reference, 1.0)
        if service.shadow is not None and self.built.shadow is not None and self.built.shadow.model != rung.model:
            others[self.built.shadow.model] = (self.built.shadow, service.shadow.share)
        return list(others.values())

    @property
    def _remembers(self) -> bool:
        """Whether answers are kept until labels come back."""
        return bool(self.service.splits or self.service.shadow)

    def _question(
        self,
        entry: AnsweredRequest | None,
        rung: Rung,
        other: Rung,
        inputs: Mapping[str, Tensor],
        classes: Classes,
        ticket: float,
    ) -> Question:
        key = (rung.model, other.model)
        pair = self.pairs.setdefault(key, Pair(*key))

        def done(outputs: Mapping[str, Tensor]) -> None:
            others = answered_classes(next(iter(outputs.values())))
            if len(others) != len(classes) or self.pairs.get(key) is not pair:
                return  # one of the two is another model by now
            pair.add(classes, others, ticket)
            if entry is not None:
                entry.others[other.model] = OtherAnswer(others, ticket)
                self._count_labels(entry, other.model)
            self._judge(rung, pair)

        def dropped() -> None:
            pair.dropped += 1

        return Question((other.model, other.runtime), inputs, done, dropped, time.monotonic(), pair, ticket)

    async def _ask(self, wanted: tuple[str, str], inputs: Mapping[str, Tensor]) -> Mapping[str, Tensor] | None:
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

    def _judge(self, rung: Rung, pair: Pair) -> None:
        """Hold what was measured while serving against what the query promised of a rung."""
        key = (rung.model, rung.runtime)
        promised = rung.equivalence if rung.equivalence_lower is None else rung.equivalence_lower
        if pair.other != self.built.ladder.reference.model or key in self._warned or pair.n < _FEWEST_COMPARED:
            return
        high = pair.agreement_interval.high
        if high >= promised:
            return
        self._warned.add(key)
        reason = (
            f"{rung.model} agrees with the reference on {pair.agreement:.1%} of {pair.n:,} requests "
            f"(at most {high:.1%}), but {promised:.1%} was promised."
        )
        log.warning("service %s: %s", self.name, reason)
        self.record(Event(EventKind.PROMISE, reason, rung.model))
        if self.service.promise.violated == "remove":
            self.broken(rung.model, rung.runtime, reason)

    # --- labels

    async def feedback(self, labels: Mapping[str, Any]) -> int:
        """True classes by request id, each a class's name or number, or a list of them. How many ids were known.

        All labels are read before any counts: a wrong one among them changes nothing.
        """
        if not self._remembers:
            raise ServingError(
                Refusal.UNSUPPORTED,
                f"Service '{self.name}' takes no feedback: it has no split and no shadow, so answers are not kept.",
            )
        truths = {request_id: self._classes(label) for request_id, label in labels.items()}
        for request_id, truth in truths.items():
            entry = self._answers.get(request_id)
            if entry is not None and len(entry.classes) != len(truth):
                raise ServingError(
                    Refusal.INVALID,
                    f"Request {request_id[:60]!r} had {len(entry.classes)} inputs, but {len(truth)} labels were given.",
                )
        known = 0
        for request_id, truth in truths.items():
            entry = self._answers.take(request_id)
            if entry is not None:
                known += 1
                entry.truth = truth
                for other in entry.others:
                    self._count_labels(entry, other)
        return known

    def _count_labels(self, entry: AnsweredRequest, other: str) -> None:
        """Count a request whose true classes are known and which two models have answered."""
        pair, answer = self.pairs.get((entry.model, other)), entry.others[other]
        if pair is not None and entry.truth is not None and len(answer.classes) == len(entry.truth):
            pair.add_labels(entry.classes.astype(np.int64), answer.classes, entry.truth, answer.ticket)

    def _classes(self, label: Any) -> Classes:
        several = label if isinstance(label, list) else [label]
        return np.array([self._class(one) for one in several], np.int64)

    def _class(self, label: Any) -> int:
        count = self.built.outputs[0].shape[-1]
        if isinstance(label, int) and not isinstance(label, bool) and 0 <= label < count:
            return label
        place = next((index for index, name in self.built.output_labels.items() if name == label), None)
        if isinstance(label, str) and place is not None:
            return place
        raise ServingError(
            Refusal.INVALID,
            f"{str(label)[:60]!r} is no class of service '{self.name}': give a number below {count} or a class's name.",
        )


def hashed_share(service: str, key: str) -> float:
    """A number from 0 to 1 that is always the same for the same key."""
    digest = hashlib.blake2b(f"{service}\0{key}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") / _HASHES


def _sticky_key(request: InferRequest, header: str | None) -> str:
    """What a request is split by: the named header where it has one, else its id, else chance."""
    value = request.headers.get(header.lower()) if header else None
    return value or request.id or str(time.perf_counter_ns())
