"""What is served on a cluster, as it travels to every replica and to the controller."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from zoolens.base.engine.sandbox import trusted
from zoolens.base.errors import ZoolensError
from zoolens.faces.serving.plane.plane_settings import EndpointSettings, ModelSpec
from zoolens.faces.serving.services.definition import Service


@dataclass(frozen=True)
class ReplicaCount:
    """How many replicas there are: always `least`, or up to `most` as the number of requests at a time asks for."""

    least: int = 2
    most: int = 2

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `3`, or `1:4` for a number that follows the load."""
        first, colon, second = text.partition(":")
        least, most = (first, second) if colon else (first, first)
        if not (least.isdecimal() and most.isdecimal() and 1 <= int(least) <= int(most)):
            raise ZoolensError(
                f"{text[:40]!r} is not a number of replicas.",
                hint="Write a number from 1 on, or the least and the most: 1:4.",
            )
        return cls(int(least), int(most))

    @property
    def scales(self) -> bool:
        return self.most > self.least


@dataclass(frozen=True)
class ClusterPlan:
    """`store` is used by the controller alone. `trust`: models are opened without a sandbox.

    `threads` is OMP_NUM_THREADS of whoever started the server: clusters set it for their processes, which would change
    times and the last digits of answers.
    """

    models: tuple[ModelSpec, ...] = ()
    services: Mapping[str, Service] = field(default_factory=dict)
    settings: EndpointSettings = field(default_factory=EndpointSettings)
    memory_limit: int | None = None
    store: str | None = None
    trust: bool = field(default_factory=trusted)
    threads: str | None = field(default_factory=lambda: os.environ.get("OMP_NUM_THREADS"))


def absolute_models(models: Sequence[str | ModelSpec]) -> tuple[ModelSpec, ...]:
    """The models with files named by absolute paths: a replica works in another folder."""
    specs = []
    for model in models:
        spec = ModelSpec(model) if isinstance(model, str) else model
        specs.append(replace(spec, model=_absolute(spec.model)))
    return tuple(specs)


def _absolute(model: str) -> str:
    name, equals, path = model.partition("=")
    if Path(model).exists():
        return str(Path(model).absolute())
    if equals and Path(path).exists():
        return f"{name}={Path(path).absolute()}"
    return model
