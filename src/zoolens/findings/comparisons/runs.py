"""From a model's name to its measured runs, and from two names to pairs of runs on the same inputs.

There are two questions. `choose_pair` (compare, gate) is about models as they are now: their content counts, not their
name, so that a gate never judges a file that was replaced since it was evaluated, nor whatever run happened to be the
last. `runs_of`, `runs_like` and `measured_pairs` (equiv, matrix, disagree) are about what the store knows: they need
neither the zoo nor the file. Of a model that was replaced under its name, the content that was evaluated last counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from itertools import product
from pathlib import Path, PurePath
from shlex import quote
from typing import Any

from zoolens.base import plugins
from zoolens.base.errors import UnknownName, ZoolensError
from zoolens.base.progress import Progress
from zoolens.base.store.records import ANSWERING_KINDS, Run
from zoolens.base.store.store import Store
from zoolens.findings.comparisons.contents import file_of, folder_of, without_replaced
from zoolens.findings.comparisons.signatures import probe_runs
from zoolens.findings.measure.answers import answering_stage
from zoolens.findings.measure.evaluate import evaluate
from zoolens.findings.measure.jobs import RunOptions, plan_jobs
from zoolens.inventory.catalog.current import current_entry
from zoolens.inventory.catalog.lookup import find
from zoolens.inventory.catalog.names import (
    FILE_ZOO,
    ambiguous,
    bare,
    is_pattern,
    is_run,
    last_part,
    nearest,
    refuse_other_places,
)
from zoolens.inventory.catalog.stored import contents_of, stored_entry
from zoolens.inventory.manifests.schema import FORMATS
from zoolens.inventory.runtimes.runtime_names import parse_runtime
from zoolens.inventory.zoos.zoo import Entry


def runs_of(store: Store, name: str, *, data: str | None = None, runtime: str | None = None) -> list[Run]:
    """Runs of the one model that a reference, a bare name, a path or a run's id names, newest first.

    Where a model was replaced under its name, these are the runs of the content that counts now. The list is empty
    where the model was not measured (on this data, in this runtime). A name that fits several models is an error.
    """
    if is_pattern(name, "*?"):
        raise ZoolensError(f"{name} is a pattern, where one model is needed.", hint="Name the model.")
    probes = [run for run in probe_runs(store, data=data) if in_runtime(run, runtime)]
    if Path(name).is_file():
        contents = contents_of(find(name))
        return [run for run in probes if run.key.model in contents]
    for pattern in (name, f"*:{name}", f"*/{name}"):
        named = store.runs(model=pattern)
        if named:
            ids = {run.id for run in named}
            return without_replaced(_of_one_model(name, [run for run in probes if run.id in ids]), named)
    if is_run(name):
        return [store.measured_run(name, ANSWERING_KINDS)]
    return []


def runs_like(store: Store, patterns: Iterable[str], *, data: str | None, runtime: str | None) -> list[Run]:
    """Runs of all models that patterns or names mean, each once, newest first. A name without runs is an error."""
    probes = [run for run in probe_runs(store, data=data) if in_runtime(run, runtime)]
    chosen_runs: dict[str, Run] = {}
    for pattern in patterns:
        if is_pattern(pattern, "*?"):
            named = [run for spelling in (pattern, f"*:{pattern}") for run in store.runs(model=spelling)]
            ids = {run.id for run in named}
            chosen = without_replaced([run for run in probes if run.id in ids], named)
        else:
            chosen = runs_of(store, pattern, data=data, runtime=runtime)
        if not chosen:
            raise UnknownName("measured model", pattern, {bare(run.ref) for run in probes})
        chosen_runs |= {run.id: run for run in chosen}
    return list(chosen_runs.values())


def in_runtime(run: Run, runtime: str | None) -> bool:
    if runtime is None:
        return True
    name, address = parse_runtime(runtime)
    return fnmatchcase(run.stack.runtime, name) and address in ("", run.stack.address)


@cache
def formats_read(runtime: str) -> int:
    """How many formats a runtime reads: one that reads a single format is most at home in it."""
    try:
        return len(plugins.load(plugins.RUNTIMES, runtime)().formats)
    except ZoolensError:
        # The plug-in that measured it is no longer here.
        return len(FORMATS)


def short_names(runs: Sequence[Run]) -> list[str]:
    """Names the runs without version and without the zoo and folder that all share; with the runtime where a model has
    several, and with the run where that has several too: another version, another number of threads."""
    refs = [bare(run.ref) for run in runs]
    models = Counter(refs)
    places = {ref[: max(ref.rfind(":"), ref.rfind("/")) + 1] for ref in refs}
    shared = places.pop() if len(places) == 1 else ""
    names = [
        f"{ref.removeprefix(shared)} [{run.stack.runtime}]" if models[ref] > 1 else ref.removeprefix(shared)
        for ref, run in zip(refs, runs, strict=True)
    ]
    same = Counter(names)
    return [f"{name} {run.id[:8]}" if same[name] > 1 else name for name, run in zip(names, runs, strict=True)]


def _of_one_model(name: str, runs: list[Run]) -> list[Run]:
    """The runs of the newest version. Models that differ in more than their version are an error.

    Where no model has the name now, a content that had it before is meant.
    """
    runs = [run for run in runs if _is_called(run, name)] or runs
    runs = [run for run in runs if name in _spellings(run.ref)] or runs  # a:Net and a:net are two models
    models = {bare(run.ref): run for run in runs}
    if len(models) > 1 and name not in models:
        raise ambiguous(name, models)
    contents: dict[tuple[str, str], set[str]] = {}
    for run in runs:
        if run.ref == runs[0].ref:
            contents.setdefault(_place(run), set()).add(run.key.model)
    refuse_other_places(name, runs[0].ref if runs else "", contents)
    return [run for run in runs if run.ref == runs[0].ref and _place(run) == _place(runs[0])]


def _spellings(ref: str) -> tuple[str, ...]:
    name = bare(ref).partition(":")[2]
    return ref, bare(ref), name, last_part(name)


def _place(run: Run) -> tuple[str, str]:
    return folder_of(run), file_of(run)


def _is_called(run: Run, name: str) -> bool:
    ref = bare(run.ref).casefold()
    wanted = name.casefold()
    return wanted in (run.ref.casefold(), ref, ref.partition(":")[2]) or ref.endswith(f"/{wanted}")


# --- two models as the store knows them


def measured_pairs(
    store: Store, a: str, b: str, data: str | None, runtime: str | None, progress: Progress | None
) -> list[tuple[Run, Run]]:
    """A pair of runs for each dataset that both models were run on. Models that were not run on `data` are run now."""
    ours, theirs = (runs_of(store, name, data=data, runtime=runtime) for name in (a, b))
    pairs = best_pairs(ours, theirs)
    if not pairs and data is not None:
        _measure(store, a, b, data, runtime, ours or theirs, progress)
        pairs = best_pairs(*(runs_of(store, name, data=data, runtime=runtime) for name in (a, b)))
    if not pairs:
        raise _unmeasured(store, a, b, ours, theirs, runtime)
    return pairs


def _measure(
    store: Store, a: str, b: str, data: str, runtime: str | None, known: Sequence[Run], progress: Progress | None
) -> None:
    """One forward pass of each model over the data; what was measured before is kept.

    A dataset that was named by a pattern is the one that the model measured before was run on.
    """
    origin: Mapping[str, Any] = known[0].origin if known else {"data": data, "limit": None, "seed": None}
    preferred = runtime or (known[0].stack.full_runtime if known else None)
    for name, chosen in _runtimes(a, b, preferred):
        (outcome, *_) = evaluate(
            [name], origin["data"], runtimes=[chosen], limit=origin["limit"], seed=origin["seed"], batches=(),
            cold=False, store=store, progress=progress,
        )  # fmt: skip
        if outcome.errors:
            raise ZoolensError(f"{name} could not be measured: {outcome.errors[0]}")


def _runtimes(a: str, b: str, preferred: str | None) -> list[tuple[str, str]]:
    """A runtime for each model: the same one where there is any, and the preferred one where it can."""
    able = []
    for name in (a, b):
        jobs, skipped = plan_jobs([find(name)], RunOptions(runtimes=(preferred,) if preferred else ()))
        if not jobs and preferred:
            jobs, skipped = plan_jobs([find(name)], RunOptions())
        if not jobs:
            raise ZoolensError(skipped[0].reason)
        able.append([job.runtime.full_name for job in jobs])
    common = [runtime for runtime in able[0] if runtime in able[1]]
    return [(name, (common or mine)[0]) for name, mine in zip((a, b), able, strict=True)]


def _unmeasured(
    store: Store, a: str, b: str, ours: Sequence[Run], theirs: Sequence[Run], runtime: str | None
) -> ZoolensError:
    missing = [name for name, runs in ((a, ours), (b, theirs)) if not runs] or [a, b]
    what = f"{'was' if len(missing) == 1 else 'were'} not measured"
    what += " on the same data" if ours and theirs else f" in {runtime}" if runtime else ""
    close = " ".join(f"Did you mean {close_name}?" for name in missing for close_name in close_names(store, name))
    return ZoolensError(
        f"{' and '.join(missing)} {what}.",
        hint=close
        or f"Run: zoolens eval {' '.join(missing)} --data {_some_data(ours, theirs)} (or give --data to measure now).",
    )


def close_names(store: Store, name: str) -> list[str]:
    """The measured model whose name is most like this one, where none has this one."""
    if runs_of(store, name):
        return []
    return nearest(name, {bare(run.ref) for run in probe_runs(store)}, count=1, cutoff=0.8)


def best_pairs(ours: Sequence[Run], theirs: Sequence[Run]) -> list[tuple[Run, Run]]:
    """Return, for each dataset that both were run on, the pair most similar in everything but the model.

    Among several such, runtimes at home in the formats come first, then the newest runs.
    """
    best: dict[str, tuple[tuple[bool, bool, bool, int, int], tuple[Run, Run]]] = {}
    for (i, a), (j, b) in product(enumerate(ours), enumerate(theirs)):
        dataset = a.key.dataset
        if dataset != b.key.dataset:
            continue
        strange = formats_read(a.stack.runtime) + formats_read(b.stack.runtime)
        merit = (
            a.id != b.id,
            a.key.stack == b.key.stack,
            a.stack.runtime == b.stack.runtime,
            # A runtime that reads few formats is at home in them.
            -strange,
            -i - j,
        )
        if dataset not in best or best[dataset][0] < merit:
            best[dataset] = (merit, (a, b))
    return [pair for _, pair in best.values()]


# --- two models as they are now


def choose_pair(store: Store, a: str, b: str, *, runtimes: Sequence[str] = ()) -> tuple[Run, Run]:
    """The two runs that names, paths or ids mean. Of models: the pair on the same data whose runs the user's own
    evaluations met last, in the same runtime with the same options where there is such a pair. `runtimes`: the one
    of both, or one of each."""
    if len(runtimes) > 2:
        raise ZoolensError(
            f"{len(runtimes)} runtimes are named for two runs.", hint="Name one for both, or one for each."
        )
    ours, theirs = (runs_named(store, *named) for named in ((a, next(iter(runtimes), None)), (b, *runtimes[-1:])))
    if len(ours) == len(theirs) == 1:
        return ours[0], theirs[0]
    pairs = [(run_a, run_b) for run_a in ours for run_b in theirs if run_a.key.dataset == run_b.key.dataset]
    if not pairs:
        raise ZoolensError(
            f"{a} and {b} were never evaluated on the same dataset.",
            hint=f"Run: zoolens eval {a} {b} --data {_some_data(ours, theirs)}",
        )
    return _where_both_answered(max(pairs, key=_preference), pairs)


def _where_both_answered(chosen: tuple[Run, Run], pairs: Sequence[tuple[Run, Run]]) -> tuple[Run, Run]:
    """The best pair in other runtimes than those that failed to open a model. A failure is not hidden by older answers
    of the same runtime: what could once be opened may be broken today."""
    failed = {run.stack.runtime for run in chosen if _failed(run)}
    others = [pair for pair in pairs if not any(_failed(run) or run.stack.runtime in failed for run in pair)]
    return max(others, key=_preference) if failed and others else chosen


def _failed(run: Run) -> bool:
    return answering_stage(run) in run.failures


def runs_named(store: Store, name: str, runtime: str | None = None) -> list[Run]:
    """The one run of this id, or the runs of a model as it is now."""
    if is_run(name):
        try:
            run = store.measured_run(name, ANSWERING_KINDS)
        except UnknownName:
            if name.startswith("last"):
                raise
        else:
            if runtime and not in_runtime(run, runtime):
                raise ZoolensError(
                    f"Run {run.id[:8]} ({run.ref}) is in {run.stack.full_runtime}, not in {runtime}.",
                    hint="A run's id says which runtime: name the models, or leave the runtime out.",
                )
            return [run]
    entry = _entry_named(store, name)
    contents = contents_of(entry) | _contents_elsewhere(entry, runtime)
    runs = store.runs(model=entry.ref, runtime=parse_runtime(runtime).name if runtime else None)
    known = [run for run in runs if run.key.model in contents and in_runtime(run, runtime)]
    if not known:
        where = f" in {runtime}" if runtime else ""
        raise ZoolensError(
            f"{name}, as it is now, was not evaluated{where}.", hint=f"Run: zoolens eval {name} --data …"
        )
    return known


def _entry_named(store: Store, name: str) -> Entry:
    """The model of this name as it is now. Tables call a model that was named by its path file:NAME, which no zoo
    lists: the store knows where it lies."""
    measured = store.runs(model=name) if name.startswith(f"{FILE_ZOO}:") else []
    if not measured:
        try:
            return find(name)
        except UnknownName as error:
            raise UnknownName("run or model", name, hint=error.hint) from error
    places = {_place(run): run for run in reversed(measured)}
    if len(places) > 1:
        last = bare(measured[0].ref).partition(":")[2]
        paths = [str(PurePath(folder, file or last)) for folder, file in places]
        raise ambiguous(name, paths, hint="Name it by its path.")
    return current_entry(measured[0]) or stored_entry(measured[0])


def _contents_elsewhere(entry: Entry, runtime: str | None) -> set[str]:
    """The content of a model as a server has it now, where a runtime with an address is asked for."""
    if runtime is None or not parse_runtime(runtime).address:
        return set()
    jobs, skipped = plan_jobs([entry], RunOptions(runtimes=(runtime,)))
    if not jobs:
        raise ZoolensError(skipped[0].reason)
    return {job.model.fingerprint for job in jobs}


def _preference(pair: tuple[Run, Run]) -> tuple[bool, bool, str, str]:
    """Alike before newer: a time in another runtime, or with other threads, says nothing about the model."""
    a, b = pair
    same_runtime = a.stack.runtime == b.stack.runtime
    same_options = same_runtime and a.stack.identity.get("options") == b.stack.identity.get("options")
    earlier, later = sorted([_met(a), _met(b)])
    return same_options, same_runtime, earlier, later


def _met(run: Run) -> str:
    """When a user's evaluation met it; what the doctor or a reproduction ran comes before all of those."""
    return f"1 {run.met}" if run.met else f"0 {run.number:012d}"


def _some_data(ours: Sequence[Run], theirs: Sequence[Run]) -> str:
    """The dataset of one of the runs, as a shell takes it."""
    return quote(next((str(run.origin["data"]) for run in (*ours, *theirs) if run.origin.get("data")), "DATA"))
