"""One row for each model of every zoo and of the store, in memory: what the page of models searches and counts."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from zoolens.catalog.names import bare, parse
from zoolens.store.records import RunKind
from zoolens.store.summaries import RunSummary
from zoolens.ui.run_table import Runs, RunTable
from zoolens.ui.zoo_listing import Listed, ZooListing
from zoolens.zoos.base import Entry
from zoolens.zoos.listing import params_of

BARS: Final = 16  # of a sparkline
UNKNOWN: Final = ""  # the value of a facet that a model does not tell
_SIZES: Final = ((1e6, "<1M"), (1e7, "1M-10M"), (1e8, "10M-100M"), (float("inf"), ">100M"))


@dataclass(frozen=True)
class ModelRow:
    """One name of a model, `ref` being zoo:name@version. `activity`: how many runs there were in each of 16 equal
    stretches of time from the store's first run until its last. `latest`: the newest run. `listed`: a zoo of this
    machine has it; otherwise only the store knows it. `text` is what a search looks through."""

    ref: str
    zoo: str
    name: str
    version: str
    listed: bool
    task: str = UNKNOWN
    formats: tuple[str, ...] = ()
    licence: str = UNKNOWN
    weights: str = UNKNOWN
    params: float | None = None
    bytes: int | None = None
    claimed_top1: float | None = None
    description: str = ""
    runs: int = 0
    latest: RunSummary | None = None
    runtimes: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    activity: tuple[int, ...] = ()
    text: str = ""

    @property
    def size(self) -> str:
        """Which facet of sizes the number of parameters falls into."""
        if self.params is None:
            return UNKNOWN
        return next(name for limit, name in _SIZES if self.params < limit)


@dataclass(frozen=True, eq=False)
class Models:
    """All rows in the order of their names, and when the sparklines begin and end."""

    version: tuple[int, int]
    rows: Sequence[ModelRow]
    since: datetime | None = None
    until: datetime | None = None
    notes: Sequence[str] = ()
    complete: bool = False


@dataclass
class ModelIndex:
    """`models()` is made anew when the store or the listing of the zoos has changed; threads may share it."""

    table: RunTable
    zoos: ZooListing
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _models: Models = field(default_factory=lambda: Models((-1, -1), ()))

    def models(self) -> Models:
        runs, listed = self.table.runs(), self.zoos.listed
        with self._lock:
            if self._models.version != (runs.version, listed.version):
                self._models = build(runs, listed)
            return self._models


def build(runs: Runs, listed: Listed) -> Models:
    """The rows of everything that is listed or was measured."""
    measured = [run for run in runs.ordered if run.kind is RunKind.EVALUATION]
    times = [run.created for run in measured]
    since, until = (min(times), max(times)) if times else (None, None)
    by_name = _by_name(measured, runs.names)
    entries = {entry.full_ref: entry for entry in listed.entries}
    rows = [_row(ref, entry, by_name.get(ref, ()), since, until) for ref, entry in entries.items()]
    rows += [_row(ref, None, own, since, until) for ref, own in by_name.items() if ref not in entries]
    rows.sort(key=lambda row: (row.ref.lower(), row.ref))
    return Models((runs.version, listed.version), rows, since, until, listed.notes, listed.complete)


def _by_name(measured: Iterable[RunSummary], names: Mapping[str, frozenset[str]]) -> dict[str, list[RunSummary]]:
    """Evaluations by every name that their model's content has."""
    by_name: dict[str, list[RunSummary]] = {}
    for run in measured:
        for name in names.get(run.model) or (run.ref,):
            by_name.setdefault(name, []).append(run)
    return by_name


def _row(
    ref: str, entry: Entry | None, runs: Sequence[RunSummary], since: datetime | None, until: datetime | None
) -> ModelRow:
    reference = parse(ref)
    manifest = entry.manifest if entry is not None else None
    formats = [asset.format for asset in manifest.assets] if manifest else [run.format for run in runs]
    runtimes, datasets = (sorted({getattr(run, name) for run in runs}) for name in ("runtime", "dataset_name"))
    licence = (manifest.license if manifest else None) or UNKNOWN
    description = manifest.description if manifest else ""
    return ModelRow(
        ref=ref,
        zoo=reference.zoo or "",
        name=bare(ref).partition(":")[2] or ref,
        version=reference.version or "",
        listed=entry is not None,
        task=manifest.task if manifest and entry and entry.described else UNKNOWN,
        formats=tuple(dict.fromkeys(formats)),
        licence=licence,
        weights=entry.weights.value if entry else UNKNOWN,
        params=params_of(manifest) if manifest else None,
        bytes=_bytes(entry) if entry else None,
        claimed_top1=manifest.claimed("top1") if manifest else None,
        description=description,
        runs=len(runs),
        latest=max(runs) if runs else None,
        runtimes=tuple(runtimes),
        datasets=tuple(datasets),
        activity=_activity(runs, since, until),
        text="\n".join((ref, description[:2000], licence, *formats, *runtimes, *datasets)).lower(),
    )


def _bytes(entry: Entry) -> int | None:
    """Size of the files of the first asset, where the manifest tells it of each."""
    for asset in entry.manifest.assets[:1]:
        sizes = [file.bytes for file in asset.files]
        if None not in sizes:
            return sum(size for size in sizes if size is not None)
    return None


def _activity(runs: Sequence[RunSummary], since: datetime | None, until: datetime | None) -> tuple[int, ...]:
    if not runs or since is None or until is None:
        return ()
    span = (until - since).total_seconds() or 1.0
    places = Counter(min(BARS - 1, int(BARS * (run.created - since).total_seconds() / span)) for run in runs)
    return tuple(places.get(place, 0) for place in range(BARS))
