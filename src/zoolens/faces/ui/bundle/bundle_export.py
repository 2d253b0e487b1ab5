"""Write a bundle: a folder with the explorer and the answers to everything that it asks about what was chosen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from zoolens.base.errors import ZoolensError
from zoolens.base.paths import exported_folder
from zoolens.base.progress import Progress, Silent
from zoolens.base.store.store import Store, borrowed_store
from zoolens.base.version import __version__
from zoolens.faces.ui.assets import assets
from zoolens.faces.ui.bundle.contents import BundleContents, BundleRequest, choose
from zoolens.faces.ui.bundle.excerpt import chosen_context, other_runs, runs_of_context
from zoolens.faces.ui.bundle.inputs import data_folders, inputs_left_out, recorded_inputs
from zoolens.faces.ui.bundle.packs import PackWriter
from zoolens.faces.ui.bundle.recording import BundleRecorder
from zoolens.faces.ui.bundle.redaction import Redaction
from zoolens.faces.ui.bundle.requests import is_recorded
from zoolens.faces.ui.bundle.run_paths import private_folders
from zoolens.faces.ui.context import Context
from zoolens.faces.ui.jobs.outputs import printed_by
from zoolens.faces.ui.resources import endpoints
from zoolens.faces.ui.resources.choose import ChooseQuery
from zoolens.faces.ui.resources.choose import choose as choose_by
from zoolens.findings.measure.named_runs import NamedRun, run_text
from zoolens.findings.tracing.stored import Trace
from zoolens.training.crosstrain.training.trials import Study

FORMAT: Final = 1  # of what the index says
_INDEX: Final = "index.html"
_SCRIPT: Final = '<script src="explorer.js" defer></script>'
_LOADED_BEFORE: Final = '<script src="data/index.js" defer></script>\n    '
# As the server's, but that a page on a disk has no origin: its own files are then those of the scheme "file".
_POLICY: Final = (
    "default-src 'none'; script-src 'self' file:; style-src 'self' file:; img-src 'self' file: data:; "
    "base-uri 'none'; form-action 'none'"
)


@dataclass(frozen=True)
class Bundle:
    """What was written."""

    folder: Path
    runs: int
    traces: int
    studies: int
    audits: int
    divergences: int
    reports: int
    queries: int
    files: int
    bytes: int
    # What a reader of the bundle will miss, and why
    notes: tuple[str, ...]


def export_bundle(
    folder: Path | str,
    *,
    runs: Sequence[NamedRun] = (),
    data: str | None = None,
    runtime: str | None = None,
    compare: Sequence[tuple[NamedRun, NamedRun]] = (),
    traces: Sequence[NamedRun | Trace] = (),
    studies: Sequence[str | Study] = (),
    audits: Sequence[str] = (),
    divergences: Sequence[str] = (),
    reports: Sequence[str] = (),
    queries: Sequence[str] = (),
    with_inputs: bool = False,
    store: Store | str | Path | None = None,
    progress: Progress | None = None,
) -> Bundle:
    """Write the explorer with just these runs, traces, studies, audits, comparisons of two environments, reports and
    answers to queries to a folder, which must not exist or be empty. It opens from any web server and from a disk, and
    appears whole or not at all.

    `runs`: ids, the beginnings of ids, "last", or names of models with * and ?; `data` and `runtime` narrow the latter.
    `compare`: pairs of runs; without one, all pairs on the same data where they are few. `audits`, `divergences`: ids
    of jobs of the explorer, or "latest". `reports`: ids of reports that were composed in the explorer. `queries`: in
    the query language, answered over the chosen runs alone, or where none are named over those that the answers list.
    `with_inputs`: also the pictures of the inputs of runs and comparisons, up to a thousand of each.
    """
    wanted = BundleRequest(
        tuple(map(run_text, runs)),
        data,
        runtime,
        tuple((run_text(a), run_text(b)) for a, b in compare),
        tuple(run_text(trace.run if isinstance(trace, Trace) else trace) for trace in traces),
        tuple(study if isinstance(study, str) else study.name for study in studies),
        tuple(audits),
        tuple(divergences),
        tuple(reports),
        tuple(queries),
    )
    with borrowed_store(store, must_exist=True) as opened, exported_folder(Path(folder)) as building:
        chosen = choose(opened, wanted)
        _write(opened, chosen, building, with_inputs=with_inputs, progress=progress or Silent())
        sizes = [path.stat().st_size for path in building.rglob("*") if path.is_file()]
    return Bundle(
        folder=Path(folder),
        runs=len(chosen.runs),
        traces=len(chosen.traces),
        studies=len(chosen.studies),
        audits=len(chosen.audits),
        divergences=len(chosen.divergences),
        reports=len(chosen.reports),
        queries=len(chosen.queries),
        files=len(sizes),
        bytes=sum(sizes),
        notes=chosen.notes,
    )


def _write(store: Store, chosen: BundleContents, folder: Path, *, with_inputs: bool, progress: Progress) -> None:
    _write_explorer(folder)
    writer = PackWriter(folder)
    recorded = [endpoint for resource in endpoints().values() for endpoint in resource if is_recorded(endpoint)]
    allowed = data_folders(chosen) if with_inputs else ()
    with chosen_context(store, chosen, allowed=allowed) as (context, networks):
        _check_queries(context, chosen)
        redaction = Redaction(other_runs(store, context), private_folders(_origins(context, chosen)))
        recorder = BundleRecorder(context, networks, chosen, writer, redaction)
        progress.begin("bundle", "recording", len(recorded), "questions")
        kept: dict[str, Any] = {}
        for endpoint in recorded:
            if (answers := recorder.record(endpoint)) is not None:
                kept[endpoint.template] = answers
            progress.advance(1)
        progress.end()
        kept |= recorded_inputs(recorder, progress) if with_inputs else inputs_left_out(recorder)
        known = {row.ref for row in context.models.models().rows}
    subjects = {
        "run": [run.id for run in chosen.runs],
        "model": [redaction.text(ref) for ref in chosen.models if ref in known],
        "traces": [run.id for run in chosen.traces],
        "studies": [redaction.text(name) for name in chosen.studies],
        "audit": [audit.id for audit in chosen.audits],
        "diverge": [job.id for job in chosen.divergences],
        "reports": list(chosen.reports),
        "choose": [redaction.text(text) for text in chosen.queries] if chosen.runs else [],
    }
    writer.close({"format": FORMAT, "version": __version__, "subjects": subjects, "endpoints": kept})


def _check_queries(context: Context, chosen: BundleContents) -> None:
    """Refuse a query that the chosen runs do not answer: its page would show something else."""
    for text in chosen.queries:
        problem = choose_by(context, ChooseQuery.model_validate({"q": text})).problem
        if problem is not None:
            raise ZoolensError(
                f"The query {text[:200]!r} cannot be answered from the chosen runs alone: {problem.message}",
                hint=problem.hint or "Choose the runs that it is about, too.",
            )


def _origins(context: Context, chosen: BundleContents) -> Iterator[Mapping[str, Any]]:
    """What runs and jobs say of the places of their models and data."""
    for run in runs_of_context(context):
        yield run.origin
    for job in (*chosen.audits, *chosen.divergences):
        yield job.asked()
    for job in chosen.divergences:
        origin = printed_by(job).get("origin")
        if origin:
            yield {"data": origin}


def _write_explorer(folder: Path) -> None:
    for name, asset in assets().items():
        (folder / name).write_bytes(asset.content)
    page = (folder / _INDEX).read_text(encoding="utf-8")
    if _SCRIPT not in page:
        raise ZoolensError("The explorer is not built here.", hint="Run: make ui")
    policy = f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n    '
    page = page.replace("<title>", f"{policy}<title>").replace(_SCRIPT, _LOADED_BEFORE + _SCRIPT)
    (folder / _INDEX).write_text(page, encoding="utf-8")
