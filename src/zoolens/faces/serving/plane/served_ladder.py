"""The ladder of an endpoint while it serves: the state of its tiers, and which of them may answer a request."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.messages import InferRequest
from zoolens.faces.serving.contracts.adapter import Adapter
from zoolens.faces.serving.plane.pool import Slot
from zoolens.faces.serving.plane.rungs import RungState, accepted_rungs
from zoolens.faces.serving.plane.service_spec import ServiceSpec
from zoolens.faces.serving.plane.signature import ModelSignature
from zoolens.faces.serving.plane.timing import ScaledTiming, Timing
from zoolens.faces.serving.policies.policy import Policy

log = logging.getLogger("zoolens.serving")


class ServedLadder:
    """The tiers of a service, the reference first. `choosable` are the numbers of those that the policy may choose;
    `current` is the one that it chose last. `changed` is called whenever a model of the ladder is opened or closed."""

    policy: Policy
    rungs: list[RungState]
    choosable: frozenset[int]
    converts: bool  # whether the inputs of a tier take time to convert

    def __init__(self, spec: ServiceSpec, slots: Sequence[Slot], changed: Callable[[], None]) -> None:
        self.name = spec.name
        self.current = 0
        self._signature, self._route = spec.signature, spec.route
        self._changed = changed
        self.rungs = []
        self.replace(spec, slots, watch=True)

    def replace(self, spec: ServiceSpec, slots: Sequence[Slot], *, watch: bool) -> None:
        """Take the tiers and the policy of another ladder. What is known of a model that it has, too, is kept.
        `watch`: whether changes of its models are still of interest."""
        old = {_key(state): state for state in self.rungs}
        current = _key(self.rungs[self.current]) if self.rungs else None
        self.unwatch()
        self.policy = spec.policy
        self.rungs = []
        for place, (rung, slot) in enumerate(zip((*spec.ladder.rungs, *spec.extra), slots, strict=True)):
            timing = Timing(rung.profile.seconds) if spec.texts is None else ScaledTiming(rung.profile)
            state = RungState(place, rung, slot, _converting(spec, place), timing)
            known = old.get(_key(state))
            if known is not None:
                state.timing, state.requests = known.timing, known.requests
            self.rungs.append(state)
            if watch:
                slot.watchers.append(self._changed)
        self.converts = any(state.adapter is not None and not state.adapter.quick for state in self.rungs)
        self.choosable = frozenset(range(len(spec.ladder.rungs)))
        self.current = next((state.place for state in self.rungs if _key(state) == current), 0)

    def unwatch(self) -> None:
        """Leave the pool's slots: nobody is told any more when they change."""
        for state in self.rungs:
            if self._changed in state.slot.watchers:
                state.slot.watchers.remove(self._changed)

    @property
    def signature(self) -> ModelSignature:
        """What clients may send. A ServingError while no model has said so yet."""
        if self._signature is not None:
            return self._signature
        signature = self.rungs[0].slot.signature
        if signature is None:
            raise self.unavailable()
        return signature

    @property
    def ready(self) -> bool:
        """Whether requests are answered, if need be after a model that was closed to save memory is opened again."""
        slots = (self.rungs[place].slot for place in self.choosable)
        return any(slot.ready or (slot.problem is None and slot.evictions) for slot in slots)

    @property
    def available(self) -> frozenset[int]:
        """The tiers that can take a batch now, or after one that runs."""
        return frozenset(state.place for state in self.rungs if state.available)

    @property
    def complaint(self) -> str:
        """Which tiers cannot answer, and why; empty where all can, or are not open yet."""
        problems = ((state.rung.model, state.slot.problem) for state in self.rungs)
        return " ".join(f"{model} cannot answer: {problem.message}" for model, problem in problems if problem)

    def missing_before(self, place: int, allowed: frozenset[int]) -> RungState | None:
        """The best tier above this one that could have answered, had it not failed."""
        for state in self.rungs[:place]:
            if state.place in allowed and state.slot.problem is not None:
                return state
        return None

    def unavailable(self, rungs: Sequence[RungState] | None = None) -> ServingError:
        """Why none of these tiers, or none at all, can answer."""
        states = self.rungs if rungs is None else rungs
        problems = [state.slot.problem for state in states if state.slot.problem is not None]
        reason = problems[0].message if problems else "it is not loaded."
        return ServingError(Refusal.UNAVAILABLE, f"Model '{self.name}' cannot answer: {reason}")

    def accepted(self, request: InferRequest) -> frozenset[int]:
        """The tiers that may answer a request."""
        accepted = accepted_rungs(self.name, request, self.rungs, self.choosable)
        if self._route is not None and accepted is self.choosable:
            place = self._route(request)
            if place is not None and place < len(self.rungs):
                return frozenset((place,))
        return accepted

    def served(self, state: RungState, rows: int, seconds: float) -> None:
        """Remember how long a batch took, for predictions and for the policy."""
        state.timing.add(rows, seconds)
        # The ladder may have been replaced.
        if state.place in self.choosable and self.rungs[state.place] is state:
            try:
                self.policy.served(state.place, rows, seconds)
            except Exception:
                # An error of a plug-in: the answers are there all the same.
                log.exception("the policy %s failed", self.policy.name)


def _key(state: RungState) -> tuple[str, str]:
    return state.rung.model, state.rung.runtime


def _converting(spec: ServiceSpec, place: int) -> Adapter | None:
    """The adapter of a tier; None where it would change nothing."""
    adapter = spec.adapters[place] if spec.adapters else None
    return None if adapter is None or type(adapter) is Adapter else adapter
