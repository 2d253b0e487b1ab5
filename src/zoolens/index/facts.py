"""Rows from the store: what was observed of every model, in every stack, and nothing besides.

A model in a stack is one row, whichever data it was measured on: its latency of one run, its size of another. Figures
about data (accuracy) are taken from the run on the probes; those of other data are named after it: "top1@cifar10".
Models that were never run are rows where their structure or their zoo's claims are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from zoolens.errors import ZoolensError
from zoolens.index.attributes import manifest_of, run_attributes, split_ref
from zoolens.index.claims import claimed_figures
from zoolens.index.figurematrix import kept_figures
from zoolens.index.figures import Fact, Named, figure_name, merged, stored_facts
from zoolens.index.names import Names, stored_names
from zoolens.index.rowcache import Group, KeptRow, read_rows, still_true, write_rows
from zoolens.index.rows import Figure, Row
from zoolens.index.runtable import RunTable, run_table
from zoolens.index.spaces import may_be_renamed
from zoolens.index.structures import Structures, architecture_keys, known_structures
from zoolens.measure.classorder import stored_translation
from zoolens.measure.latency import LatencySamples, latency_observations
from zoolens.store.records import CLAIM_RUNTIME, Run, fingerprint
from zoolens.store.store import Store

# All rows to figures of provenance ESTIMATED, by the row's key: what was measured of some tells how good they are.
Estimator = Callable[[Sequence[Row]], Mapping[str, Mapping[str, Figure]]]
Facts = Mapping[str, Sequence[Fact]]

_AT_ONCE: Final = 1_000  # groups of runs
_OURS = ("export_time",)  # about our reading of a structure, not about the model


def rows_from(
    store: Store, probes: Iterable[Run] = (), *, estimators: Iterable[Estimator] = (), cache: Path | None = None
) -> list[Row]:
    """Every row that the store knows; those of `probes`, runs on one dataset, have a signature. `cache`: a file with
    the rows of before, of which only those are worked out again that something new is known of."""
    structures, names = known_structures(store), stored_names(store)
    found = list(_measured(store, structures, list(probes), cache))
    measured = [_named(one.row, names) for one in found]
    facts = stored_facts(store, [run.id for run in structures.runs])
    claimed = list(_claimed(store, facts, structures, {row.ref.partition("@")[0] for row in measured}))
    rows = [*measured, *claimed]
    used = {one.structure for one in found} | {figure.source for row in claimed for figure in row.figures.values()}
    rows += _structural(facts, structures, used, {row.ref.partition("@")[0] for row in rows})
    for estimate in estimators:
        guesses = estimate(rows)
        rows = [
            replace(row, figures=merged(row.figures.items(), guesses[row.key].items())) if row.key in guesses else row
            for row in rows
        ]
    return sorted(rows, key=lambda row: (row.ref, row.runtime or "", row.key))


def _named(row: Row, names: Names) -> Row:
    also = tuple(name for name in names.get(row.model, ()) if name != row.ref)
    return replace(row, also=also) if also else row


# --- what was run


def _measured(store: Store, structures: Structures, probes: list[Run], cache: Path | None) -> Iterator[KeptRow]:
    table = run_table(store)
    chosen = {(run.key.model, run.key.stack): run for run in probes}
    groups: dict[Group, list[str]] = {key: [run.id] for key, run in chosen.items()}
    for summary in reversed(table.runs.values()):  # newest first: of two figures of one name the newer counts
        if summary.measured:
            ids = groups.setdefault((summary.model, summary.stack), [])
            if summary.id not in ids:
                ids.append(summary.id)
    about = fingerprint(store.shared_dataset_names())  # such datasets are called otherwise, and so are their figures
    kept = _kept(store, table, cache, about) if cache is not None else {}
    missing = []
    for group, ids in groups.items():
        probe = chosen.get(group)
        if group in kept and kept[group].probe == (None if probe is None else probe.id):
            yield kept[group]
        else:
            missing.append((group, ids))
            kept.pop(group, None)
    for found in _worked_out(store, structures, missing, chosen):
        if not found.fleeting:
            kept[found.group] = found
        yield found
    if missing and cache is not None:
        write_rows(cache, about, table.mark, list(kept.values()))


def _kept(store: Store, table: RunTable, cache: Path, about: str) -> dict[Group, KeptRow]:
    mark, kept = read_rows(cache, about)
    if not kept:
        return {}
    changed = [table.runs[one] for one in store.changed_since(mark)[1] if one in table.runs]
    structures = {run.model for run in changed if not run.measured}
    refs = {run.model.ref for run in store.runs_of([run.id for run in changed if not run.measured])}
    return dict(still_true(kept, {run.model for run in changed if run.measured}, structures, refs))


def _worked_out(
    store: Store, structures: Structures, groups: Sequence[tuple[Group, list[str]]], probes: Mapping[Group, Run]
) -> Iterator[KeptRow]:
    """Rows from the observations of their runs, some at a time: all facts of a large store would not fit in memory."""
    of_structures = stored_facts(store, [run.id for run in structures.runs]) if groups else {}
    for start in range(0, len(groups), _AT_ONCE):
        some = groups[start : start + _AT_ONCE]
        ids = [one for _, members in some for one in members]
        facts = {**of_structures, **stored_facts(store, ids)}
        runs = {run.id: run for run in store.runs_of(ids)}
        found = []
        for group, members in some:
            probe = probes.get(group)
            known = [runs[one] for one in members if facts.get(one) or (probe is not None and one == probe.id)]
            if known:
                found.append(
                    _row(store, facts, structures, group, known, probe=None if probe is None else runs[probe.id])
                )
        if len(groups) <= _AT_ONCE:
            yield from found
            continue
        figures = kept_figures([one.row.figures for one in found])  # of a large store not all fit in memory otherwise
        for one, kept in zip(found, figures, strict=True):
            yield replace(one, row=replace(one.row, figures=kept))


def _row(
    store: Store, facts: Facts, structures: Structures, group: Group, runs: Sequence[Run], *, probe: Run | None
) -> KeptRow:
    named = probe or runs[0]
    manifest = manifest_of(named)
    structure = structures.of(named.ref, manifest, named.model)
    observed = (_figures_of(store, facts, run, about_data=run is probe) for run in runs)
    figures = merged(*observed, _structure_figures(facts, structure), claimed_figures(manifest, ran=True))
    return KeptRow(
        group,
        probe=None if probe is None else probe.id,
        structure=None if structure is None else structure.id,
        architectures=tuple(architecture_keys(manifest)),
        row=Row(named.id, named.key.model, named.ref, run_attributes(named), figures, signature=probe is not None),
        fleeting=any(may_be_renamed(run) for run in runs),
    )


def _figures_of(store: Store, facts: Facts, run: Run, *, about_data: bool) -> Iterator[Named]:
    own = facts.get(run.id, ())
    if any(fact.about_data for fact in own) and stored_translation(run) is not None:
        own = [fact for fact in own if not fact.about_data]  # judged in the wrong order of classes
    for fact in own:
        if not fact.about_data or about_data:
            yield fact.name, fact.figure
        if fact.about_data and "@" not in fact.name:
            yield figure_name(fact.name, run.dataset.name), fact.figure
    yield from _missing_p95(store, run, {fact.name for fact in own})


def _missing_p95(store: Store, run: Run, names: set[str]) -> Iterator[Named]:
    """Runs of before `latency_p95` have the samples it is made from."""
    for name in names:
        metric, _, scope = name.partition("@batch=")
        if metric == "latency_p50" and scope.isdecimal() and f"latency_p95@batch={scope}" not in names:
            try:
                samples = LatencySamples.from_table(store.table(run.id, f"latency-batch{scope}"))
            except ZoolensError:
                continue  # the file is damaged or was not brought along
            for one in latency_observations(samples, int(scope)):
                if one.metric == "latency_p95" and one.value is not None and not one.scope.endswith(",raw"):
                    figure = Figure(one.value, one.unit, one.provenance, one.low, one.high, source=run.id)
                    yield figure_name(one.metric, one.scope), figure


# --- what was not


def _claimed(store: Store, facts: Facts, structures: Structures, measured: set[str]) -> Iterator[Row]:
    """Models of which only their zoo's claims are known, and perhaps the structure; the newest claims count."""
    seen = set(measured)
    for run in store.runs(runtime=CLAIM_RUNTIME):
        ref, _, _ = run.model.ref.partition("@")
        if ref in seen:
            continue
        seen.add(ref)
        manifest = run.model.manifest
        structure = structures.of(run.model.ref, manifest)
        figures = merged(_structure_figures(facts, structure), claimed_figures(manifest, ran=False))
        yield Row(run.id, run.model.fingerprint, run.model.ref, run_attributes(run), figures)


def _structural(facts: Facts, structures: Structures, used: set[str | None], named: set[str]) -> Iterator[Row]:
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
    for fact in facts.get(structure.id, ()) if structure is not None else ():
        if fact.name not in _OURS:
            yield fact.name, fact.figure
