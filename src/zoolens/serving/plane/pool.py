"""The warm pool: which models are open, within a budget of memory.

A slot stands for one model, whether it is open or not. Opening happens in threads and never delays an answer. Where the
budget is exceeded, models that nobody uses are closed, the least recently used first; they are opened again when a
request needs them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from zoolens.errors import ZoolensError
from zoolens.serving.plane.model import ModelKey, Opened, OpenModel, open_model

_OPENERS: Final = 4  # threads that open, close and collect workers
_BETWEEN_MEASUREMENTS: Final = 2.0  # seconds

log = logging.getLogger("zoolens.serving")


class Slot:
    """One model of the pool. `model` is None while it is not open; `error` says why the last attempt failed."""

    def __init__(self, key: ModelKey) -> None:
        self.key = key
        self.model: OpenModel | None = None
        self.error: ZoolensError | None = None
        self.loading: asyncio.Task[None] | None = None
        self.last_used = 0.0
        self.known_bytes = 0
        self.pinned = False
        self.evictions = 0
        self.watchers: list[Callable[[], None]] = []

    @property
    def ready(self) -> bool:
        return self.model is not None and self.model.failed is None

    @property
    def problem(self) -> ZoolensError | None:
        """Why it cannot answer, unless it can, or is about to."""
        if self.model is not None:
            return self.model.failed
        return None if self.loading is not None else self.error

    def tell(self) -> None:
        """Tell the endpoints that the model can take a batch, has failed, or has gone."""
        for watcher in self.watchers:
            watcher()


class WarmPool:
    """Belongs to the event loop's thread. `memory_limit` is in bytes; it may change while serving."""

    def __init__(self, memory_limit: int | None = None) -> None:
        self.memory_limit = memory_limit
        self.executor = ThreadPoolExecutor(_OPENERS, "zoolens-serving")
        self.slots: dict[ModelKey, Slot] = {}
        self._loop = asyncio.get_running_loop()
        self._closing: set[asyncio.Task[None]] = set()
        self._measuring = self._loop.create_task(self._measure())

    @property
    def memory_used(self) -> int:
        """Resident bytes of all workers, as they were measured last."""
        return sum(slot.model.memory_bytes for slot in self.slots.values() if slot.model is not None)

    def slot(self, key: ModelKey) -> Slot:
        if key not in self.slots:
            self.slots[key] = Slot(key)
        return self.slots[key]

    def preload(self, slot: Slot) -> None:
        """Begin to open a model, unless it is open or being opened. It never waits."""
        if not slot.ready and slot.loading is None:
            slot.loading = self._loop.create_task(self._load(slot))

    async def ensure(self, slot: Slot) -> OpenModel:
        """The open model; it is opened if need be. A ZoolensError says why it cannot be."""
        self.preload(slot)
        while slot.loading is not None:
            await asyncio.shield(slot.loading)
        problem = slot.problem
        if slot.model is None or problem is not None:
            raise problem or ZoolensError(f"Model {slot.key.spec.model} was closed while it was being opened.")
        return slot.model

    async def reload(self, slot: Slot) -> OpenModel:
        """Open the model anew. The old one answers until the new one does, and stays where that fails."""
        while slot.loading is not None:
            await asyncio.shield(slot.loading)
        old = slot.model
        if old is None:
            return await self.ensure(slot)
        opened = await self._opened(slot.key)
        slot.model = OpenModel(slot.key, opened, self.executor, slot.tell)
        slot.error = None
        self._retire(old)
        await self._settle(slot)
        slot.tell()
        return slot.model

    async def unload(self, slot: Slot) -> None:
        """Close a model. A batch that runs is answered first."""
        if slot.loading is not None:
            slot.loading.cancel()
            with contextlib.suppress(asyncio.CancelledError, ZoolensError):
                await slot.loading
        model, slot.model = slot.model, None
        slot.error = None
        if model is not None:
            await _close_when_idle(model)

    def forget(self, slot: Slot) -> None:
        """Drop a slot that no endpoint watches."""
        if not slot.watchers:
            self.slots.pop(slot.key, None)

    def limit_memory(self, limit: int | None) -> None:
        """Change the budget. What is too much is closed as soon as nobody uses it."""
        self.memory_limit = limit
        self._evict(keep=None)

    async def close(self) -> None:
        self._measuring.cancel()
        for slot in self.slots.values():
            if slot.loading is not None:
                slot.loading.cancel()
        await asyncio.gather(*(self.unload(slot) for slot in self.slots.values()), *self._closing)
        self.executor.shutdown(wait=True)

    async def _load(self, slot: Slot) -> None:
        try:
            broken, slot.model = slot.model, None
            if broken is not None:
                await broken.close()
            self._evict(keep=slot, expected=slot.known_bytes)
            opened = await self._opened(slot.key)
            slot.model = OpenModel(slot.key, opened, self.executor, slot.tell)
            slot.error = None
            slot.last_used = time.monotonic()
            await self._settle(slot)
        except ZoolensError as error:
            slot.error = error
            log.warning("model %s cannot be opened: %s", slot.key.spec.model, error)
        finally:
            slot.loading = None
            self._loop.call_soon(slot.tell)

    async def _opened(self, key: ModelKey) -> Opened:
        opening = asyncio.ensure_future(self._loop.run_in_executor(self.executor, open_model, key))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close_unused)
            raise

    async def _settle(self, slot: Slot) -> None:
        """Measure a model that has just been opened, and close others, or it, where the budget is exceeded."""
        model = slot.model
        assert model is not None
        slot.known_bytes = await self._loop.run_in_executor(self.executor, model.measure_memory)
        self._evict(keep=slot)
        if self.memory_limit is not None and self.memory_used > self.memory_limit:
            others = self.memory_used - slot.known_bytes
            slot.model = None
            self._retire(model)
            raise ZoolensError(
                f"{model.title} takes {_megabytes(slot.known_bytes)}, but of the memory budget of "
                f"{_megabytes(self.memory_limit)} only {_megabytes(max(self.memory_limit - others, 0))} are free.",
                hint="Allow more memory, or serve fewer models.",
            )

    def _evict(self, keep: Slot | None, expected: int = 0) -> None:
        """Close what nobody uses, the least recently used first, until the budget holds."""
        if self.memory_limit is None:
            return
        candidates = [
            slot
            for slot in self.slots.values()
            if slot is not keep and slot.model is not None and not slot.pinned and not slot.model.busy
        ]
        for slot in sorted(candidates, key=lambda slot: slot.last_used):
            if self.memory_used + expected <= self.memory_limit:
                return
            model, slot.model = slot.model, None
            if model is not None:
                slot.evictions += 1
                log.info("model %s is closed to keep the memory budget", slot.key.spec.model)
                self._retire(model)
                slot.tell()

    def _retire(self, model: OpenModel) -> None:
        task = self._loop.create_task(_close_when_idle(model))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _measure(self) -> None:
        while True:
            await asyncio.sleep(_BETWEEN_MEASUREMENTS)
            for slot in list(self.slots.values()):
                if slot.model is not None:
                    slot.known_bytes = await self._loop.run_in_executor(self.executor, slot.model.measure_memory)
            self._evict(keep=None)


async def _close_when_idle(model: OpenModel) -> None:
    while model.busy:
        await asyncio.sleep(0.01)
    await model.close()


def _close_unused(opening: asyncio.Future[Opened]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        for session in opening.result().sessions:
            session.close()


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"
