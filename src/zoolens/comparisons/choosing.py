"""Which two runs a comparison is about: runs by their ids, or the newest runs of two models on the same data.

A model is what it is now: its content, not its name. So a gate never judges a file that was replaced since it was
evaluated, nor whatever run happened to be the last.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from zoolens.errors import AssetError, UnknownName, ZoolensError
from zoolens.manifests.locations import model_fingerprint, resolve_asset
from zoolens.runtimes.draft import find_model
from zoolens.store.records import ANSWERING_KINDS, Run
from zoolens.store.store import Store
from zoolens.zoos.base import Entry

_RUN: Final = re.compile(r"[0-9a-f]{4,16}|last(~\d{1,9})?")


def choose_pair(store: Store, a: str, b: str, *, runtimes: Sequence[str] = ()) -> tuple[Run, Run]:
    """The two runs that names, paths or ids mean. Of models: the pair on the same data whose runs the user's own
    evaluations met last, in the same runtime with the same options where there is such a pair. `runtimes`: the one
    of both, or one of each."""
    if len(runtimes) > 2:
        raise ZoolensError(
            f"{len(runtimes)} runtimes are named for two runs.", hint="Name one for both, or one for each."
        )
    ours, theirs = (runs_named(store, *one) for one in ((a, next(iter(runtimes), None)), (b, *runtimes[-1:])))
    if len(ours) == len(theirs) == 1:
        return ours[0], theirs[0]
    pairs = [(one, two) for one in ours for two in theirs if one.key.dataset == two.key.dataset]
    if not pairs:
        raise ZoolensError(
            f"{a} and {b} were never evaluated on the same data.",
            hint=f"Run: zoolens eval {a} {b} --data {_some_data(ours, theirs)}",
        )
    return max(pairs, key=_preference)


def runs_named(store: Store, name: str, runtime: str | None = None) -> list[Run]:
    """The one run of this id, or the runs of a model as it is now."""
    if _RUN.fullmatch(name):
        try:
            return [store.measured_run(name, ANSWERING_KINDS)]
        except UnknownName:
            if name.startswith("last"):
                raise
    entry = _model(name)
    contents = _contents(entry)
    known = [run for run in store.runs(model=entry.ref, runtime=runtime) if run.key.model in contents]
    if not known:
        where = f" in {runtime}" if runtime else ""
        raise ZoolensError(
            f"{name}, as it is now, was not evaluated{where}.", hint=f"Run: zoolens eval {name} --data …"
        )
    return known


def _model(name: str) -> Entry:
    try:
        return find_model(name)
    except UnknownName as error:
        raise UnknownName("run or model", name, hint=error.hint) from error


def _contents(entry: Entry) -> set[str]:
    """Fingerprints of a model in each format that is here."""
    found = set()
    for asset in entry.manifest.assets:
        try:
            paths = resolve_asset(asset, entry.folder, fetch=False)
        except AssetError:
            continue
        found.add(model_fingerprint(entry.manifest, asset, paths))
    return found


def _preference(pair: tuple[Run, Run]) -> tuple[bool, bool, str, str]:
    """Alike before newer: a time in another runtime, or with other threads, says nothing about the model."""
    a, b = pair
    same_runtime = a.stack.runtime == b.stack.runtime
    same_options = same_runtime and a.stack.identity.get("options") == b.stack.identity.get("options")
    earlier, later = sorted([_met(a), _met(b)])
    return same_options, same_runtime, earlier, later


def _met(run: Run) -> str:
    """When a user's evaluation met it; what the doctor or a reproduction ran comes before all of those."""
    return f"1 {run.evaluated}" if run.evaluated else f"0 {run.created.isoformat()}"


def _some_data(ours: Sequence[Run], theirs: Sequence[Run]) -> str:
    return next((str(run.origin["data"]) for run in (*ours, *theirs) if run.origin.get("data")), "DATA")
