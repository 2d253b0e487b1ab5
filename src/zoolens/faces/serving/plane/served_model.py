"""One model that is open: its instances, what was found out about it, and the memory that it takes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from zoolens.base.errors import AssetError, ModelError, ZoolensError
from zoolens.base.numerics.sequence_alignment import common_beginning
from zoolens.faces.serving.plane.classification import Labels, raw_labels
from zoolens.faces.serving.plane.instance import Instance
from zoolens.faces.serving.plane.next_token import EXTENDS
from zoolens.faces.serving.plane.plane_settings import Batching, ModelSpec
from zoolens.faces.serving.plane.probe import BatchingVerdict, probe
from zoolens.faces.serving.plane.signature import ModelSignature, tensor_metadata
from zoolens.inventory.catalog.lookup import find
from zoolens.inventory.catalog.sessions import Placement, place
from zoolens.inventory.manifests.locations import model_fingerprint
from zoolens.inventory.manifests.schema_texts import PREDICTING
from zoolens.inventory.preprocess.outputs import labels_of
from zoolens.inventory.runtimes.isolation.isolated_session import IsolatedSession
from zoolens.inventory.runtimes.isolation.packed import STRING
from zoolens.inventory.runtimes.runtime import Yielding
from zoolens.inventory.zoos.zoo import Entry

_SHORT_CALL: Final = 2e-3  # seconds of a call with one row, and what passes between the processes

Stamps = tuple[tuple[str, int, int], ...]

log = logging.getLogger("zoolens.serving")


@dataclass(frozen=True)
class ModelKey:
    """What an open model is: endpoints whose tiers have equal keys share it."""

    spec: ModelSpec
    instances: int = 1
    max_batch: int = 64
    batching: Batching = "auto"
    call_limit: float = 60.0


@dataclass(frozen=True)
class Opened:
    """What opening a model found: made in a thread, before any instance exists."""

    placement: Placement
    sessions: tuple[IsolatedSession, ...]
    verdict: BatchingVerdict
    labels: dict[str, Labels]
    stamps: Stamps
    yielding: Yielding

    @property
    def entry(self) -> Entry:
        return self.placement.entry


class OpenModel:
    """A model with its instances. It belongs to the event loop's thread.

    `changed` is called whenever an instance has become idle or has been given up.
    """

    def __init__(self, key: ModelKey, opened: Opened, executor: Executor, changed: Callable[[], None]) -> None:
        self.key = key
        self.entry = opened.entry
        self.runtime = opened.placement.runtime.name
        self.format = opened.placement.asset.format
        self.verdict = opened.verdict
        self.labels = opened.labels
        self.memory_bytes = 0
        first = opened.sessions[0]
        batched = opened.verdict.batched
        most = opened.verdict.rows if batched else key.max_batch
        self.signature = ModelSignature(
            tensor_metadata(first.inputs, batched), tensor_metadata(first.outputs, batched), batched, most
        )
        self._changed = changed
        self._placement, self.stamps = opened.placement, opened.stamps
        self._yielding = opened.yielding
        self.instances = [
            Instance(self.title, self._reopen, key.call_limit, executor, self._instance_changed)
            for _ in opened.sessions
        ]
        for instance, session in zip(self.instances, opened.sessions, strict=True):
            instance.attach(session)

    @property
    def title(self) -> str:
        return f"Model {self.entry.full_ref} in {self.runtime}"

    @property
    def reference(self) -> str:
        return self.entry.full_ref

    @property
    def extends(self) -> bool:
        """Whether its runtime continues sequences of tokens; it may turn out that it cannot with this model."""
        return self._placement.runtime.can(EXTENDS)

    @property
    def files(self) -> Mapping[str, Path]:
        """The model's files by role, its tokenizer among them."""
        return self._placement.paths

    @property
    def busy(self) -> bool:
        return any(instance.busy for instance in self.instances)

    @property
    def failed(self) -> ZoolensError | None:
        """Why no instance can answer any more; None while at least one can, or will after its restart."""
        reasons = [instance.failed for instance in self.instances]
        return reasons[0] if all(reasons) else None

    def idle_instance(self, place: int | None = None) -> Instance | None:
        """An instance that can take a batch; that of a place alone, where one is given that can answer at all."""
        if place is not None and place < len(self.instances) and self.instances[place].failed is None:
            return self.instances[place] if self.instances[place].idle else None
        for instance in self.instances:
            if instance.idle:
                return instance
        return None

    def known(self, place: int, tokens: Sequence[int]) -> int:
        """How many of these tokens, from the first one on, the instance of a place need not compute again."""
        if place >= len(self.instances):
            return 0
        return common_beginning(self.instances[place].sequence, np.asarray(tokens))

    def measure_memory(self) -> int:
        """Resident bytes of all workers now. Libraries that workers share are counted for each of them."""
        import psutil

        total = 0
        for instance in self.instances:
            process_id = instance.process_id
            if process_id is not None:
                try:
                    total += psutil.Process(process_id).memory_info().rss
                except psutil.Error:
                    continue
        self.memory_bytes = total
        return total

    async def close(self) -> None:
        await asyncio.gather(*(instance.close() for instance in self.instances))

    def _reopen(self) -> IsolatedSession:
        """A session for a worker that replaces a dead one: of the same files, or another model would answer."""
        missing = [path for path in self._placement.paths.values() if not path.exists()]
        if missing:
            raise AssetError(f"{missing[0]} does not exist any more, so that its worker is not replaced.")
        stamps = _stamps(self._placement)
        if stamps != self.stamps and self.key.spec.content is None:
            raise AssetError(
                f"The files of {self.entry.full_ref} have changed since it was loaded: its worker is not replaced.",
                hint="Load it again.",
            )
        if stamps != self.stamps:
            _check_content(self._placement, self.key.spec)
            self.stamps = stamps
        return self._placement.open_isolated(self._yielding)

    def _instance_changed(self, _: Instance) -> None:
        self._changed()


def open_model(key: ModelKey) -> Opened:
    """Open a model in as many workers as the key says, and try it. This takes seconds: call it in a thread."""
    spec = key.spec
    placement = place(
        find(spec.model),
        runtime=spec.runtime,
        options=spec.options,
        environment=spec.environment,
        allow_code=spec.allow_code,
    )
    _check_content(placement, spec)
    labels = _labels(placement.entry)
    stamps = _stamps(placement)
    sessions: list[IsolatedSession] = []
    try:
        sessions.append(placement.open_isolated(Yielding.AFTER_CALLS))
        _check_inputs(sessions[0], placement)
        verdict = _verdict(sessions[0], key, placement)
        yielding = _yielding(placement, verdict)
        if verdict.spoilt:
            sessions.pop().close()
        elif yielding is Yielding.ALWAYS:
            sessions[0].open_again(yielding)
        tried = len(sessions)
        more = range(key.instances - tried)
        sessions += [placement.open_isolated(yielding) for _ in more]
        for session in sessions if yielding is Yielding.ALWAYS else sessions[tried:]:
            probe(session, "off", 1)  # warms it up
    except BaseException:
        for session in sessions:
            session.close()
        raise
    if not verdict.batched:
        log.info("requests to %s are not batched: %s", placement.entry.full_ref, verdict.reason)
    return Opened(placement, tuple(sessions), verdict, labels, stamps, yielding)


def _verdict(session: IsolatedSession, key: ModelKey, placement: Placement) -> BatchingVerdict:
    if key.batching == "auto" and placement.manifest.task == PREDICTING:
        # To try batches of texts takes a minute, and they have different lengths, so that they would share no call.
        verdict = probe(session, "off", 1)
        return replace(verdict, reason="Texts of a language model are run one by one.")
    return probe(session, key.batching, key.max_batch, placement.runtime.can("dynamic_batch"))


def _yielding(placement: Placement, verdict: BatchingVerdict) -> Yielding:
    """When the threads of this model sleep: always, where its calls are short."""
    spins = placement.runtime.spins and placement.options.threads != 1
    short = verdict.seconds.get(1, _SHORT_CALL) < _SHORT_CALL
    return Yielding.ALWAYS if spins and short else Yielding.AFTER_CALLS


def _check_content(placement: Placement, spec: ModelSpec) -> None:
    """Refuse a model that is not what was measured under its name: what was promised of that does not hold for it."""
    if spec.content is None:
        return
    if model_fingerprint(placement.manifest, placement.asset, placement.paths) != spec.content:
        raise ZoolensError(
            f"The files or the manifest of {placement.entry.full_ref} are not those that were measured.",
            hint="Measure it again with `zoolens eval`.",
        )


def _stamps(placement: Placement) -> Stamps:
    """Returns what a changed file is noticed by: its size and when it was written, also of each file in a folder."""
    files = [
        file
        for path in placement.paths.values()
        for file in (sorted(path.rglob("*")) if path.is_dir() else [path])
        if file.is_file()
    ]
    return tuple((str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files)


def _labels(entry: Entry) -> dict[str, Labels]:
    """Class names of the outputs, by the output's name, or by "" where the manifest does not name its only output."""
    labels: dict[str, Labels] = {}
    for output in entry.manifest.outputs:
        names = labels_of(output, entry.folder)
        if names:
            labels[output.name or ""] = raw_labels(names, output.postprocess)
    return labels


def _check_inputs(session: IsolatedSession, placement: Placement) -> None:
    texts = [spec.name for spec in session.inputs if spec.dtype == STRING]
    if texts and not placement.runtime.takes_packed:
        raise ModelError(
            f"{placement.entry.full_ref} cannot be asked: its input '{texts[0]}' holds texts, which "
            f"{placement.runtime.name} does not take here.",
            hint="Export it without the operators that read texts, so that it takes numbers.",
        )
