"""What an endpoint tells those who watch it: one report for each batch, after its answers have gone out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from zoolens.base.protocol.messages import InferRequest, Tensor
from zoolens.faces.serving.contracts.ladder import Rung


@dataclass(frozen=True, slots=True)
class BatchReport:
    """One batch that was answered. `rung` and `previous` are numbers on the endpoint's ladder: they differ where the
    policy has switched, and `reason` is its sentence. `answered_by` is the rung itself: the ladder may have been
    replaced meanwhile. `inputs` and `outputs` are the batch's own tensors as the clients
    sent and got them; row by row they belong to `requests`, each of which has as many rows as `rows` says."""

    endpoint: str
    rung: int
    previous: int
    reason: str
    requests: Sequence[InferRequest]
    rows: Sequence[int]
    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]
    waited: Sequence[float] = field(default_factory=tuple)  # seconds that each request spent in the queue
    seconds: float = 0.0  # that the model took
    waiting: int = 0  # requests in the queue when the batch was formed
    answered_by: Rung | None = None
    free: bool = True  # the policy chose: no client had pinned a model, set a floor, or been routed elsewhere


class Observer(Protocol):
    """Called on the event loop; it must return at once and never raise. Slow work belongs into a task or a thread."""

    def answered(self, report: BatchReport) -> None: ...

    def refused(self, endpoint: str, request: InferRequest, reason: str) -> None:
        """A request of this endpoint was shed, came too late or failed."""
        ...
