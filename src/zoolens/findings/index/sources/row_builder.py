"""Rows from the store: what was observed of every model, in every environment, and nothing besides.

A model in an environment is one row, whichever dataset it was measured on: its latency of one run, its size of another.
Figures about data (accuracy) are taken from the run on the probes; those of other data are named after it:
"top1@cifar10". Models that were never run are rows where their structure or their zoo's claims are known.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from zoolens.base.errors import ZoolensError
from zoolens.base.progress import Progress, Silent
from zoolens.base.store.records import Run, RunKind, is_disturbed
from zoolens.base.store.scopes import Dimension, parse_scope
from zoolens.base.store.store import Store
from zoolens.findings.index.sources.aliases import Aliases, stored_aliases
from zoolens.findings.index.sources.attributes import manifest_of, run_attributes, split_ref
from zoolens.findings.index.sources.claims import claimed_figures
from zoolens.findings.index.sources.class_spaces import Space, class_spaces, may_be_renamed
from zoolens.findings.index.sources.row_cache import (
    Group,
    KeptRows,
    MadeRow,
    made_table,
    read_rows,
    still_true,
    write_rows,
)
from zoolens.findings.index.sources.run_table import KnownRuns, grouped, run_table
from zoolens.findings.index.sources.stored_figures import Fact, Named, figure_name, merged, stored_facts
from zoolens.findings.index.sources.structures import Structures, architecture_keys, known_structures
from zoolens.findings.index.tables.row_table import RowTable, stacked_tables, table_of
from zoolens.findings.index.tables.rows import Figure, Row
from zoolens.findings.measure.class_order import stored_translation
from zoolens.findings.measure.latency import LatencySamples, latency_observations

# All rows to figures of provenance ESTIMATED, by the row's key: what was measured of some tells how good they are.
Estimator = Callable[[RowTable], Mapping[str, Mapping[str, Figure]]]
Facts = Mapping[str, Sequence[Fact]]

_AT_ONCE: Final = 250  # groups of runs
_KEPT_AFTER: Final = 20  # times as many
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
    kept = None if cache is None else _kept(store, known, names, cache)
    measured = _named(_measured(store, known, structures, probes, kept, cache, watcher), names)
    facts = stored_facts(store, [run.id for run in structures.runs])
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
    cache: Path | None,
    watcher: Progress,
) -> RowTable:
    """The rows of all measured models. `kept` are rows of the last call that still hold; new ones go to `cache`."""
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
    for group, members in grouped(runs, probes):
        if group in places:
            going.append(places[group])
        else:
            missing.append((group, [str(runs.id[run]) for run in members.tolist()]))
    table = made_table([]) if kept is None else kept.take(np.array(sorted(going), np.int64))
    fresh: list[RowTable] = []
    changed = kept is None or len(table) < len(kept)
    for made in _worked_out(store, structures, missing, chosen, watcher):
        fresh.append(made)
        changed |= bool(len(made))
        if cache is not None and len(fresh) == _KEPT_AFTER:  # who is interrupted goes on from here
            table, fresh = stacked_tables([table, *fresh]), []
            write_rows(cache, store.shared_dataset_names(), KeptRows(known.mark, store.newest(), table))
            changed = False
    table = stacked_tables([table, *fresh])
    if cache is not None and changed:
        write_rows(cache, store.shared_dataset_names(), KeptRows(known.mark, store.newest(), table))
    return table


def _kept(store: Store, known: KnownRuns, names: Aliases, cache: Path) -> RowTable | None:
    """The rows in the cache file about which nothing new is known."""
    kept = read_rows(cache, store.shared_dataset_names())
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
    groups: Sequence[tuple[Group, list[str]]],
    probes: Mapping[Group, str],
    watcher: Progress,
) -> Iterator[RowTable]:
    """Rows from the observations of their runs, some at a time: all facts of a large store would not fit in memory."""
    if not groups:
        return
    of_structures = stored_facts(store, [run.id for run in structures.runs])
    watcher.begin("index", "rows", len(groups))
    for start in range(0, len(groups), _AT_ONCE):
        batch = groups[start : start + _AT_ONCE]
        ids = [run_id for _, members in batch for run_id in members]
        facts = {**of_structures, **stored_facts(store, ids)}
        runs = {run.id: run for run in store.runs_of(ids)}
        spaces = class_spaces(runs[probes[group]] for group, _ in batch if group in probes)
        made = []
        for group, members in batch:
            probe = probes.get(group)
            first = [probe] if probe is not None else []
            own = dict.fromkeys([*first, *members])
            known = [runs[run_id] for run_id in own if facts.get(run_id) or run_id == probe]
            if known:
                space = None if probe is None else spaces[probe]
                made.append(_row(store, facts, structures, group, known, space, answered=probe is not None))
        watcher.advance(len(batch))
        yield made_table(made)
    watcher.end()


def _row(
    store: Store,
    facts: Facts,
    structures: Structures,
    group: Group,
    runs: Sequence[Run],
    space: Space | None,
    *,
    answered: bool,
) -> MadeRow:
    """Make one row from its runs. If `answered`, the first run has answers to the probes, in the classes of `space`."""
    named, probe = runs[0], runs[0] if answered else None
    manifest = manifest_of(named)
    structure = structures.of(named.ref, manifest, named.model)
    observed = (_figures_of(store, facts, run, about_data=run is probe) for run in runs)
    figures = merged(*observed, _structure_figures(facts, structure), claimed_figures(manifest, ran=True))
    return MadeRow(
        group,
        probe=None if probe is None else probe.id,
        structure=None if structure is None else structure.id,
        architectures=tuple(architecture_keys(manifest)),
        row=Row(named.id, named.key.model, named.ref, run_attributes(named), figures, signature=probe is not None),
        space=space,
        fleeting=any(may_be_renamed(run) for run in runs),
    )


def _figures_of(store: Store, facts: Facts, run: Run, *, about_data: bool) -> Iterator[Named]:
    own = facts.get(run.id, ())
    if any(fact.about_data for fact in own) and stored_translation(run) is not None:
        own = [fact for fact in own if not fact.about_data]  # judged in the wrong order of classes
    for fact in own:
        if not fact.about_data or about_data:
            yield fact.name, fact.figure
        if run.kind is RunKind.TRAINING and fact.name == "accuracy":
            yield "top1", fact.figure
        if fact.about_data and "@" not in fact.name:
            yield figure_name(fact.name, run.dataset.name), fact.figure
    yield from _missing_p95(store, run, {fact.name for fact in own})


def _missing_p95(store: Store, run: Run, names: set[str]) -> Iterator[Named]:
    """Compute latency_p95 from the stored samples of runs that were measured before this metric existed."""
    for name in names:
        metric, _, text = name.partition("@")
        scope = parse_scope(text)
        batch = scope.number if scope.dimension is Dimension.BATCH and not scope.raw else None
        if metric == "latency_p50" and batch is not None and figure_name("latency_p95", text) not in names:
            try:
                samples = LatencySamples.from_table(store.table(run.id, f"latency-batch{batch}"))
            except ZoolensError:
                # The file is damaged or was not brought along.
                continue
            for observation in latency_observations(samples, batch):
                if observation.metric != "latency_p95" or parse_scope(observation.scope).raw:
                    continue
                if observation.value is not None:
                    figure = Figure(
                        observation.value, observation.unit, observation.provenance, observation.low, observation.high,
                        source=run.id,
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
    counted = facts.get(structure.id, ()) if structure is not None else ()
    values = {fact.name: fact.figure.value or 0.0 for fact in counted}
    unknown = values.get("unknown_operators", 0.0)
    # Structures of older versions do not distinguish them.
    uncounted = values.get("uncounted_operators", unknown)
    bounds = {name for name in _BOUNDS if unknown} | ({"macs"} if uncounted else set())
    bounds |= {"parameters"} if values.get("graph_operators") else set()
    for fact in counted:
        if fact.name not in _OURS and fact.name not in bounds:
            yield fact.name, fact.figure
