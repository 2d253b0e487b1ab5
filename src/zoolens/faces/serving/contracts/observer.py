"""What an endpoint tells those who watch it: one report for each batch, after its answers have gone out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from zoolens.base.protocol.messages import InferRequest, Tensor
from zoolens.faces.serving.contracts.ladder import Rung
from zoolens.inventory.tasks.task import Answers


@dataclass(frozen=True, slots=True)
class BatchReport:
    """One batch that was answered."""

    endpoint: str
    rung: int  # number of the tier that answered, on the endpoint's ladder
    previous: int  # number of the tier before; another one where the policy has switched
    reason: str  # the policy's sentence
    requests: Sequence[InferRequest]
    rows: Sequence[int]  # of each request, whose rows follow each other in `inputs` and `outputs`
    inputs: Mapping[str, Tensor]  # of the whole batch, as the clients sent them
    outputs: Mapping[str, Tensor]  # of the whole batch, as the clients got them
    waited: Sequence[float] = field(default_factory=tuple)  # seconds that each request spent in the queue
    seconds: float = 0.0  # that the model took
    waiting: int = 0  # requests in the queue when the batch was formed
    answered_by: Rung | None = None  # the tier itself: the ladder may have been replaced meanwhile
    free: bool = True  # the policy chose: no client had pinned a model, set a floor, or been routed elsewhere
    kept: Answers | None = None  # the outputs as their task compares them; None: tensors are compared


class Observer(Protocol):
    """Called on the event loop; it must return at once and never raise. Slow work belongs into a task or a thread."""

    def answered(self, report: BatchReport) -> None: ...

    def refused(self, endpoint: str, request: InferRequest, reason: str) -> None:
        """A request of this endpoint was shed, came too late or failed."""
        ...
