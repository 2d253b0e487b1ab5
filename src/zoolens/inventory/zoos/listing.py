"""The models of all zoos.

Listings of framework zoos are kept in the cache folder under the versions of their packages, so that only the first
one imports the framework. Whether weights are here is looked up again each time.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from zoolens.base import plugins
from zoolens.base.errors import MissingDependency, UnknownName, ZoolensError
from zoolens.base.paths import cache_dir, replaced_file
from zoolens.base.progress import Progress, Silent
from zoolens.base.version import __version__
from zoolens.inventory.manifests.schema import Manifest
from zoolens.inventory.zoos.undescribed import weights_of
from zoolens.inventory.zoos.zoo import Entry, Weights, Zoo

_log = logging.getLogger("zoolens")


@dataclass(frozen=True)
class Listing:
    entries: list[Entry]
    notes: list[str] = field(default_factory=list)  # zoos that could not be listed, manifests that are broken
    namesakes: Mapping[str, Sequence[Path]] = field(default_factory=dict)  # see `Zoo.namesakes`


def models(
    zoo: str | None = None,
    task: str | None = None,
    max_params: float | None = None,
    search: str | None = None,
    weights: str | None = None,
) -> list[Entry]:
    """Models of all zoos (or one) on this machine. What could not be listed goes to the log."""
    listed = listing(zoo=zoo, task=task, max_params=max_params, search=search, weights=weights)
    for note in listed.notes:
        _log.warning(note)
    return listed.entries


def listing(
    zoo: str | None = None,
    task: str | None = None,
    max_params: float | None = None,
    search: str | None = None,
    weights: str | None = None,
    progress: Progress | None = None,
) -> Listing:
    """List models like `models`, with notes on what could not be listed. `max_params` needs a known count."""
    watcher = progress or Silent()
    states = {state.value: state for state in Weights}
    if weights and weights not in states:
        raise UnknownName("state of weights", weights, states)
    wanted = states[weights] if weights else None
    entries: list[Entry] = []
    notes: list[str] = []
    zoos = [zoo] if zoo else plugins.names(plugins.ZOOS)
    # A framework that is imported for its zoo takes seconds, the first time most of a minute.
    watcher.begin("zoos", "list", len(zoos))
    for name in zoos:
        listed = list_zoo(name, search, named=zoo is not None)
        watcher.advance(1)
        notes += listed.notes
        entries += [
            entry
            for entry in listed.entries
            if (task is None or task_of(entry.manifest) == task)
            and (max_params is None or _params(entry) <= max_params)
            and (wanted is None or entry.weights is wanted)
            and (search is None or search.lower() in entry.manifest.name.lower())
        ]
    watcher.end()
    return Listing(entries, notes)


def params_of(manifest: Manifest) -> float | None:
    """Number of parameters as the source states it."""
    stated = manifest.claimed("params")
    given = manifest.attributes.get("parameters")
    return stated if stated is not None else float(given) if isinstance(given, (int, float)) else None


def task_of(manifest: Manifest) -> str:
    """The task of a model, also where its manifest names it without saying how answers are read."""
    named = manifest.attributes.get("task")
    return named if manifest.task == "other" and isinstance(named, str) else manifest.task


def as_data(entry: Entry) -> dict[str, Any]:
    """A model as `zoolens models --json` prints it."""
    manifest = entry.manifest
    return {
        "ref": entry.ref,
        "zoo": entry.zoo,
        "name": manifest.name,
        "version": manifest.version,
        "task": task_of(manifest) if entry.described else None,
        "weights": str(entry.weights),
        "described": entry.described,
        "formats": [asset.format for asset in manifest.assets],
        "params": params_of(manifest),
        "claims": [claim.model_dump(exclude_none=True) for claim in manifest.claims],
        "license": manifest.license,
    }


def _params(entry: Entry) -> float:
    known = params_of(entry.manifest)
    return known if known is not None else float("inf")


# --- one zoo


def list_zoo(name: str, search: str | None, *, named: bool) -> Listing:
    """The models of one zoo. A zoo that cannot be listed is a note; nothing here stops the listing of the others."""
    zoo: Zoo = _open_zoo(name)
    if zoo.remote and not named:
        return Listing([])
    missing = _missing(zoo)
    if missing:
        return Listing([], [missing])
    try:
        if zoo.remote:
            return Listing(list(zoo.entries(search)), zoo.problems())
        if zoo.distributions:
            return Listing(_cached(zoo))
        return Listing(list(zoo.entries()), zoo.problems(), zoo.namesakes())
    except ZoolensError as error:
        if named and zoo.remote:
            raise
        return Listing([], [f"{name}: {error}"])
    except Exception as error:
        return Listing([], [f"{name}: cannot be listed: {type(error).__name__}: {error}"])


def keep_listing(job: Mapping[str, Any]) -> None:
    """Runs in a process of its own: lists a zoo, so that its listing is kept and nobody else has to import its
    framework."""
    list_zoo(job["zoo"], None, named=False)


def kept_names() -> Iterator[str]:
    """References of the models whose listings are kept from an earlier time: no framework is imported for them."""
    for zoo in map(_open_zoo, plugins.names(plugins.ZOOS)):
        kept = _load(_cache_path(zoo), zoo.name) if zoo.distributions and not _missing(zoo) else None
        yield from references(kept or ())


def is_kept(name: str) -> bool:
    """Whether a listing of this zoo imports nothing: it is kept from an earlier time, or the zoo needs no framework."""
    zoo = _open_zoo(name)
    return not zoo.distributions or _missing(zoo) is not None or _cache_path(zoo).is_file()


def references(entries: Iterable[Entry]) -> list[str]:
    """zoo:name of each model, and of each of its aliases."""
    return [
        f"{entry.zoo}:{name}"
        for entry in entries
        for name in (entry.manifest.name, *entry.manifest.attributes.get("aliases", ()))
    ]


def _open_zoo(name: str) -> Zoo:
    zoo: Zoo = plugins.load(plugins.ZOOS, name)()
    return zoo


def _missing(zoo: Zoo) -> str | None:
    for distribution in zoo.distributions:
        if plugins.installed_version(distribution) is None:
            return f"{zoo.name}: {MissingDependency(f'The {zoo.name} zoo', distribution, zoo.extra)}"
    reason = zoo.available()
    return f"{zoo.name}: {reason}" if reason else None


def _cached(zoo: Zoo) -> list[Entry]:
    path = _cache_path(zoo)
    entries = _load(path, zoo.name)
    if entries is None:
        entries = list(zoo.entries())
        _save(path, entries)
    return entries


def _cache_path(zoo: Zoo) -> Path:
    versions = [f"{name}={plugins.installed_version(name)}" for name in zoo.distributions]
    key = "\n".join([__version__, zoo.state(), *versions])
    digest = hashlib.sha256(key.encode()).hexdigest()[:16]
    return cache_dir() / "catalog" / f"{zoo.name}-{digest}.json"


def _load(path: Path, zoo: str) -> list[Entry] | None:
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        return [_entry(zoo, row) for row in rows]
    except (OSError, ValueError, KeyError, TypeError, ValidationError):
        # Absent or damaged: listed again.
        return None


def _entry(zoo: str, row: dict[str, Any]) -> Entry:
    manifest = Manifest.model_validate(row["manifest"])
    folder = Path(row["folder"]) if row["folder"] else None
    weights = weights_of(manifest, folder) if manifest.assets else Weights(row["weights"])
    return Entry(zoo, manifest, weights, folder)


def _save(path: Path, entries: list[Entry]) -> None:
    rows = list(_rows(entries))
    try:
        with replaced_file(path) as file:
            file.write(json.dumps(rows).encode())
    except OSError as error:
        # A read-only cache makes the next listing slower, no more.
        _log.debug("The catalogue cannot be cached: %s", error)


def _rows(entries: Iterable[Entry]) -> Iterator[dict[str, Any]]:
    for entry in entries:
        manifest = entry.manifest.model_dump(mode="json", exclude_defaults=True)
        yield {"manifest": manifest, "weights": entry.weights.value, "folder": str(entry.folder or "")}
