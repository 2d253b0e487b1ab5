"""One row for each model of every zoo and of the store, in memory: what the page of models searches and counts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from zoolens.base.errors import StoreError
from zoolens.base.recent_values import RecentValues
from zoolens.base.store.model_activity import Activity, ModelActivity, model_activity
from zoolens.base.store.records import Run
from zoolens.base.store.run_columns import RunIndex
from zoolens.faces.ui.zoo_listing import Listed, ZooListing
from zoolens.inventory.catalog.names import bare, parse
from zoolens.inventory.manifests.tokenizer import ROLE as TOKENIZER
from zoolens.inventory.tasks.task import DEFAULT_TASK
from zoolens.inventory.zoos.listing import params_of, task_of
from zoolens.inventory.zoos.undescribed import weights_of
from zoolens.inventory.zoos.zoo import Entry

BARS: Final = 16  # of a sparkline
_KEPT: Final = 4  # choices of datasets
_SEARCHED: Final = 2000  # characters of each text that a search looks through
UNKNOWN: Final = ""  # the value of a facet that a model does not tell
_SIZES: Final = ((1e6, "<1M"), (1e7, "1M-10M"), (1e8, "10M-100M"), (float("inf"), ">100M"))


@dataclass(frozen=True)
class ModelRow:
    """One name of a model, `ref` being zoo:name@version."""

    ref: str
    zoo: str
    name: str
    version: str
    # Whether a zoo of this machine has the model; otherwise only the store knows it
    listed: bool
    task: str = UNKNOWN
    formats: tuple[str, ...] = ()
    licence: str = UNKNOWN
    params: float | None = None
    bytes: int | None = None
    claimed_top1: float | None = None
    description: str = ""
    runs: int = 0
    # What was run of it, and when last
    latest: ModelActivity | None = None
    runtimes: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    # How many runs there were in each of 16 equal stretches of time from the store's first run until its last
    activity: tuple[int, ...] = ()
    # What a search looks through
    text: str = ""
    entry: Entry | None = None

    @property
    def weights(self) -> str:
        """Whether the weights are on this machine, looked up now: they may have been fetched since the listing."""
        if self.entry is None:
            return UNKNOWN
        manifest = self.entry.manifest
        return (weights_of(manifest, self.entry.folder) if manifest.assets else self.entry.weights).value

    @property
    def size(self) -> str:
        """Which facet of sizes the number of parameters falls into."""
        if self.params is None:
            return UNKNOWN
        return next(name for limit, name in _SIZES if self.params < limit)


@dataclass(frozen=True, eq=False)
class Models:
    """All rows in the order of their names, and what they were made of."""

    activity: Activity
    listed: Listed
    rows: Sequence[ModelRow]
    _derived: dict[str, Any] = field(default_factory=dict)

    def derived(self, name: str, compute: Callable[[], Any]) -> Any:
        """What follows from the rows, computed once under this name and kept as long as the rows are."""
        if name not in self._derived:
            self._derived[name] = compute()
        return self._derived[name]


@dataclass
class ModelIndex:
    """`models()` is rebuilt when the store or the listing of the zoos has changed; threads may share it."""

    index: RunIndex
    zoos: ZooListing
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _models: RecentValues[tuple[str, ...], Models] = field(default_factory=lambda: RecentValues(_KEPT))
    _tasks: dict[str, str] = field(default_factory=dict)  # of runs, by their ids

    def models(self, datasets: tuple[str, ...] = ()) -> Models:
        """All models. With `datasets`, runs on others count for nothing, and models that only the store knows are left
        out where they have no run on these."""
        activity, listed = model_activity(self.index, spans=BARS, datasets=datasets), self.zoos.listed
        with self._lock:
            known = self._models.get(datasets)
            if known is None or known.activity is not activity or known.listed is not listed:
                known = build(activity, listed, self._measured_tasks(activity, listed))
                self._models.put(datasets, known)
            return known

    def _measured_tasks(self, activity: Activity, listed: Listed) -> Mapping[str, str]:
        """The task of the newest run of each model whose manifest no zoo of this machine has."""
        described = {entry.full_ref for entry in listed.entries if entry.described}
        wanted = {known.last_run for ref, known in activity.models.items() if ref not in described}
        missing = wanted - self._tasks.keys()
        try:
            found = self.index.store.runs_of(missing, stages=False) if missing else []
        except StoreError:
            # Other parts of the page name a damaged store: the list of models stays readable.
            found = []
        self._tasks |= {run.id: run_task(run) for run in found}
        return self._tasks


def run_task(run: Run) -> str:
    """The task of a run's main output, as it was evaluated or as its manifest declares it."""
    outputs = run.resolved.get("outputs") or run.model.manifest.get("outputs")
    return str(outputs[0].get("task") or DEFAULT_TASK) if outputs else UNKNOWN


def build(activity: Activity, listed: Listed, tasks: Mapping[str, str]) -> Models:
    """The rows of everything that is listed or was measured. `tasks`: of runs of models that no manifest describes."""
    entries = {entry.full_ref: entry for entry in listed.entries}
    unlisted = {ref: None for ref in activity.models if ref not in entries}
    rows = [_row(ref, entry, activity.models.get(ref), tasks) for ref, entry in (entries | unlisted).items()]
    rows.sort(key=lambda row: (row.ref.lower(), row.ref))
    return Models(activity, listed, rows)


def _task(entry: Entry | None, measured: ModelActivity | None, tasks: Mapping[str, str]) -> str:
    if entry is not None and entry.described:
        return task_of(entry.manifest)
    return UNKNOWN if measured is None else tasks.get(measured.last_run, UNKNOWN)


def _row(ref: str, entry: Entry | None, measured: ModelActivity | None, tasks: Mapping[str, str]) -> ModelRow:
    reference = parse(ref)
    manifest = entry.manifest if entry is not None else None
    own = measured.formats if measured is not None else ()
    formats = [asset.format for asset in manifest.assets] if manifest else sorted(own)
    runtimes, datasets = (sorted(measured.runtimes), sorted(measured.datasets)) if measured is not None else ([], [])
    licence = (manifest.license if manifest else None) or UNKNOWN
    description = manifest.description if manifest else ""
    return ModelRow(
        ref=ref,
        zoo=reference.zoo or "",
        name=bare(ref).partition(":")[2] or ref,
        version=reference.version or "",
        listed=entry is not None,
        task=_task(entry, measured, tasks),
        formats=tuple(dict.fromkeys(formats)),
        licence=licence,
        params=params_of(manifest) if manifest else None,
        bytes=_bytes(entry) if entry else None,
        claimed_top1=manifest.claimed("top1") if manifest else None,
        description=description,
        runs=measured.runs if measured is not None else 0,
        latest=measured,
        runtimes=tuple(runtimes),
        datasets=tuple(datasets),
        activity=measured.recent if measured is not None else (),
        entry=entry,
        text="\n".join(
            text[:_SEARCHED] for text in (ref, description, licence, *formats, *runtimes, *datasets)
        ).lower(),
    )


def _bytes(entry: Entry) -> int | None:
    """Size of the files of the first asset, where the manifest tells it of each. A tokenizer is not counted."""
    for asset in entry.manifest.assets[:1]:
        sizes = [file.bytes for file in asset.files if file.role != TOKENIZER]
        if None not in sizes:
            return sum(size for size in sizes if size is not None)
    return None
