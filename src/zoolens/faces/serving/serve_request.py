"""What a user asks to be served, on this machine or on a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from zoolens.faces.serving.options import ServerOptions
from zoolens.faces.serving.plane.plane_settings import EndpointSettings, ModelSpec


@dataclass(frozen=True)
class ServeRequest:
    """Models and services to serve, and how."""

    models: Sequence[str | ModelSpec]
    options: ServerOptions
    settings: EndpointSettings = field(default_factory=EndpointSettings)
    services: Sequence[Path] = ()  # files of service definitions
    memory_limit: int | None = None  # bytes of all open models together
    store: str | Path | None = None  # where services look for measured models and record their events
