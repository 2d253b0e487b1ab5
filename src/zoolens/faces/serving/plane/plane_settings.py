"""What a user may set about serving. The defaults are those of `zoolens serve`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from zoolens.base.errors import ZoolensError
from zoolens.inventory.runtimes.runtime import Options

Batching = Literal["auto", "off", "force"]


@dataclass(frozen=True)
class ModelSpec:
    """A model of the catalog and how it is opened. Endpoints whose rungs have equal specs share the open model."""

    model: str
    runtime: str | None = None
    options: Options = field(default_factory=Options)
    environment: str = ""
    allow_code: bool = False
    content: str | None = None  # fingerprint of the only content that may be opened under this name


@dataclass(frozen=True)
class EndpointSettings:
    """How one served name treats its requests. Times are in seconds.

    `max_delay` is how long a request may wait for others to share its batch while an instance is idle. The default is
    none: batches then form from what arrives while the instances are busy, and a lone request is never delayed.
    `batching`: "auto" batches models that answer in a batch as they do alone, "force" does so without that proof.
    `concurrency`: batches that run at a time, each in a process of its own.
    `call_limit`: a worker that does not answer a batch within it is killed and restarted.
    `objective`: the promise of a service, which policies see; with `shed_late` a request that would break it is refused
    at once. A client's own deadline is always kept or refused.
    """

    max_batch: int = 64
    max_delay: float = 0.0
    max_queue: int = 1000
    max_queue_bytes: int = 1 << 30
    concurrency: int = 1
    batching: Batching = "auto"
    call_limit: float = 60.0
    objective: float | None = None
    shed_late: bool = True

    def __post_init__(self) -> None:
        for name, least in (("max_batch", 1), ("max_queue", 1), ("max_queue_bytes", 1), ("concurrency", 1)):
            if getattr(self, name) < least:
                raise ZoolensError(f"The setting {name} must be at least {least}; got {getattr(self, name)}.")
        for name in ("max_delay", "call_limit"):
            if not getattr(self, name) >= 0:
                raise ZoolensError(f"The setting {name} must not be negative; got {getattr(self, name)}.")
        if self.batching not in ("auto", "off", "force"):
            raise ZoolensError(f"The setting batching is auto, off or force; got {self.batching!r}.")
