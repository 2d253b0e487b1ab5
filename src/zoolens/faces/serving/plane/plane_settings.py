"""What a user may set about serving. The defaults are those of `zoolens serve`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from zoolens.base.errors import ZoolensError
from zoolens.inventory.runtimes.runtime import Options

Batching = Literal["auto", "off", "force"]


@dataclass(frozen=True)
class ModelSpec:
    """A model of the catalog and how it is opened. Endpoints whose tiers have equal specs share the open model."""

    model: str
    runtime: str | None = None
    options: Options = field(default_factory=Options)
    environment: str = ""
    allow_code: bool = False
    content: str | None = None  # fingerprint of the only content that may be opened under this name


@dataclass(frozen=True)
class EndpointSettings:
    """How one served name treats its requests. Times are in seconds.

    A client's own deadline is always kept or refused, whatever the settings are.
    """

    max_batch: int = 64  # rows
    # How long a request may wait for others to share its batch while an instance is idle. With no delay batches form
    # from what arrives while the instances are busy, and a lone request is never delayed.
    max_delay: float = 0.0
    max_queue: int = 1000  # requests
    max_queue_bytes: int = 1 << 30
    concurrency: int = 1  # batches that run at a time, each in a process of its own
    # "auto" batches models that answer in a batch as they do alone, "force" does so without that proof
    batching: Batching = "auto"
    call_limit: float = 60.0  # a worker that takes longer for a batch is killed and restarted
    objective: float | None = None  # the latency that a service promises; policies see it
    shed_late: bool = True  # refuse at once a request that would break the objective

    def __post_init__(self) -> None:
        for name, least in (("max_batch", 1), ("max_queue", 1), ("max_queue_bytes", 1), ("concurrency", 1)):
            if getattr(self, name) < least:
                raise ZoolensError(f"The setting {name} must be at least {least}; got {getattr(self, name)}.")
        for name in ("max_delay", "call_limit"):
            if not getattr(self, name) >= 0:
                raise ZoolensError(f"The setting {name} must not be negative; got {getattr(self, name)}.")
        if self.batching not in ("auto", "off", "force"):
            raise ZoolensError(f"The setting batching is auto, off or force; got {self.batching!r}.")
