"""What an endpoint serves: a name, a ladder of models, and the policy that chooses among them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from zoolens.base.protocol.messages import InferRequest
from zoolens.faces.serving.contracts.adapter import Adapter
from zoolens.faces.serving.contracts.ladder import Ladder, Rung
from zoolens.faces.serving.contracts.observer import Observer
from zoolens.faces.serving.plane.classification import Labels
from zoolens.faces.serving.plane.plane_settings import EndpointSettings, ModelSpec
from zoolens.faces.serving.plane.signature import ModelSignature
from zoolens.faces.serving.policies.policy import Policy

Feedback = Callable[[Mapping[str, Any]], Awaitable[int]]
Route = Callable[[InferRequest], int | None]


@dataclass(frozen=True)
class ServiceSpec:
    """A service as the plane serves it: a name, a ladder, a policy, and for each rung how it is opened and adapted.

    `signature` is what clients send and get; None: that of the reference. `extra`: further rungs, behind those of the
    ladder, which the policy never chooses. A client may name them, and `route` gives the number of the rung that
    answers a request which names none; None leaves it to the policy. `specs` and `adapters` have the extra rungs at
    their end. `labels`: class names of the outputs that adapters make; without them a model's own are used.
    """

    name: str
    ladder: Ladder
    policy: Policy
    specs: Sequence[ModelSpec]
    version: str = "1"
    adapters: Sequence[Adapter | None] = ()
    signature: ModelSignature | None = None
    settings: EndpointSettings = field(default_factory=EndpointSettings)
    observers: Sequence[Observer] = ()
    feedback: Feedback | None = None
    config: Mapping[str, str] = field(default_factory=dict)  # parameters of its ModelConfig besides the usual ones
    extra: Sequence[Rung] = ()
    route: Route | None = None
    labels: Mapping[str, Labels] | None = None
