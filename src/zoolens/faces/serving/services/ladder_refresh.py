"""Builds the ladders of services again when models were measured or their files replaced."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from concurrent.futures import Executor
from itertools import count
from typing import Final, Protocol

from zoolens.base.errors import ZoolensError, first_line
from zoolens.base.store.records import RunKind
from zoolens.base.store.state import Newest
from zoolens.base.store.store import Store
from zoolens.faces.serving.services.candidates import file_states
from zoolens.faces.serving.services.events import Entry, EventKind, ServiceEvent
from zoolens.faces.serving.services.ladder_query import LadderBuilder
from zoolens.faces.serving.services.rung_maker import FileStates
from zoolens.faces.serving.services.service_ladder import ServiceLadder

_LOOKS: Final = 6  # after so many a model of a split that could not be opened is tried again, which takes a second

log = logging.getLogger("zoolens.serving")


class Refreshed(Protocol):
    """Whatever serves a ladder, or hands it on to those who do."""

    built: ServiceLadder

    def record(self, entry: Entry) -> None: ...

    def replace(self, built: ServiceLadder, reason: str) -> bool:
        """Serve another ladder, unless it is the same. Whether it was another."""
        ...


class StoreWatch:
    """Whether anything was measured since the last look. What services write themselves is no news."""

    def __init__(self, store: Store, newest: Newest) -> None:
        self._store, self._newest = store, newest

    def changed(self) -> bool:
        newest = self._store.newest()
        if newest == self._newest:
            return False
        _, runs = self._store.changed_since(self._newest.change)
        self._newest = newest
        return any(run.kind is not RunKind.SERVING for run in self._store.runs_of(runs))


async def refresh_ladders(
    watch: StoreWatch,
    builders: Mapping[str, LadderBuilder],
    hosted: Mapping[str, Refreshed],
    thread: Executor,
    every: float,
) -> None:
    """Build the ladders again when models were measured or replaced. What fails is said, and the old ladder stays."""
    loop = asyncio.get_running_loop()
    files = {name: _files(service.built) for name, service in hosted.items()}
    for look in count(1):
        await asyncio.sleep(every)
        try:
            news = await loop.run_in_executor(thread, watch.changed)
        except Exception as error:
            # Whatever it is, the next look may succeed.
            log.warning("the store cannot be looked at: %s", first_line(error))
            continue
        for name, builder in builders.items():
            now = _files(hosted[name].built)
            lacking = look % _LOOKS == 0 and hosted[name].built.lacking
            if not news and now == files[name] and not builder.problem and not lacking:
                continue
            files[name] = now
            if await rebuild_ladder(builder, hosted[name], thread, "Models were measured or replaced."):
                files[name] = _files(hosted[name].built)


async def rebuild_ladder(builder: LadderBuilder, hosted: Refreshed, thread: Executor, reason: str) -> bool:
    """Ask for the ladder of a service again and serve it. Where that fails the old one stays, it is said why, once for
    each cause, and the answer is False: try again later."""
    try:
        built = await asyncio.get_running_loop().run_in_executor(thread, builder.build)
        hosted.replace(built, reason)
    except Exception as error:
        # Whatever it is, the service goes on with what it has.
        problem = str(error) if isinstance(error, ZoolensError) else f"{type(error).__name__}: {first_line(error)}"
        if problem != builder.problem:
            log.warning("the ladder of the service %s stays as it was: %s", builder.name, problem)
            hosted.record(ServiceEvent(EventKind.LADDER, f"The ladder stays as it was: {problem}"))
        builder.problem = problem
        return False
    builder.problem = ""
    return True


def _files(built: ServiceLadder) -> tuple[FileStates, ...]:
    return tuple(file_states(candidate) for candidate in built.all_candidates)
