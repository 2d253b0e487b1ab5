"""What replicas tell the controller, and what the controller makes of it for the front."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from zoolens.base.protocol.errors import Refusal
from zoolens.base.protocol.messages import BatchStatistics, Duration, ModelMetadata, ModelStatistics, RepositoryEntry
from zoolens.faces.serving.services.events import Entry

_STATES = ("READY", "LOADING", "UNLOADING", "UNAVAILABLE")  # the first of them that a replica is in counts


@dataclass(frozen=True)
class RefusedRequest:
    """A request that a replica refuses: an exception would arrive wrapped in one of the cluster's."""

    refusal: Refusal
    message: str
    hint: str | None = None


@dataclass(frozen=True)
class ModelView:
    """What clients may ask about a model or a service, version by version."""

    metadata: ModelMetadata
    config: Mapping[str, Any]


@dataclass(frozen=True)
class ReplicaReport:
    """The state of one replica now."""

    replica: str
    host: str
    pid: int
    ready: bool
    problem: str = ""  # why it can serve nothing; empty where it can
    repository: tuple[RepositoryEntry, ...] = ()
    statistics: tuple[ModelStatistics, ...] = ()
    models: Mapping[tuple[str, str], ModelView] = field(default_factory=dict)  # by name and version
    events: tuple[tuple[str, Entry], ...] = ()  # what happened to its services since the last report that arrived


@dataclass(frozen=True)
class ClusterView:
    """All replicas together, as the controller with this process id sees them.

    Statistics count what lost replicas had answered, too, as far as they reported it to this controller.
    """

    replicas: tuple[ReplicaReport, ...] = ()  # those that were heard lately
    repository: tuple[RepositoryEntry, ...] = ()
    statistics: tuple[ModelStatistics, ...] = ()
    models: Mapping[tuple[str, str], ModelView] = field(default_factory=dict)
    problem: str = ""
    pid: int = 0

    @property
    def ready(self) -> bool:
        return any(replica.ready for replica in self.replicas)


def merged_repository(reports: Iterable[ReplicaReport]) -> tuple[RepositoryEntry, ...]:
    """A model is ready where one replica can answer for it."""
    entries: dict[tuple[str, str], RepositoryEntry] = {}
    for report in reports:
        for entry in report.repository:
            known = entries.get((entry.name, entry.version))
            if known is None or _STATES.index(entry.state) < _STATES.index(known.state):
                entries[entry.name, entry.version] = entry
    return tuple(entries.values())


def merged_statistics(several: Iterable[ModelStatistics]) -> tuple[ModelStatistics, ...]:
    """The sum of the statistics of each model and version."""
    sums: dict[tuple[str, str], ModelStatistics] = {}
    for statistics in several:
        key = (statistics.name, statistics.version)
        sums[key] = _sum(sums[key], statistics) if key in sums else statistics
    return tuple(sums.values())


def _sum(first: ModelStatistics, second: ModelStatistics) -> ModelStatistics:
    values: dict[str, Any] = {"name": first.name, "version": first.version}
    for column in fields(ModelStatistics):
        value_a, value_b = getattr(first, column.name), getattr(second, column.name)
        if isinstance(value_a, Duration):
            values[column.name] = _added(value_a, value_b)
        elif column.name == "last_inference_ms":
            values[column.name] = max(value_a, value_b)
        elif column.name == "batches":
            values[column.name] = _batches([*value_a, *value_b])
        elif isinstance(value_a, int):
            values[column.name] = value_a + value_b
    return ModelStatistics(**values)


def _added(first: Duration, second: Duration) -> Duration:
    return Duration(first.count + second.count, first.ns + second.ns)


def _batches(several: list[BatchStatistics]) -> tuple[BatchStatistics, ...]:
    sums: dict[int, BatchStatistics] = {}
    for batch in several:
        known = sums.get(batch.size)
        sums[batch.size] = (
            batch
            if known is None
            else BatchStatistics(
                batch.size,
                _added(known.compute_input, batch.compute_input),
                _added(known.compute_infer, batch.compute_infer),
                _added(known.compute_output, batch.compute_output),
            )
        )
    return tuple(sums[size] for size in sorted(sums))
