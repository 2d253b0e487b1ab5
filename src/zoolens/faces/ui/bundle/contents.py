"""What goes into a bundle: the names that a user gives, looked up in the store and among the jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

from zoolens.base.errors import UnknownName, ZoolensError
from zoolens.base.store.composed_reports import load_report
from zoolens.base.store.records import ANSWERING_KINDS, Run, RunKind
from zoolens.base.store.store import Store
from zoolens.faces.ui.jobs.folder import JobFolder, JobState, job_folders
from zoolens.faces.ui.jobs.outputs import printed_by
from zoolens.findings.queries.language.parser import parse
from zoolens.findings.queries.planning.reference import task_category
from zoolens.findings.queries.query import index_for, query
from zoolens.findings.tracing.stored import find_trace

LATEST: Final = "latest"
MOST_PAIRS: Final = 10  # that are compared without being named
MOST_NETWORKS: Final = 200  # pairs of networks of findings
_PATTERN: Final = frozenset("*?:")  # signs that make a name one of models

Pair = tuple[str, str]


@dataclass(frozen=True)
class BundleRequest:
    """What a user names."""

    # Ids, beginnings of ids, "last", or names of models with * and ?, narrowed by `data` and `runtime` (patterns too;
    # without `runs` they stand alone)
    runs: tuple[str, ...] = ()
    data: str | None = None
    runtime: str | None = None
    # Pairs of runs
    compare: tuple[Pair, ...] = ()
    # As `zoolens trace show` takes them
    traces: tuple[str, ...] = ()
    # Names of studies
    studies: tuple[str, ...] = ()
    # `audits`, `divergences`: ids of jobs, or "latest"
    audits: tuple[str, ...] = ()
    divergences: tuple[str, ...] = ()
    # Ids of reports
    reports: tuple[str, ...] = ()
    # In the query language, answered over the chosen runs, or where no runs are named over those that their answers
    # list
    queries: tuple[str, ...] = ()

    @property
    def narrows(self) -> bool:
        """Whether runs are narrowed by their data or runtime."""
        return self.data is not None or self.runtime is not None


@dataclass(frozen=True)
class BundleContents:
    """What a request names, looked up in the store and among the jobs."""

    # `runs`, `traces`: newest first
    runs: tuple[Run, ...]
    # Runs that are compared, in both directions
    pairs: tuple[Pair, ...]
    traces: tuple[Run, ...]
    studies: tuple[str, ...]
    audits: tuple[JobFolder, ...]
    divergences: tuple[JobFolder, ...] = ()
    queries: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    reports: tuple[str, ...] = ()

    @property
    def models(self) -> list[str]:
        """The models of the runs and traces, as zoo:name@version."""
        return sorted({run.ref for run in (*self.runs, *self.traces)})

    @property
    def network_pairs(self) -> list[Pair]:
        """Models whose networks a finding of an audit sets against each other, those of the gravest findings first."""
        findings = [finding for audit in self.audits for finding in printed_by(audit)["findings"]]
        named = [list(finding.get("models") or ()) for finding in findings]
        pairs = dict.fromkeys((str(models[0]), str(models[-1])) for models in named if len(models) > 1)
        return list(pairs)[:MOST_NETWORKS]


def choose(store: Store, wanted: BundleRequest) -> BundleContents:
    """ZoolensError: nothing was named, or there is none of a name."""
    compared = [(_answering(store, a), _answering(store, b)) for a, b in wanted.compare]
    for a, b in compared:
        if a.key.dataset != b.key.dataset:
            raise ZoolensError(
                f"{a.id[:8]} and {b.id[:8]} were not run on the same inputs.", hint="Compare runs on the same dataset."
            )
    queries = tuple(dict.fromkeys(text.strip() for text in wanted.queries))
    runs = _unique(
        [*_runs(store, wanted), *_runs_answering(store, wanted, queries), *(run for pair in compared for run in pair)]
    )
    traces = _unique(find_trace(store, name) for name in wanted.traces)
    studies = tuple(dict.fromkeys(_study(store, name) for name in wanted.studies))
    audits = _jobs("audit", "audit", "Audit", wanted.audits)
    divergences = _jobs("diverge", "comparison of two environments", "Diverge", wanted.divergences)
    reports = tuple(dict.fromkeys(load_report(store, report).id for report in wanted.reports))
    if not (runs or traces or studies or audits or divergences or reports):
        raise ZoolensError(
            "Nothing was chosen for the bundle.",
            hint="Name runs (--runs last, --runs 'demo:*'), --query, --trace, --study, --audit, --diverge or --report.",
        )
    pairs, notes = _pairs(runs, [(a.id, b.id) for a, b in compared])
    return BundleContents(
        tuple(runs), pairs, tuple(traces), studies, audits, divergences, queries, tuple(notes), reports
    )


def _runs(store: Store, wanted: BundleRequest) -> Iterator[Run]:
    narrowed: dict[str, Any] = {"dataset": wanted.data, "runtime": wanted.runtime}
    narrows = wanted.narrows
    for name in wanted.runs or (("*",) if narrows else ()):
        if not _PATTERN.intersection(name):
            yield _answering(store, name)
            continue
        listed = store.runs(model=name, kind=RunKind.EVALUATION, **narrowed)
        if not listed:
            raise ZoolensError(
                f"No run fits {name!r}{' with --data and --runtime' if narrows else ''}.",
                hint="`zoolens runs` lists what there is.",
            )
        yield from listed


def _runs_answering(store: Store, wanted: BundleRequest, queries: Sequence[str]) -> Iterator[Run]:
    """The runs that the answers of the queries list, where no runs are named for them to choose from."""
    if wanted.runs or wanted.narrows:
        return
    for text in queries:
        parsed = parse(text)
        answer = query(text, store=index_for(parsed, store, task_category(parsed.task)))
        listed = (*answer.matches, *answer.misses, *(() if answer.reference is None else (answer.reference,)))
        ran = dict.fromkeys(match.row.key for match in listed if match.row.runtime is not None)
        if not ran:
            raise ZoolensError(f"No run answers {text[:200]!r}.", hint="Name the runs to choose from: --runs 'demo:*'.")
        yield from (_answering(store, key) for key in ran)


def _answering(store: Store, name: str) -> Run:
    run = store.run(name)
    if run.kind is RunKind.TRACE:
        raise ZoolensError(f"Run {run.id[:8]} is a trace.", hint=f"Name it with --trace {run.id[:8]}.")
    return store.measured_run(run.id, ANSWERING_KINDS)


def _study(store: Store, name: str) -> str:
    known = store.studies_with_trials()
    if name not in known:
        raise UnknownName("study", name, known)
    return name


def _jobs(kind: str, what: str, page: str, names: Sequence[str]) -> tuple[JobFolder, ...]:
    """Finished jobs of a kind by their ids, or "latest". `what` it is in words; `page` starts it."""
    done = [job for job in job_folders() if job.asked().get("kind") == kind and job.state is JobState.DONE]
    by_id = {job.id: job for job in done}
    chosen: dict[str, JobFolder] = {}
    for name in names:
        job = done[0] if name == LATEST and done else by_id.get(name)
        if job is None:
            hint = None if done else f"The page {page} of `zoolens ui` starts one, and keeps what it found."
            raise UnknownName(what, name, list(by_id), hint=hint)
        chosen[job.id] = job
    return tuple(chosen.values())


def _pairs(runs: Sequence[Run], named: Sequence[Pair]) -> tuple[tuple[Pair, ...], list[str]]:
    notes: list[str] = []
    if not named:
        fitting = [(a.id, b.id) for a, b in combinations(runs, 2) if a.key.dataset == b.key.dataset]
        named = fitting if len(fitting) <= MOST_PAIRS else []
        if fitting and not named:
            notes.append(
                f"{len(fitting):,} pairs of these runs could be compared, and none of them is in the bundle: name "
                "those that matter with --compare A B."
            )
    both = dict.fromkeys(pair for a, b in named for pair in ((a, b), (b, a)))
    return tuple(both), notes


def _unique(runs: Iterable[Run]) -> list[Run]:
    by_id = {run.id: run for run in runs}
    return sorted(by_id.values(), key=lambda run: run.number, reverse=True)
