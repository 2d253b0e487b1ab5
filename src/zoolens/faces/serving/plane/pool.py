"""The warm pool: which models are open, within a budget of memory.

A slot stands for one model, whether it is open or not. Opening happens in threads and never delays an answer. Where the
budget is exceeded, models that nobody uses are closed, the least recently used first; they are opened again when a
request needs them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Final

from zoolens.base.errors import AssetError, ZoolensError
from zoolens.faces.serving.plane.instance import unexpected
from zoolens.faces.serving.plane.served_model import ModelKey, Opened, OpenModel, Stamps, open_model
from zoolens.faces.serving.plane.signature import ModelSignature

_OPENERS: Final = 4  # threads that open, close and collect workers
_CONVERTERS: Final = 4  # threads in which adapters convert tensors
_UNTIL_IDLE: Final = 0.01  # seconds until a busy model that must go is looked at again
_BETWEEN_MEASUREMENTS: Final = 2.0  # seconds
_BEFORE_RETRY: Final = 10.0  # seconds after which a model that could not be opened is tried again

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
        self.evictions = 0
        self.given_up = False  # its workers died again and again
        self.leaving = False  # too large for the budget: it gets no more batches, and is closed when the last has run
        self.signature: ModelSignature | None = (
            None  # of the model that was loaded, also while it is closed to save memory
        )
        self.stamps: Stamps | None = None  # of the files that were loaded: others are opened only when somebody says so
        self.retry_at = 0.0  # on the monotonic clock: not before, where opening has failed
        self.changing = asyncio.Lock()  # held while it is loaded again or closed for good
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

    @property
    def may_open(self) -> bool:
        """Whether it is worth a try to open it: it cannot answer, and has not failed just now."""
        return not self.ready and time.monotonic() >= self.retry_at

    def tell(self) -> None:
        """Tell the endpoints that the model can take a batch, has failed, or has gone; each time another one first, so
        that all get their turn."""
        if self.model is not None and self.model.failed is not None and not self.given_up:
            self.given_up = True
            self.retry_at = time.monotonic() + _BEFORE_RETRY
        watchers = self.watchers
        for watcher in list(watchers):
            watcher()
        if len(watchers) > 1:
            watchers.append(watchers.pop(0))


class WarmPool:
    """Belongs to the event loop's thread. `memory_limit` is in bytes; it may change while serving."""

    def __init__(self, memory_limit: int | None = None) -> None:
        self.memory_limit = memory_limit
        self._limits = {"": memory_limit}  # by who sets them; the server's own has no name
        self.executor = ThreadPoolExecutor(_OPENERS, "zoolens-opening")
        self.converters = ThreadPoolExecutor(_CONVERTERS, "zoolens-converting")  # so that no answer waits for a load
        self.slots: dict[ModelKey, Slot] = {}
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()  # whether the user trusts models is known there, also in threads
        self._retired: dict[OpenModel, asyncio.Task[None]] = {}  # those that still run a batch, or are being closed
        self._forgetting: set[asyncio.Task[None]] = set()
        self._evicting: asyncio.TimerHandle | None = None
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
        """Begin to open a model, unless it is open, is being opened or has failed just now. It never waits."""
        if not slot.ready and slot.loading is None and time.monotonic() >= slot.retry_at:
            slot.loading = self._loop.create_task(self._load(slot))

    def retry(self, slot: Slot) -> None:
        """Try again at once to open a model that has failed: what kept it from opening may be mended."""
        if slot.problem is not None:
            slot.retry_at = 0.0
            self.preload(slot)

    async def ensure(self, slot: Slot) -> OpenModel:
        """The open model; it is opened if need be, whatever its files are now. A ZoolensError says why it cannot be."""
        slot.retry_at = 0.0
        if not slot.ready:
            slot.stamps = None
        self.preload(slot)
        while slot.loading is not None:
            await asyncio.wait([slot.loading])
        problem = slot.problem
        if slot.model is None or problem is not None:
            raise problem or ZoolensError(f"Model {slot.key.spec.model} was closed while it was being opened.")
        return slot.model

    async def reload(self, slot: Slot) -> OpenModel:
        """Open the model again. The old one answers until the new one does, and stays where that fails."""
        async with slot.changing:
            while slot.loading is not None:
                await asyncio.wait([slot.loading])
            if slot.model is None:
                return await self.ensure(slot)
            new = await self._open(slot)
            try:
                self._check_budget(slot, new)
            except ZoolensError:
                self._retire(new)
                raise
            # It may have been closed meanwhile, to save memory.
            if slot.model is not None:
                self._retire(slot.model)
            self._install(slot, new)
            slot.tell()
            return new

    def _install(self, slot: Slot, model: OpenModel) -> None:
        slot.model, slot.error = model, None
        slot.signature, slot.stamps = model.signature, model.stamps
        slot.given_up = slot.leaving = False
        slot.last_used = time.monotonic()

    async def unload(self, slot: Slot) -> None:
        """Close a model. A batch that runs is answered first."""
        async with slot.changing:
            if slot.loading is not None:
                slot.loading.cancel()
                await asyncio.wait([slot.loading])
                # A task that is cancelled before it began cleans up nothing.
                slot.loading = None
            model, slot.model = slot.model, None
            slot.error = slot.signature = slot.stamps = None
            if model is not None:
                await asyncio.wait([self._retire(model)])

    async def forget(self, slot: Slot) -> None:
        """Close a model that no endpoint watches any more, and drop its slot."""
        if slot.watchers:
            return
        if self.slots.get(slot.key) is slot:
            del self.slots[slot.key]
        await self.unload(slot)

    def forget_soon(self, slots: Iterable[Slot]) -> None:
        """Forget, in the background, those of these slots that no endpoint watches."""
        for slot in slots:
            if not slot.watchers:
                self.slots.pop(slot.key, None)
                task = self._loop.create_task(self.forget(slot))
                self._forgetting.add(task)
                task.add_done_callback(self._forgetting.discard)

    def may_fit(self, size: int | None) -> bool:
        """Whether a model of this many bytes, as far as they are known, could be open by itself."""
        return self.memory_limit is None or size is None or size <= self.memory_limit

    def limit_memory(self, limit: int | None, source: str = "") -> None:
        """Change the budget that a source sets; the least of all sources holds. What is too much is closed as soon as
        nobody uses it."""
        before = self.memory_limit
        self._limits[source] = limit
        self.memory_limit = min((limit for limit in self._limits.values() if limit is not None), default=None)
        if self.memory_limit == before:
            return
        more = self.memory_limit is None or (before is not None and self.memory_limit > before)
        for slot in self.slots.values() if more else ():
            # What did not fit may fit now.
            slot.retry_at = 0.0
            slot.leaving = False
        self._evict(keep=None)

    async def close(self) -> None:
        """Close everything now, whatever runs."""
        self._measuring.cancel()
        if self._evicting is not None:
            self._evicting.cancel()
        for task in (*self._retired.values(), *self._forgetting):
            task.cancel()
        models = list(self._retired)
        for slot in list(self.slots.values()):
            if slot.loading is not None:
                slot.loading.cancel()
                await asyncio.wait([slot.loading])
            if slot.model is not None:
                models.append(slot.model)
                slot.model = None
        await asyncio.gather(*(model.close() for model in models), return_exceptions=True)
        for executor in (self.executor, self.converters):
            await self._loop.run_in_executor(None, executor.shutdown)

    async def _load(self, slot: Slot) -> None:
        try:
            broken, slot.model = slot.model, None
            if broken is not None:
                await broken.close()
            self._check_known(slot)
            self._evict(keep=slot, expected=slot.known_bytes)
            model = await self._open(slot)
            try:
                self._check_files(slot, model)
                self._check_budget(slot, model)
            except ZoolensError:
                self._retire(model)
                raise
            self._install(slot, model)
        except Exception as error:
            # Whatever it is, the requests that wait must hear of it.
            slot.error = unexpected(error, f"Model {slot.key.spec.model} cannot be opened")
            slot.retry_at = time.monotonic() + _BEFORE_RETRY
            log.warning("model %s cannot be opened: %s", slot.key.spec.model, slot.error)
        finally:
            slot.loading = None
            self._loop.call_soon(slot.tell)

    async def _open(self, slot: Slot) -> OpenModel:
        context = self._context.copy()
        opening = asyncio.ensure_future(self._loop.run_in_executor(self.executor, context.run, open_model, slot.key))
        try:
            opened = await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(self._close_unused)
            raise
        model = self._context.copy().run(OpenModel, slot.key, opened, self.executor, slot.tell)
        slot.known_bytes = model.measure_memory()
        return model

    def _close_unused(self, opening: asyncio.Future[Opened]) -> None:
        if not opening.cancelled() and opening.exception() is None:
            for session in opening.result().sessions:
                self._loop.run_in_executor(None, session.close)

    def _check_files(self, slot: Slot, model: OpenModel) -> None:
        """A model that is opened again by itself must be the one that was loaded. Where its content is asked for, that
        was checked when it was opened: a file that was put back may have another time."""
        if slot.key.spec.content is None and slot.stamps is not None and slot.stamps != model.stamps:
            raise AssetError(f"The files of {model.reference} have changed since it was loaded.", hint="Load it again.")

    def _check_known(self, slot: Slot) -> None:
        """Refuse what is known to be too large before anything is closed for it."""
        if not self.may_fit(slot.known_bytes):
            raise ZoolensError(
                f"Model {slot.key.spec.model} took {_megabytes(slot.known_bytes)} when it was open last, and all "
                f"models together may take {_megabytes(self.memory_limit or 0)}."
            )

    def _check_budget(self, slot: Slot, model: OpenModel) -> None:
        """Make room for a model that has just been opened in place of the slot's old one."""
        if self.memory_limit is None:
            return
        self._evict(keep=slot, expected=model.memory_bytes)
        others = self.memory_used - (slot.model.memory_bytes if slot.model is not None else 0)
        if others + model.memory_bytes > self.memory_limit:
            free = max(self.memory_limit - others, 0)
            raise ZoolensError(
                f"{model.title} takes {_megabytes(model.memory_bytes)}, but of the memory budget of "
                f"{_megabytes(self.memory_limit)} only {_megabytes(free)} can be freed for it.",
                hint="Allow more memory, or serve fewer models.",
            )

    def _evict(self, keep: Slot | None, expected: int = 0) -> None:
        """Close what nobody uses until `expected` bytes more would fit: what is too large by itself, then the least
        recently used."""
        if self.memory_limit is None:
            return
        if keep is not None and keep.model is not None:
            expected -= keep.model.memory_bytes  # it is about to be replaced
        candidates = [
            slot for slot in self.slots.values() if slot is not keep and slot.model is not None and not slot.model.busy
        ]
        limit = self.memory_limit
        busy = [slot for slot in self.slots.values() if self._is_too_large(slot) and slot not in candidates]
        if keep is None and busy:
            # It answers a batch, gets no other, and is closed right after it: then the others may stay.
            for slot in busy:
                slot.leaving = True
            candidates = [slot for slot in candidates if self._is_too_large(slot)]
            if self._evicting is None:
                self._evicting = self._loop.call_later(_UNTIL_IDLE, self._evict_again)
        for slot in sorted(candidates, key=lambda slot: (slot.known_bytes <= limit, slot.last_used)):
            if self.memory_used + expected <= self.memory_limit:
                return
            model, slot.model = slot.model, None
            slot.leaving = False
            if model is not None:
                slot.evictions += 1
                log.info("model %s is closed to keep the memory budget", slot.key.spec.model)
                self._retire(model)
                slot.tell()

    def _evict_again(self) -> None:
        self._evicting = None
        self._evict(keep=None)

    def _is_too_large(self, slot: Slot) -> bool:
        limit = self.memory_limit
        return slot.model is not None and limit is not None and slot.model.memory_bytes > limit

    def _retire(self, model: OpenModel) -> asyncio.Task[None]:
        """Close a model in the background, once it runs no batch."""
        task = self._retired[model] = self._loop.create_task(_close_when_idle(model))
        task.add_done_callback(lambda _: self._retired.pop(model, None))
        return task

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


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"
