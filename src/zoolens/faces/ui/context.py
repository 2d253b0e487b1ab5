"""What every endpoint gets: the store, what is kept of it in memory, and the jobs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from zoolens.base.store.run_columns import RunIndex
from zoolens.base.store.store import Store
from zoolens.base.store.target import resolve
from zoolens.faces.serving.options import read_token
from zoolens.faces.ui.input_reader import InputReader
from zoolens.faces.ui.jobs.board import JobBoard
from zoolens.faces.ui.live import LiveModels
from zoolens.faces.ui.model_index import ModelIndex
from zoolens.faces.ui.network_reader import NetworkReader
from zoolens.faces.ui.server_metrics import ServerWatcher
from zoolens.faces.ui.settings import Settings
from zoolens.faces.ui.store_file import StoreFile
from zoolens.faces.ui.trace_reader import TraceReader
from zoolens.faces.ui.zoo_listing import ZooListing
from zoolens.findings.comparisons.answer_pages import AnswerReader


class TaskFacts(NamedTuple):
    """What a run did: its task, the metric that judges it, and on how many inputs."""

    task: str
    metric: str
    inputs: int


@dataclass(frozen=True)
class Context:
    """Threads share it. `runs` (see `store.browsing`) and `models.models()` look up what changed by themselves;
    `answers` reads what runs answered, input by input, and keeps the last few; `inputs` makes the inputs themselves
    visible; `live` keeps models open; `store_file` knows whether the store's file is still there."""

    settings: Settings
    store: Store
    store_file: StoreFile
    runs: RunIndex
    models: ModelIndex
    answers: AnswerReader
    inputs: InputReader
    jobs: JobBoard
    live: LiveModels
    server: ServerWatcher | None
    traces: TraceReader
    networks: NetworkReader
    task_facts: dict[str, TaskFacts] = field(default_factory=dict)


@contextmanager
def open_context(settings: Settings, runs: RunIndex) -> Iterator[Context]:
    """What serves a store, of which the runs are known; the zoos begin to be listed."""
    with (
        ZooListing(settings.zoos) as zoos,
        JobBoard(settings) as jobs,
        LiveModels() as live,
        InputReader(settings.allowed) as inputs,
    ):
        yield make_context(settings, runs, zoos, jobs, live, inputs)


def make_context(
    settings: Settings, runs: RunIndex, zoos: ZooListing, jobs: JobBoard, live: LiveModels, inputs: InputReader
) -> Context:
    """A context over what is open already."""
    store, target = runs.store, _store_name(settings)
    file = StoreFile(resolve(settings.store).path, runs)
    models, answers = ModelIndex(runs, zoos), AnswerReader(store)
    traces, networks = TraceReader(store, target), NetworkReader(store, target)
    return Context(
        settings, store, file, runs, models, answers, inputs, jobs, live, _watcher(settings), traces, networks
    )


def _watcher(settings: Settings) -> ServerWatcher | None:
    return None if settings.server is None else ServerWatcher(settings.server, read_token(None))


def _store_name(settings: Settings) -> str | None:
    """How another process names the same store, whatever becomes of the variables of this one."""
    path = resolve(settings.store).path
    return str(path.absolute()) if path is not None else None if settings.store is None else str(settings.store)
