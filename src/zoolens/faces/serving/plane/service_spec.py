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
from zoolens.faces.serving.plane.text_request import TextLimits
from zoolens.faces.serving.policies.policy import Policy

Feedback = Callable[[Mapping[str, Any]], Awaitable[int]]
Route = Callable[[InferRequest], int | None]


@dataclass(frozen=True)
class ServiceSpec:
    """A service as the plane serves it: a name, a ladder, a policy, and for each tier how it is opened and adapted."""

    name: str
    ladder: Ladder
    policy: Policy
    specs: Sequence[ModelSpec]  # one a tier, those of `extra` last
    version: str = "1"
    adapters: Sequence[Adapter | None] = ()  # one a tier, those of `extra` last
    signature: ModelSignature | None = None  # what clients send and get; None: that of the reference
    settings: EndpointSettings = field(default_factory=EndpointSettings)
    observers: Sequence[Observer] = ()
    feedback: Feedback | None = None
    config: Mapping[str, str] = field(default_factory=dict)  # parameters of its ModelConfig besides the usual ones
    extra: Sequence[Rung] = ()  # further tiers, which the policy never chooses; a client may name them
    route: Route | None = None  # the number of the tier for a request that names none; None leaves it to the policy
    labels: Mapping[str, Labels] | None = None  # class names of what adapters make; None: those of each model
    texts: TextLimits | None = None  # it writes texts of at most this length, and answers no inferences
