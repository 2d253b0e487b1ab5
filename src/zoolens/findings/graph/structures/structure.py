"""The structure of models, read once and kept in the store as an observation like any other.

A structure is a run: of the model (library and architecture, or the content of a file), "on" its image size, by a
stack of importer, package versions and version of our graph. Its canonical graph is a bulk fact, its cost figures are
observations of the stage "structure". What is in the store is not read again, and an interrupted call has kept all it
had done. A failure is kept too, as the sentence that says why, and tried again only when `fresh` asks for it or a
version changes: a model that takes five minutes to fail would otherwise do so at every audit. What was circumstance
(no network to make an environment, a package that is not installed) is never kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from zoolens.base.engine.environments import confirm_environment
from zoolens.base.errors import ModelError, ZoolensError
from zoolens.base.progress import Progress, Silent
from zoolens.base.safety.consent import NotGranted
from zoolens.base.store.records import DONE, Observation, Run, RunKey, RunKind, Stage
from zoolens.base.store.store import Store, borrowed_store
from zoolens.base.store.target import resolve
from zoolens.findings.graph.cost.cost import cost, holds_graph
from zoolens.findings.graph.ir.model import Graph
from zoolens.findings.graph.ir.serialisation import unpack
from zoolens.findings.graph.structures.export import export_many
from zoolens.findings.graph.structures.export_pool import Exported, ExportJob
from zoolens.findings.graph.structures.structure_sources import Extents, Size, Source, find_entries, source_of
from zoolens.inventory.catalog.lookup import Model
from zoolens.inventory.zoos.zoo import Entry

STAGE: Final = Stage.STRUCTURE
KIND: Final = "graph"
MAX_SIDE: Final = 1 << 15  # of an image, in pixels: a framework that cannot trace without data allocates it
_MOST_ELEMENTS: Final = 1 << 28  # of one input


@dataclass(frozen=True)
class Structure:
    """What is known of one model: a graph with its figures (macs, flops, parameters, …), or why there is none."""

    entry: Entry
    source: Source | None = None
    run: str | None = None  # id in the store
    packed: bytes | None = field(default=None, repr=False)
    figures: Mapping[str, float] = field(default_factory=dict)
    error: str | None = None
    kept: bool = False  # found in the store

    @property
    def ref(self) -> str:
        return self.entry.full_ref

    @cached_property
    def graph(self) -> Graph:
        """The canonical graph; a ModelError that says why there is none."""
        if self.packed is None:
            raise ModelError(self.error or f"The structure of {self.ref} is not known.")
        return unpack(self.packed)


def structure_of(
    models: Iterable[Model] | Model,
    *,
    store: Store | str | Path | None = None,
    size: int | Size | None = None,
    extents: Extents | None = None,
    fresh: bool = False,
    progress: Progress | None = None,
    workers: int | None = None,
) -> list[Structure]:
    """The structure of every model named (references, patterns, entries, paths), from the store or read now.

    `size`: of the image, instead of each model's own. `extents`: shapes of inputs that a file leaves open. `fresh`:
    read again what is there, also what failed.
    """
    _check_extents(extents or {})
    entries = find_entries([models] if isinstance(models, str | Path | Entry) else models)
    chosen = _image_size(size)
    wanted = [_wanted(entry, chosen, extents) for entry in entries]
    first: dict[RunKey, Structure] = {}
    for structure in wanted:
        if structure.source is not None:
            first.setdefault(structure.source.key, structure)
    with borrowed_store(store) as opened:
        known = {} if fresh else _kept(opened, first)
        unread = {key: structure for key, structure in first.items() if key not in known}
        known |= _read_now(opened, unread, progress, workers)
    found = [
        structure if structure.source is None else replace(known[structure.source.key], entry=structure.entry)
        for structure in wanted
    ]
    _check_inputs(found, extents or {})
    return found


def kept_structure(entry: Entry, *, store: Store | str | Path | None = None) -> Structure | None:
    """The structure of a model if it was read before; nothing is read now, and no store is made to look for it."""
    wanted = _wanted(entry, None)
    if wanted.source is None or (store is None and _is_absent(resolve(None).path)):
        return None
    with borrowed_store(store) as opened:
        return _kept(opened, {wanted.source.key: wanted}).get(wanted.source.key)


def known_structure(entry: Entry, store: Store) -> Structure:
    """What is known of a model, where nothing is read now. Without a graph and without an error, its network can be
    read but was not."""
    wanted = _wanted(entry, None)
    if wanted.source is None:
        return wanted
    return _kept(store, {wanted.source.key: wanted}, runtime=wanted.source.stack.runtime).get(wanted.source.key, wanted)


def _is_absent(path: Path | None) -> bool:
    return path is not None and not path.exists()


def graph_of(
    model: Model,
    *,
    store: Store | str | Path | None = None,
    size: int | Size | None = None,
    extents: Extents | None = None,
    fresh: bool = False,
    progress: Progress | None = None,
) -> Graph:
    """The canonical graph of one model."""
    structures = structure_of(model, store=store, size=size, extents=extents, fresh=fresh, progress=progress)
    if len(structures) > 1:
        raise ModelError(f"{model} names {len(structures)} models.", hint="Name a single model.")
    return structures[0].graph


def _image_size(size: int | Size | None) -> Size | None:
    sides = (size, size) if isinstance(size, int) else size
    if sides is not None and not all(1 <= side <= MAX_SIDE for side in sides):
        words = "×".join(f"{side:,}" for side in sides)
        raise ModelError(f"Image sides must be 1 to {MAX_SIDE:,} pixels; got {words}.", hint="Give another size.")
    return sides


def _check_extents(extents: Extents) -> None:
    """Refuses shapes that no input has, or for which some framework would allocate more than a machine has."""
    for name, shape in extents.items():
        what = f" of {name[:60]}" if name else ""
        words = "×".join(f"{extent:,}" for extent in shape)
        if any(extent < 1 for extent in shape) or math.prod(shape) > _MOST_ELEMENTS:
            raise ModelError(f"The shape {words}{what} has no numbers, or more than {_MOST_ELEMENTS:,}.")


def _check_inputs(structures: Iterable[Structure], extents: Extents) -> None:
    """Refuses a shape that no input of the networks has: one that is not used must not seem so."""
    if not extents:  # no graph is unpacked for nothing
        return
    graphs = [structure.graph for structure in structures if structure.packed is not None]
    inputs = [(node.source or node.name, node.shape) for graph in graphs for node in graph.inputs]
    for name, shape in extents.items():
        own = [found for other, found in inputs if name in ("", other)]
        # A canonical graph has axes in an order of its own.
        if graphs and not any(sorted(found) == sorted(shape) for found in own):
            known = ", ".join(dict.fromkeys(f"{other[:60]} {_times(found)}" for other, found in inputs))
            what = f"input {name[:60]!r}" if name else "input"
            raise ModelError(f"There is no {what} of {_times(shape)}: the inputs at batch 1 are {known}.")


def _times(shape: Iterable[int]) -> str:
    return "×".join(map(str, shape)) or "one number"


def _wanted(entry: Entry, size: Size | None, extents: Extents | None = None) -> Structure:
    """The model with its source, or with the reason why it has none."""
    try:
        source = source_of(entry, size, extents)
        _ = source.key  # needs the versions of its packages, which may not be installed
    except ZoolensError as error:
        return Structure(entry, error=str(error))
    return Structure(entry, source)


# --- what is there


def _kept(store: Store, wanted: Mapping[RunKey, Structure], *, runtime: str | None = None) -> dict[RunKey, Structure]:
    """The wanted structures that the store has, by their keys; `runtime` narrows the search where all have one."""
    runs = {key: run for key, run in _latest(store, runtime).items() if key in wanted}
    figures = store.observations_by_run([run.id for run in runs.values()])
    kept = {}
    for key, run in runs.items():
        structure = _from_store(store, wanted[key], run, figures.get(run.id, ()))
        if structure is not None:
            kept[key] = structure
    return kept


def _latest(store: Store, runtime: str | None) -> dict[RunKey, Run]:
    """All structure runs that came to an end, of several attempts the last."""
    latest: dict[RunKey, Run] = {}
    for run in store.runs(kind=RunKind.STRUCTURE, runtime=runtime):
        first = replace(run.key, attempt=0)
        if STAGE in run.stages and (first not in latest or latest[first].key.attempt < run.key.attempt):
            latest[first] = run
    return latest


def _from_store(store: Store, wanted: Structure, run: Run, known: Iterable[Observation]) -> Structure | None:
    """Reads a graph from the store; None: its file is damaged or was not brought along; it can be read again."""
    if STAGE in run.failures:
        return replace(wanted, run=run.id, error=run.failures[STAGE], kept=True)
    try:
        packed = store.table(run.id, KIND).column(KIND)[0].as_py()
    except ZoolensError:
        return None
    return replace(wanted, run=run.id, packed=packed, figures=_by_metric(known), kept=True)


def _by_metric(observations: Iterable[Observation]) -> dict[str, float]:
    return {observation.metric: observation.value for observation in observations if observation.value is not None}


# --- what is not


def _read_now(
    store: Store, wanted: Mapping[RunKey, Structure], progress: Progress | None, workers: int | None
) -> dict[RunKey, Structure]:
    if not wanted:
        return {}
    structures = {key: denied for key, structure in wanted.items() if (denied := _denied(structure)) is not None}
    wanted = {key: structure for key, structure in wanted.items() if key not in structures}
    watcher = progress or Silent()
    watcher.begin("structure", "reading", len(wanted))
    try:
        for done in export_many(_jobs(wanted), workers=workers, say=watcher.say):
            key = done.job.key
            structures[key] = _keep(store, wanted[key], done)
            watcher.advance(1)
    finally:
        watcher.end()
    return structures


def _denied(wanted: Structure) -> Structure | None:
    """The model with the reason why it is not read: its manifest asks for packages that the user does not want."""
    source = wanted.source
    if source is None or source.environment is None or source.asked_by is None:
        return None
    try:
        confirm_environment(source.environment, (), source.asked_by)
    except NotGranted as error:
        return replace(wanted, error=str(error))
    return None


def _jobs(wanted: Mapping[RunKey, Structure]) -> Iterator[ExportJob[RunKey]]:
    for key, structure in wanted.items():
        if (source := structure.source) is not None:
            yield ExportJob(key, source.point, source.request, source.environment, source.weight)


def _keep(store: Store, wanted: Structure, done: Exported[RunKey]) -> Structure:
    if done.circumstantial:
        return replace(wanted, error=done.reason)
    run = _begin(store, wanted.source)
    if done.packed is None:
        store.fail_stage(run.id, STAGE, done.reason or "")
        return replace(wanted, run=run.id, error=done.reason)
    observations = list(_figures(unpack(done.packed), done.seconds))
    store.add_part(run.id, KIND, 0, _table(done.packed))
    store.finish_stage(run.id, STAGE, observations)
    return replace(wanted, run=run.id, packed=done.packed, figures=_by_metric(observations))


def _begin(store: Store, source: Source | None) -> Run:
    """The run of this source; a new attempt where there is a finished one that is not wanted or lost its graph."""
    assert source is not None  # what has none is never read
    run = store.begin_run(source.model, source.dataset, source.stack, kind=RunKind.STRUCTURE)
    if run.stages.get(STAGE) != DONE:
        return run
    attempt = store.next_attempt(source.key.model, source.key.dataset, source.key.stack)
    return store.begin_run(source.model, source.dataset, source.stack, kind=RunKind.STRUCTURE, attempt=attempt)


def _table(packed: bytes) -> Any:
    import pyarrow as pa

    return pa.table({KIND: pa.array([packed], pa.binary())})


def _figures(graph: Graph, seconds: float) -> Iterator[Observation]:
    total = cost(graph)
    yield Observation("parameters", float(total.parameters))
    yield Observation("macs", float(total.macs), details={"unknown": dict(total.unknown)})
    yield Observation("flops", float(total.flops), details={"unknown": dict(total.unknown)})
    yield Observation("activation_bytes", float(total.activation_bytes), unit="B")
    yield Observation("peak_bytes", float(total.peak_bytes), unit="B")
    yield Observation("nodes", float(len(graph)))
    yield Observation("unknown_operators", float(sum(total.unknown.values())), details=dict(total.unknown))
    uncounted = {name: times for name, times in total.unknown.items() if name in total.uncounted}
    yield Observation("uncounted_operators", float(sum(uncounted.values())), details=uncounted)
    holding = {name: times for name, times in total.unknown.items() if holds_graph(name)}
    yield Observation("graph_operators", float(sum(holding.values())), details=holding)
    yield Observation("export_time", seconds, unit="s")
