"""A context over nothing but what was chosen: a store, a listing of models and a list of jobs of their own.

Whatever an endpoint is asked then, it cannot tell of anything else.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from zoolens.base import plugins
from zoolens.base.errors import ZoolensError
from zoolens.base.store.excerpt import left_out, stored_ids, write_excerpt
from zoolens.base.store.records import Run
from zoolens.base.store.run_columns import RunIndex
from zoolens.base.store.store import Store, open_store
from zoolens.faces.ui.bundle.contents import BundleContents
from zoolens.faces.ui.context import Context, make_context
from zoolens.faces.ui.input_reader import InputReader
from zoolens.faces.ui.jobs.board import JobBoard
from zoolens.faces.ui.live import LiveModels
from zoolens.faces.ui.model_index import ModelIndex
from zoolens.faces.ui.settings import Settings
from zoolens.faces.ui.zoo_listing import Listed, ZooListing
from zoolens.findings.graph.structures.structure import kept_structure
from zoolens.findings.index.index_paths import forget_index
from zoolens.findings.tracing.roofline.attained import peak_threads
from zoolens.findings.tracing.roofline.peaks import stored_peaks
from zoolens.findings.tracing.stored import load_trace
from zoolens.findings.tracing.stored_recording import is_recording
from zoolens.inventory.catalog.names import bare, parse
from zoolens.inventory.zoos.listing import is_kept
from zoolens.inventory.zoos.zoo import Entry
from zoolens.training.crosstrain.study.explanation.stored_explanations import filed_explanations

_NAME: Final = "bundle"  # of the store, as the page shows it
_PATIENCE: Final = 120.0  # seconds for listing the zoos of the models


@contextmanager
def chosen_context(
    store: Store, chosen: BundleContents, *, allowed: Sequence[Path] = ()
) -> Iterator[tuple[Context, Context]]:
    """`allowed`: folders whose data may be read. Gives the context of everything that was chosen, and another that also
    knows the models which findings of audits set against each other: their networks are shown, but they are no models
    of the bundle."""
    with TemporaryDirectory(prefix="zoolens-bundle-") as folder, ExitStack() as stack:
        place = Path(folder)
        compared = {ref for pair in chosen.network_pairs for ref in pair}
        entries = _entries({*chosen.models, *compared})
        target = stack.enter_context(open_store(place / _NAME))
        write_excerpt(
            store,
            target,
            [run.id for run in (*chosen.runs, *chosen.traces)] + [*_structures(store, entries), *_peaks(store, chosen)],
            chosen.studies,
            _explained(store, chosen.studies),
            chosen.reports,
        )
        stack.callback(forget_index, target)
        for job in (*chosen.audits, *chosen.divergences):
            shutil.copytree(job.path, place / "jobs" / job.id)
        settings = Settings(store=place / _NAME)
        own = [entry for entry in entries if entry.full_ref in chosen.models]
        live, jobs = stack.enter_context(LiveModels()), JobBoard(settings, place / "jobs")
        inputs = stack.enter_context(InputReader(allowed))
        context = make_context(settings, RunIndex(target), _listing(own), jobs, live, inputs)
        yield context, replace(context, models=ModelIndex(context.runs, _listing(entries)))


def other_runs(store: Store, context: Context) -> list[str]:
    """The ids of the runs that the context does not know."""
    return left_out(store, context.store)


def runs_of_context(context: Context) -> list[Run]:
    """All runs that the context knows, of every kind."""
    return context.store.runs_of(stored_ids(context.store))


def _listing(entries: Sequence[Entry]) -> ZooListing:
    return ZooListing(listed=Listed(1, entries, complete=True))


def _entries(refs: Collection[str]) -> list[Entry]:
    """What the zoos of this machine say of the models, without those whose framework would have to be imported first:
    who measured or audited one of their models has their listing."""
    known = {name for name in plugins.names(plugins.ZOOS) if is_kept(name)}
    names = sorted({zoo for ref in refs if (zoo := parse(ref).zoo) in known})
    if not names:
        return []
    with ZooListing(names) as listing:
        listing.wait(_PATIENCE)
        listed = listing.listed.entries
    return [entry for entry in listed if entry.full_ref in refs or bare(entry.full_ref) in refs]


def _structures(store: Store, entries: Iterable[Entry]) -> Iterator[str]:
    for entry in entries:
        # Its file is not here, so that nobody knows of which content it is.
        with suppress(ZoolensError):
            structure = kept_structure(entry, store=store)
            if structure is not None and structure.run is not None:
                yield structure.run


def _peaks(store: Store, chosen: BundleContents) -> Iterator[str]:
    """What the machine of the traces can do at its best, for their rooflines."""
    for run in chosen.traces:
        if is_recording(run):
            continue
        with suppress(ZoolensError):
            trace = load_trace(run, store=store)
            peaks = stored_peaks(store, threads=peak_threads(trace), device=trace.device)
            if peaks is not None:
                yield peaks.run


def _explained(store: Store, studies: Iterable[str]) -> list[str]:
    """The studies that hold explanations of the chosen ones."""
    chosen = list(studies)
    return [
        explanation.runs_in
        for name in chosen
        for explanation in filed_explanations(store, name)
        if explanation.runs_in not in chosen
    ]
