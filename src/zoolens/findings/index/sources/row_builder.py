"""Rows from the store: what was observed of every model, in every environment, and nothing besides.

A model in an environment is one row, whichever dataset it was measured on: its latency of one run, its size of another.
Figures about data (accuracy) are taken from the run on the probes; those of other data are named after it:
"top1@cifar10". Models that were never run are rows where their structure or their zoo's claims are known.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from zoolens.base.errors import ZoolensError
from zoolens.base.progress import Progress, Silent
from zoolens.base.store.figures import FigureKinds, RunFigures
from zoolens.base.store.records import Run, RunKind, is_disturbed
from zoolens.base.store.scopes import Dimension, parse_scope
from zoolens.base.store.store import Store
from zoolens.findings.index.sources.aliases import Aliases, stored_aliases
from zoolens.findings.index.sources.attributes import manifest_of, run_attributes, split_ref
from zoolens.findings.index.sources.claims import claimed_figures
from zoolens.findings.index.sources.class_spaces import ClassSpaces, Space
from zoolens.findings.index.sources.row_cache import (
    Group,
    KeptRows,
    MadeRow,
    RowsFile,
    made_table,
    still_true,
)
from zoolens.findings.index.sources.run_table import KnownRuns, RunTable, grouped, run_table
from zoolens.findings.index.sources.stored_figures import (
    Named,
    Naming,
    chosen_figures,
    figure_name,
    merged,
    own_figures,
    with_further,
)
from zoolens.findings.index.sources.structures import Structures, architecture_keys, known_structures
from zoolens.findings.index.tables.row_table import RowTable, stacked_tables, table_of
from zoolens.findings.index.tables.rows import Figure, Row
from zoolens.findings.measure.class_order import stored_translation
from zoolens.findings.measure.latency import LatencySamples, latency_observations

# All rows to figures of provenance ESTIMATED, by the row's key: what was measured of some tells how good they are.
Estimator = Callable[[RowTable], Mapping[str, Mapping[str, Figure]]]
Facts = Mapping[str, RunFigures]  # by run

_AT_ONCE: Final = 250  # groups of runs
_KEPT_AFTER: Final = 20  # times as many, and half of what is kept: all of it is written again
# Figures of our reading of a structure, not of the model.
_OURS = ("export_time", "uncounted_operators", "graph_operators")
_BOUNDS = ("flops", "activation_bytes", "peak_bytes")  # lower bounds where a structure has operators nobody knows


def rows_from(
    store: Store,
    probes: Collection[str] = (),
    *,
    estimators: Iterable[Estimator] = (),
    cache: Path | None = None,
    watcher: Progress | None = None,
) -> RowTable:
    """Every row that the store knows. Rows of the runs in `probes`, which are all on one dataset, have a signature.
    `cache` is a file with the rows of the last call: only rows about which something new is known are made again."""
    watcher = watcher or Silent()
    # First: what comes after its mark is looked at again next time.
    known = run_table(store, watcher)
    names = stored_aliases(store)
    structures = known_structures(store, names)
    file = None if cache is None else RowsFile(cache, store.shared_dataset_names())
    kept = None if file is None else _kept(store, known, names, file)
    measured = _named(_measured(store, known, structures, probes, kept, file, watcher), names)
    facts = _facts(store, [run.id for run in structures.runs])
    claimed = list(_claimed(store, facts, structures, _bare(measured)))
    used = {str(structure) for structure in measured.columns["structure"].values}
    used |= {figure.source for row in claimed for figure in row.figures.values()}
    rows = stacked_tables([measured, table_of(claimed)])
    rows = stacked_tables([rows, table_of(list(_structural(facts, structures, used, _bare(rows))))])
    for estimate in estimators:
        rows = _with_guesses(rows, estimate(rows))
    sorting = (rows.columns["ref"].to_list(), rows.attribute("runtime").to_list(), rows.columns["key"].to_list())
    keys = [(ref, runtime or "", key) for ref, runtime, key in zip(*sorting, strict=True)]
    return rows.take(np.array(sorted(range(len(rows)), key=keys.__getitem__), np.int64))


def _bare(rows: RowTable) -> set[str]:
    """The reference of every row without its version: zoo:name."""
    return {ref.partition("@")[0] for ref in rows.refs}


def _named(rows: RowTable, names: Aliases) -> RowTable:
    """Add to each row the other names under which its content was measured."""
    several = {model: known for model, known in names.items() if len(known) > 1}
    pairs = zip(rows.columns["model"].to_list(), rows.columns["ref"].to_list(), strict=True)
    others = ([name for name in several.get(model, ()) if name != ref] for model, ref in pairs)
    return rows.with_column("also", (json.dumps(also) if also else None for also in others))


def _with_guesses(rows: RowTable, guesses: Mapping[str, Mapping[str, Figure]]) -> RowTable:
    """Add estimated figures to the rows. A figure of a better provenance stays."""
    places = np.flatnonzero(rows.columns["key"].rows_among(guesses)).tolist() if guesses else []
    added = {}
    for place in places:
        row = rows[place]
        both = merged(row.figures.items(), guesses[row.key].items())
        added[place] = {name: figure for name, figure in both.items() if row.figures.get(name) != figure}
    return rows.with_figures(added)


# --- models that were run


def _measured(
    store: Store,
    known: KnownRuns,
    structures: Structures,
    probes: Collection[str],
    kept: RowTable | None,
    file: RowsFile | None,
    watcher: Progress,
) -> RowTable:
    """The rows of all measured models. `kept` are rows of the last call that still hold; new ones go to `file`."""
    runs = known.table
    chosen: dict[Group, str] = {}
    for run in np.flatnonzero(runs.id.rows_among(probes)).tolist():
        chosen[str(runs.model[run]), str(runs.stack[run])] = str(runs.id[run])
    places: dict[Group, int] = {}
    if kept is not None:
        groups = zip(*(kept.columns[name].to_list() for name in ("model", "stack", "probe")), strict=True)
        places = {
            (model, stack): place
            for place, (model, stack, probe) in enumerate(groups)
            if chosen.get((model, stack)) == probe
        }
    going, missing = [], []
    datasets = store.dataset_names()
    for group, members in grouped(runs, probes):
        if group in places:
            going.append(places[group])
        else:
            missing.append((group, [_member(runs, run, datasets) for run in members.tolist()]))
    table = made_table([]) if kept is None else kept.take(np.array(sorted(going), np.int64))
    fresh: list[RowTable] = []
    changed = kept is None or len(table) < len(kept)
    for made in _worked_out(store, structures, missing, chosen, watcher):
        fresh.append(made)
        changed |= bool(len(made))
        if file is not None and sum(map(len, fresh)) >= max(_KEPT_AFTER * _AT_ONCE, len(table) // 2):
            # Who is interrupted goes on from here.
            table, fresh = stacked_tables([table, *fresh]), []
            file.write(KeptRows(known.mark, store.newest(), table))
            changed = False
    table = stacked_tables([table, *fresh])
    if file is not None and changed:
        file.write(KeptRows(known.mark, store.newest(), table))
    return table


class Member(NamedTuple):
    """What the figures of a row depend on in each of its runs, besides the figures themselves."""

    id: str
    dataset: str  # what its dataset is called
    trained: bool
    misjudged: bool
    renamable: bool


def _member(runs: RunTable, run: int, datasets: Mapping[str, str]) -> Member:
    flags = (bool(flag[run]) for flag in (runs.trained, runs.misjudged, runs.renamable))
    return Member(str(runs.id[run]), datasets[str(runs.dataset[run])], *flags)


def _kept(store: Store, known: KnownRuns, names: Aliases, file: RowsFile) -> RowTable | None:
    """The rows in the cache file about which nothing new is known."""
    kept = file.read()
    if kept is None or not store.continues(kept.newest):
        return None
    runs = known.table
    changed = np.flatnonzero(runs.id.rows_among(store.changed_since(kept.mark)[1])).tolist()
    ran = runs.measured | runs.answered
    models = {str(runs.model[run]) for run in changed if ran[run]}
    structures = {str(runs.model[run]) for run in changed if not ran[run]}
    # One file may have several names.
    refs = {ref for model in structures for ref in names.get(model, ())}
    return kept.table.where(still_true(kept.table, models, structures, refs))


def _worked_out(
    store: Store,
    structures: Structures,
    groups: Sequence[tuple[Group, list[Member]]],
    probes: Mapping[Group, str],
    watcher: Progress,
) -> Iterator[RowTable]:
    """Rows from the observations of their runs, some at a time: all facts of a large store would not fit in memory."""
    if not groups:
        return
    of_structures = _facts(store, [run.id for run in structures.runs])
    spaces = ClassSpaces()
    watcher.begin("index", "rows", len(groups))
    for start in range(0, len(groups), _AT_ONCE):
        batch = groups[start : start + _AT_ONCE]
        facts = {**of_structures, **_facts(store, [member.id for _, members in batch for member in members])}
        known = [_known(members, facts, probes.get(group)) for group, members in batch]
        # Of most runs nothing more is needed than their figures.
        looked_at = {member.id for members in known for member in members[:1]}
        looked_at |= {member.id for members in known for member in members if member.renamable}
        runs = {run.id: run for run in store.runs_of(sorted(looked_at), stages=False)}
        made = []
        for (group, _), members in zip(batch, known, strict=True):
            if members:
                space = spaces.of(runs[members[0].id]) if group in probes else None
                made.append(_row(store, facts, structures, group, members, runs, space))
        watcher.advance(len(batch))
        yield made_table(made)
    watcher.end()


def _known(members: Sequence[Member], facts: Facts, probe: str | None) -> list[Member]:
    """The runs of a row that say anything of it, the one with answers to the probes first."""
    ordered = sorted(members, key=lambda member: member.id != probe)
    return [member for member in ordered if member.id in facts or member.id == probe]


def _facts(store: Store, runs: Collection[str]) -> dict[str, RunFigures]:
    return {found.run: found for found in store.figures(runs)}


def _row(
    store: Store,
    facts: Facts,
    structures: Structures,
    group: Group,
    members: Sequence[Member],
    runs: Mapping[str, Run],
    space: Space | None,
) -> MadeRow:
    """Make one row from its runs. Where there is a `space`, the first run has answers to the probes, in its classes."""
    answered, named = space is not None, runs[members[0].id]
    manifest = manifest_of(named)
    structure = structures.of(named.ref, manifest, named.model)
    observed = _observed(store, facts, [_looked_up(member, runs) for member in members], answered=answered)
    figures = with_further(observed, _structure_figures(facts, structure), claimed_figures(manifest, ran=True))
    return MadeRow(
        group,
        probe=named.id if answered else None,
        structure=None if structure is None else structure.id,
        architectures=tuple(architecture_keys(manifest)),
        row=Row(named.id, named.key.model, named.ref, run_attributes(named), figures, signature=answered),
        space=space,
        fleeting=any(member.renamable for member in members),
    )


def _looked_up(member: Member, runs: Mapping[str, Run]) -> Member:
    """A run whose class names lie in a file is judged by what the file says now."""
    if not member.renamable:
        return member
    return member._replace(misjudged=stored_translation(runs[member.id]) is not None)


def _observed(store: Store, facts: Facts, members: Sequence[Member], *, answered: bool) -> Mapping[str, Figure]:
    """The figures of a row's runs. If `answered`, those about data count as they are in the first of them."""
    found = [
        (facts[run.id], Naming(run.dataset, answered and not place, run.trained, run.misjudged))
        for place, run in enumerate(members)
        if run.id in facts
    ]
    if not any(_lacking_p95(figures.kinds) for figures, _ in found):
        return chosen_figures(found)
    parts: list[Iterable[Named]] = []
    for figures, naming in found:
        parts.append(chosen_figures([(figures, naming)]).items())
        parts += [_missing_p95(store, figures.run, batch) for batch in _lacking_p95(figures.kinds)]
    return merged(*parts)


@lru_cache(4_096)
def _lacking_p95(kinds: FigureKinds) -> tuple[int, ...]:
    """Batch sizes of which there is a median latency, but no latency_p95: they were measured before this metric
    existed."""
    scopes = {kind.scope for kind in kinds if kind.metric == "latency_p95"}
    medians = {kind.scope for kind in kinds if kind.metric == "latency_p50"} - scopes
    of_batches = [scope for scope in map(parse_scope, sorted(medians)) if scope.dimension is Dimension.BATCH]
    return tuple(scope.number for scope in of_batches if scope.number is not None and not scope.raw)


def _missing_p95(store: Store, run_id: str, batch: int) -> Iterator[Named]:
    """Compute latency_p95 from the stored samples."""
    try:
        samples = LatencySamples.from_table(store.table(run_id, f"latency-batch{batch}"))
    except ZoolensError:
        # The file is damaged or was not brought along.
        return
    for observation in latency_observations(samples, batch):
        if observation.metric != "latency_p95" or parse_scope(observation.scope).raw:
            continue
        if observation.value is not None:
            figure = Figure(
                observation.value, observation.unit, observation.provenance, observation.low, observation.high,
                source=run_id,
                disturbed=is_disturbed(observation),
            )  # fmt: skip
            yield figure_name(observation.metric, observation.scope), figure


# --- models that were never run


def _claimed(store: Store, facts: Facts, structures: Structures, measured: set[str]) -> Iterator[Row]:
    """Models of which only their zoo's claims are known, and perhaps the structure; the newest claims count."""
    seen = set(measured)
    for run in store.runs(kind=RunKind.CLAIM):
        ref, _, _ = run.model.ref.partition("@")
        if ref in seen:
            continue
        seen.add(ref)
        manifest = run.model.manifest
        structure = structures.of(run.model.ref, manifest)
        figures = merged(_structure_figures(facts, structure), claimed_figures(manifest, ran=False))
        yield Row(run.id, run.model.fingerprint, run.model.ref, run_attributes(run), figures)


def _structural(facts: Facts, structures: Structures, used: set[str], named: set[str]) -> Iterator[Row]:
    """Structures that belong to no other row; of several image sizes the one that was read last."""
    for run in structures.runs:
        ref, _, _ = run.model.ref.partition("@")
        if run.id not in used and ref not in named:
            named.add(ref)
            figures = merged(_structure_figures(facts, run))
            yield Row(run.id, run.model.fingerprint, run.model.ref, _structural_attributes(run), figures)


def _structural_attributes(run: Run) -> dict[str, str | float | bool]:
    zoo, name, version = split_ref(run.model.ref)
    known = {"ref": run.model.ref, "zoo": zoo, "name": name, "version": version, "format": run.model.format}
    known["input"] = run.dataset.name.removeprefix("structure").removeprefix(" at ")
    return {name: value for name, value in known.items() if value}


def _structure_figures(facts: Facts, structure: Run | None) -> Iterator[Named]:
    """What was counted of a structure. A lower bound is no figure: a query would take it for the cost."""
    counted = own_figures(facts.get(structure.id)) if structure is not None else {}
    values = {name: figure.value or 0.0 for name, figure in counted.items()}
    unknown = values.get("unknown_operators", 0.0)
    # Structures of older versions do not distinguish them.
    uncounted = values.get("uncounted_operators", unknown)
    bounds = {name for name in _BOUNDS if unknown} | ({"macs"} if uncounted else set())
    bounds |= {"parameters"} if values.get("graph_operators") else set()
    for name, figure in counted.items():
        if name not in _OURS and name not in bounds:
            yield name, figure
