"""A ladder that was frozen: a file with the tiers of a service and their figures, which is served as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from zoolens.base.safety.untrusted import read_text
from zoolens.base.store.records import fingerprint
from zoolens.faces.serving.contracts.ladder import LatencyProfile, Rung
from zoolens.faces.serving.services.definition import Service, ServiceError
from zoolens.faces.serving.services.service_ladder import ServiceLadder
from zoolens.inventory.tasks.task import Task

VERSION: Final = 1
_MAX_BYTES: Final = 1 << 22  # far more than the tiers of many services take
_DECIDING: Final = (
    "reference", "runtime", "within", "confidence", "data", "bounds", "where", "input", "output", "rungs",
    "objectives",
)  # fmt: skip


class _FrozenRung(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    model: str
    runtime: str
    run: str
    equivalence: float = Field(ge=0, le=1)
    equivalence_lower: float | None
    seconds: dict[int, float] = Field(min_length=1)
    low: dict[int, float]
    high: dict[int, float]
    memory_bytes: int | None
    figures: dict[str, float]
    equivalence_least: float | None = Field(default=None, ge=0, le=1)


class _FrozenService(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    definition: str
    query: str
    rungs: list[_FrozenRung] = Field(min_length=1, max_length=64)


class _FrozenFile(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    zoolens_ladders: int = Field(ge=VERSION, le=VERSION)
    services: dict[str, _FrozenService]


@dataclass(frozen=True)
class HeldRung:
    """A tier as it was when the ladder was frozen, and the run that its answers were measured in."""

    rung: Rung
    run: str


@dataclass(frozen=True)
class FrozenLadder:
    path: Path
    rungs: tuple[HeldRung, ...]


def frozen_data(ladders: Mapping[str, ServiceLadder]) -> dict[str, Any]:
    """What a file of frozen ladders holds, ready for JSON."""
    return {
        "zoolens_ladders": VERSION,
        "services": {
            name: {
                "definition": _definition(built.service),
                "query": built.query,
                "rungs": [
                    _rung_data(rung, candidate.run.id)
                    for rung, candidate in zip(built.ladder.rungs, built.candidates, strict=True)
                ],
            }
            for name, built in ladders.items()
        },
    }


def _rung_data(rung: Rung, run: str) -> dict[str, Any]:
    least = {} if rung.equivalence_least is None else {"equivalence_least": rung.equivalence_least}
    return {
        **least,
        "model": rung.model,
        "runtime": rung.runtime,
        "run": run,
        "equivalence": rung.equivalence,
        "equivalence_lower": rung.equivalence_lower,
        "seconds": dict(rung.profile.seconds),
        "low": dict(rung.profile.low),
        "high": dict(rung.profile.high),
        "memory_bytes": rung.memory_bytes,
        "figures": dict(rung.figures),
    }


def read_frozen(path: Path, name: str, service: Service) -> FrozenLadder:
    """The ladder of a service. A ServiceError where the file has none, or one for another definition."""
    try:
        held = _FrozenFile.model_validate_json(read_text(path, _MAX_BYTES))
    except OSError as error:
        raise ServiceError(f"The ladder {path} cannot be read: {error.strerror or error}.") from error
    except (ValidationError, UnicodeDecodeError) as error:
        raise ServiceError(
            f"{path} holds no ladders.", hint="Write it with `zoolens serve FILE --check --freeze LADDER`."
        ) from error
    if name not in held.services:
        raise ServiceError(f"{path} has no ladder for the service {name}; it has {', '.join(held.services)}.")
    frozen = held.services[name]
    if frozen.definition != _definition(service):
        raise ServiceError(
            f"The ladder of the service {name} in {path} was frozen for another definition.",
            hint="Freeze it again: zoolens serve FILE --check --freeze LADDER.",
        )
    return FrozenLadder(path, tuple(HeldRung(_rung(rung), rung.run) for rung in frozen.rungs))


def check_promises(frozen: FrozenLadder, name: str, task: Task) -> None:
    """A ServiceError where bounds were made from the most that the agreement can be."""
    if task.agreement_is_exact or all(held.rung.equivalence_least is not None for held in frozen.rungs[1:]):
        return
    raise ServiceError(
        f"The ladder of the service {name} in {frozen.path} was frozen by an older zoolens, which promised too much.",
        hint="Freeze it again: zoolens serve FILE --check --freeze LADDER.",
    )


def _rung(held: _FrozenRung) -> Rung:
    profile = LatencyProfile(held.seconds, held.low, held.high)
    agreement = held.equivalence, held.equivalence_lower
    return Rung(held.model, held.runtime, *agreement, profile, held.memory_bytes, held.figures, held.equivalence_least)


def _definition(service: Service) -> str:
    """What decides who is a tier: a ladder that was frozen for something else would break the promise."""
    parts = service.model_dump(mode="json", include={*_DECIDING})
    # How equivalent a tier is was measured with this reference and these inputs: for others nothing in the file holds.
    texts = [] if service.texts is None else [service.texts.prompt, service.texts.answer]
    return fingerprint([parts, service.policy_name, service.batch.size, service.batch.instances, *texts])[:16]
