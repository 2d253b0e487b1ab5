"""What every endpoint gets: the store, what is kept of it in memory, and the jobs."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from zoolens.base.errors import ZoolensError
from zoolens.base.store.model_activity import model_activity
from zoolens.base.store.run_columns import RunIndex
from zoolens.base.store.scopes import batch_scope
from zoolens.base.store.store import Store, open_store
from zoolens.base.store.target import STORE_VARIABLE, resolve
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

log = logging.getLogger("zoolens.ui")

SORTED_BY: Final = (("top1", ""), ("latency_p50", batch_scope(1)))  # what lists of runs are sorted by most often


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
def open_context(settings: Settings) -> Iterator[Context]:
    """Open the store, and begin to list the zoos and to read what lists of runs are sorted by."""
    with (
        open_store(settings.store, must_exist=_is_named(settings)) as store,
        ZooListing(settings.zoos) as zoos,
        JobBoard(settings) as jobs,
        LiveModels() as live,
        InputReader(settings.allowed) as inputs,
    ):
        context = make_context(settings, store, zoos, jobs, live, inputs)
        reading = threading.Thread(target=_read_ahead, args=(context.runs,), name="runs")
        reading.start()
        try:
            yield context
        finally:
            reading.join()


def _is_named(settings: Settings) -> bool:
    """Whether somebody named a store, which has to be there then. The user's own is made, so that the first thing that
    somebody opens may be the explorer."""
    return settings.store is not None or bool(os.environ.get(STORE_VARIABLE, "").strip())


def make_context(
    settings: Settings, store: Store, zoos: ZooListing, jobs: JobBoard, live: LiveModels, inputs: InputReader
) -> Context:
    """A context over what is open already."""
    index, target = RunIndex(store), _store_name(settings)
    file = StoreFile(resolve(settings.store).path, index)
    models, answers = ModelIndex(index, zoos), AnswerReader(store)
    traces, networks = TraceReader(store, target), NetworkReader(store, target)
    return Context(
        settings, store, file, index, models, answers, inputs, jobs, live, _watcher(settings), traces, networks
    )


def _watcher(settings: Settings) -> ServerWatcher | None:
    return None if settings.server is None else ServerWatcher(settings.server, read_token(None))


def _store_name(settings: Settings) -> str | None:
    """How another process names the same store, whatever becomes of the variables of this one."""
    path = resolve(settings.store).path
    return str(path.absolute()) if path is not None else None if settings.store is None else str(settings.store)


def _read_ahead(index: RunIndex) -> None:
    """Read what the first pages ask for while the browser starts: of very many runs it takes seconds."""
    try:
        model_activity(index)
        for metric, scope in SORTED_BY:
            index.figures(index.columns(), metric, scope)
    except ZoolensError:
        log.debug("Runs could not be read ahead: the page that asks for them will say why.", exc_info=True)
