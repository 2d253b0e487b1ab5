"""The tiers of a ladder while they serve: where each is in the pool, how long it takes, which ones a client accepts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.messages import InferRequest, Parameter
from zoolens.faces.serving.contracts.adapter import Adapter
from zoolens.faces.serving.contracts.ladder import Rung
from zoolens.faces.serving.plane.pool import Slot
from zoolens.faces.serving.plane.served_model import OpenModel
from zoolens.faces.serving.plane.timing import Timing
from zoolens.inventory.catalog.names import bare

_PARAMETERS: Final = frozenset({"zoolens_model", "zoolens_min_equivalence"})  # by which clients choose among tiers
_HEADERS: Final = frozenset(name.replace("_", "-") for name in _PARAMETERS)


@dataclass
class RungState:
    """A tier while serving. `adapter` is None where the model takes and gives what clients send and expect."""

    place: int
    rung: Rung
    slot: Slot
    adapter: Adapter | None
    timing: Timing
    requests: int = 0  # that it has answered
    _parameters: dict[str, Parameter] = field(default_factory=dict)
    _described: OpenModel | None = None

    @property
    def available(self) -> bool:
        """Whether it can take a batch now, or after one that runs."""
        model = self.slot.model
        return (
            model is not None
            and not self.slot.leaving
            and any(instance.idle or instance.busy for instance in model.instances)
        )

    def predict(self, rows: int) -> float | None:
        """Seconds for a batch, as far as they are known: measured while serving, in the ladder, or at opening."""
        seconds = self.timing.predict(rows)
        model = self.slot.model
        if seconds is None and model is not None and model.verdict.seconds:
            self.timing = Timing(model.verdict.seconds)
            seconds = self.timing.predict(rows)
        return seconds

    def parameters(self, model: OpenModel, service: bool) -> dict[str, Parameter]:
        """What an answer says about the model that gave it. The same dictionary each time: copy it to add to it."""
        if self._described is not model:
            self._described = model
            self._parameters = {"zoolens_model": model.reference, "zoolens_runtime": model.runtime}
            if service:
                self._parameters |= {
                    "zoolens_rung": self.place,
                    "zoolens_equivalence": self.rung.equivalence,
                    "zoolens_switched": self.place != 0,
                }
                if self.rung.equivalence_lower is not None:
                    self._parameters["zoolens_equivalence_lower"] = self.rung.equivalence_lower
        return self._parameters


def accepted_rungs(
    name: str, request: InferRequest, rungs: Sequence[RungState], everything: frozenset[int]
) -> frozenset[int]:
    """The tiers that a client accepts: everything that the policy may choose, unless it pins a model or sets a floor on
    equivalence. Tiers behind those of the policy are there for whoever names them."""
    if _PARAMETERS.isdisjoint(request.parameters) and _HEADERS.isdisjoint(request.headers):
        return everything
    pinned = _asked(request, "zoolens_model", "zoolens-model")
    floor = _asked(request, "zoolens_min_equivalence", "zoolens-min-equivalence")
    if pinned is None:
        allowed = [state for state in rungs if state.place in everything]
    else:
        named = [state for state in rungs if _is_named(state, str(pinned))]
        allowed = [state for state in named if state.place in everything] or named[:1]
    if floor is not None:
        least = _number(floor)
        allowed = [state for state in allowed if state.rung.promised >= least]
    if not allowed:
        known = ", ".join(f"{state.rung.model} ({state.rung.promised:.3g})" for state in rungs)
        raise ServingError(
            Refusal.INVALID,
            f"'{name}' has no model that is as the request asks; its models, with the equivalence that is promised of "
            f"each, are {known}.",
        )
    return frozenset(state.place for state in allowed)


def _asked(request: InferRequest, parameter: str, header: str) -> Parameter | None:
    value = request.parameters.get(parameter)
    return request.headers.get(header) if value is None else value


def _number(value: Parameter) -> float:
    try:
        return float(value)
    except ValueError:
        raise ServingError(Refusal.INVALID, f"zoolens_min_equivalence must be a number; got {value!r}.") from None


def _is_named(state: RungState, wanted: str) -> bool:
    names = {state.rung.model, bare(state.rung.model)}
    if state.slot.model is not None:
        entry = state.slot.model.entry
        names |= {entry.full_ref, entry.ref, entry.manifest.name}
    return wanted in names
