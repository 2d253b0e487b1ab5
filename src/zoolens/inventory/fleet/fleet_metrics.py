"""The fleet for Prometheus: agents, jobs and the store, read from the store at each scrape.

Nothing is counted in memory, so that figures are right after a restart and the same wherever they are asked for. Labels
are states and kinds, never models, jobs or users: a fleet of any size has a few hundred series at most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from zoolens.base.errors import MissingDependency, ZoolensError
from zoolens.base.store.agents import AgentRecord, load_agents
from zoolens.base.store.database import Database
from zoolens.base.store.jobs import JobState
from zoolens.base.store.operation_figures import JobTimes, OperationFigures, operation_figures
from zoolens.base.store.retry import patience_at_most

JOB_BUCKETS: Final = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 86_400.0)  # seconds
MOST_KINDS: Final = 50  # with a series of their own
OTHER: Final = "other"
PATIENCE: Final = 2.0  # seconds for a store that is away: Prometheus gives up a scrape after ten
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_LONGEST_LABEL: Final = 40  # characters of a kind, which whoever may write rows of agents chose


def metrics_text(database: Database) -> bytes:
    """The figures in the text format of Prometheus. A store that cannot be read is a figure too."""
    prometheus = _library()
    registry = prometheus.CollectorRegistry(auto_describe=False)
    registry.register(FleetCollector(database))
    text: bytes = prometheus.generate_latest(registry)
    return text


def serve_metrics(database: Database, host: str, port: int) -> Any:
    """Answer scrapes in a thread until the returned server is shut down (`shutdown`)."""
    prometheus = _library()
    registry = prometheus.CollectorRegistry(auto_describe=False)
    registry.register(FleetCollector(database))
    try:
        server, _ = prometheus.start_http_server(port, host, registry)
    except OSError as error:
        raise ZoolensError(
            f"Metrics cannot be offered at {host}:{port}: {error}.", hint="Choose another port with --metrics."
        ) from error
    return server


class FleetCollector:
    """Reads the store whenever the registry asks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def describe(self) -> list[Any]:
        """Nothing is read before the first scrape."""
        return []

    def collect(self) -> Iterator[Any]:
        """Called by the registry of prometheus_client for each scrape."""
        gauge = _library().core.GaugeMetricFamily
        try:
            with patience_at_most(PATIENCE):
                agents = load_agents(self._database, lost=True)
                figures = operation_figures(self._database, JOB_BUCKETS)
        except ZoolensError:
            yield gauge("zoolens_store_up", "Whether the store can be read", value=0)
            return
        yield gauge("zoolens_store_up", "Whether the store can be read", value=1)
        yield from _agent_families(agents)
        yield from _job_families(figures)
        yield from _store_families(figures)


def _agent_families(agents: list[AgentRecord]) -> Iterator[Any]:
    gauge = _library().core.GaugeMetricFamily
    states = Counter("lost" if not agent.alive else "works" if agent.doing else "idle" for agent in agents)
    family = gauge("zoolens_fleet_agents", "Machines that agents offer, by what they do", labels=["state"])
    for state in ("idle", "works", "lost"):
        family.add_metric([state], states[state])
    yield family
    kinds = Counter(agent.kind[:_LONGEST_LABEL] for agent in agents if agent.alive)
    family = gauge("zoolens_fleet_agents_of_kind", "Machines that are there, by kind", labels=["kind"])
    # A kind that calls itself so is counted with the others: of two equal series, Prometheus refuses both.
    named = [(kind, count) for kind, count in kinds.most_common(MOST_KINDS) if kind != OTHER]
    for kind, count in named:
        family.add_metric([kind], count)
    if rest := kinds.total() - sum(count for _, count in named):
        family.add_metric([OTHER], rest)
    yield family


def _job_families(figures: OperationFigures) -> Iterator[Any]:
    core = _library().core
    family = core.GaugeMetricFamily("zoolens_fleet_jobs", "Jobs that the store lists, by state", labels=["state"])
    for state in JobState:
        family.add_metric([str(state)], figures.jobs.get(state, 0))
    yield family
    histogram = core.HistogramMetricFamily(
        "zoolens_fleet_job_seconds", "How long jobs took that the store lists, from their last start", labels=["state"]
    )
    for state in JobState:
        times = figures.times.get(state, JobTimes(within=(0,) * len(JOB_BUCKETS)))
        buckets = [(repr(bound), float(count)) for bound, count in zip(JOB_BUCKETS, times.within, strict=True)]
        histogram.add_metric([str(state)], [*buckets, ("+Inf", float(times.count))], times.seconds)
    yield histogram
    words = "Further attempts after the first, of the jobs that the store lists"
    yield core.GaugeMetricFamily("zoolens_fleet_job_retries", words, value=figures.retries)
    yield core.GaugeMetricFamily(
        "zoolens_fleet_drivers", "Commands that give out jobs at the moment", value=figures.drivers
    )


def _store_families(figures: OperationFigures) -> Iterator[Any]:
    gauge = _library().core.GaugeMetricFamily
    family = gauge("zoolens_store_runs", "Runs in the store, by kind", labels=["kind"])
    for kind, count in figures.runs.items():
        family.add_metric([str(kind)], count)
    yield family
    for name, words, value in (
        ("database_bytes", "Size of the database", figures.database_bytes),
        ("bulk_bytes", "Size of the bulk facts that the store registers", figures.bulk_bytes),
        ("bulk_parts", "Files of bulk facts that the store registers", figures.bulk_parts),
    ):
        yield gauge(f"zoolens_store_{name}", words, value=value)


def _library() -> Any:
    """prometheus_client, which is an extra."""
    try:
        import prometheus_client
        import prometheus_client.core
    except ImportError as error:
        raise MissingDependency("The metrics of a fleet", "prometheus-client", "fleet") from error
    return prometheus_client
