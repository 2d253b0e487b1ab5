"""All zoos together: list models, find one by name, find several by pattern.

Listings of framework zoos are kept in the cache folder under the versions of their packages, so that only the first
one imports the framework. Whether weights are here is looked up anew each time.
"""

from __future__ import annotations

import difflib
import fnmatch
import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from zoolens import __version__, plugins
from zoolens.errors import ManifestError, MissingDependency, UnknownName, ZoolensError
from zoolens.manifests.files import SUFFIXES, read_manifest
from zoolens.manifests.formats import detect_format, guess_format
from zoolens.manifests.schema import Manifest
from zoolens.paths import cache_dir
from zoolens.zoos.base import Entry, Weights, Zoo
from zoolens.zoos.undescribed import undescribed, weights_of

FILE_ZOO = "file"  # the "zoo" of a model named by its path
OWN_ZOOS = (FILE_ZOO, "folder")  # what the user calls own files, which is evidence of nothing
CHEAP_ZOOS = ("demo", "folder")  # where a bare name is looked for

# Makes a manifest for a bare model file by opening it; see `zoolens.runtimes.draft`.
Draft = Callable[[Entry], Entry]

_log = logging.getLogger("zoolens")


@dataclass(frozen=True)
class Listing:
    entries: list[Entry]
    notes: list[str] = field(default_factory=list)  # zoos that could not be listed, manifests that are broken


def models(
    zoo: str | None = None,
    task: str | None = None,
    max_params: float | None = None,
    search: str | None = None,
    weights: str | None = None,
) -> list[Entry]:
    """Models of all zoos (or one) on this machine. What could not be listed goes to the log."""
    found = listing(zoo=zoo, task=task, max_params=max_params, search=search, weights=weights)
    for note in found.notes:
        _log.warning(note)
    return found.entries


def listing(
    zoo: str | None = None,
    task: str | None = None,
    max_params: float | None = None,
    search: str | None = None,
    weights: str | None = None,
) -> Listing:
    """As `models`, with notes about what could not be listed. `max_params` keeps models whose count is known."""
    wanted = Weights(weights) if weights else None
    entries: list[Entry] = []
    notes: list[str] = []
    for name in [zoo] if zoo else plugins.names(plugins.ZOOS):
        found, said = _list_zoo(name, search, named=zoo is not None)
        notes += said
        entries += [
            entry
            for entry in found
            if (task is None or entry.manifest.task == task)
            and (max_params is None or _params(entry) <= max_params)
            and (wanted is None or entry.weights is wanted)
            and (search is None or search.lower() in entry.manifest.name.lower())
        ]
    return Listing(entries, notes)


def find_model(ref: str, *, draft: Draft | None = None) -> Entry:
    """The model named "zoo:name[@version]", by the path of a manifest or model file, or by a name that only one of
    the demo and folder zoos has."""
    path = _as_path(ref)
    if path is not None:
        return _from_path(path, draft)
    zoo, name, version = _split(ref)
    if zoo is None:
        return _described(_by_bare_name(name, version, ref), draft)
    return _described(_in_zoo(zoo, name, version), draft)


def find_models(patterns: Iterable[str], *, draft: Draft | None = None) -> list[Entry]:
    """All models that the references or patterns ("demo:*", "torchvision:resnet*") name, each once, in order."""
    found: dict[tuple[str, Path | None, str], Entry] = {}
    for pattern in patterns:
        is_glob = any(char in pattern for char in "*?[") and _as_path(pattern) is None
        for entry in _matching(pattern, draft) if is_glob else [find_model(pattern, draft=draft)]:
            found.setdefault((entry.full_ref, entry.folder, entry.file), entry)
    return list(found.values())


def params_of(manifest: Manifest) -> float | None:
    """Number of parameters as the source states it."""
    stated = manifest.claimed("params")
    given = manifest.attributes.get("parameters")
    return stated if stated is not None else float(given) if isinstance(given, (int, float)) else None


# --- finding


def _as_path(ref: str) -> Path | None:
    path = Path(ref).expanduser()
    looks_like_one = os.sep in ref and ":" not in path.parts[0]
    if path.suffix in SUFFIXES or guess_format(path) or looks_like_one:
        return path if path.exists() else None
    return None


def _from_path(path: Path, draft: Draft | None) -> Entry:
    path = path.resolve()
    if path.suffix in SUFFIXES:
        manifest = read_manifest(path)
        return Entry(FILE_ZOO, manifest, weights_of(manifest, path.parent), path.parent, path.name)
    format_, files = detect_format(path)
    locations = {role: file.relative_to(path.parent).as_posix() for role, file in files.items()}
    entry = Entry(FILE_ZOO, undescribed(path.name, format_, locations), Weights.PRESENT, path.parent)
    if draft is None:
        raise ManifestError(
            f"{path.name} has no manifest, so its preprocessing is unknown.",
            hint=f"Write one with `zoolens manifest init {path}`.",
        )
    return draft(entry)


def _described(entry: Entry, draft: Draft | None) -> Entry:
    ready = entry.described or draft is None or entry.weights is not Weights.PRESENT
    return entry if ready else draft(entry)  # type: ignore[misc]


def _split(ref: str) -> tuple[str | None, str, str | None]:
    zoo, colon, rest = ref.partition(":")
    name, _, version = (rest if colon else ref).partition("@")
    return zoo if colon else None, name, version or None


def _in_zoo(zoo: str, name: str, version: str | None) -> Entry:
    entries, notes = _list_zoo(zoo, name, named=True)
    exact = [entry for entry in entries if entry.manifest.name == name]
    chosen = exact or [entry for entry in entries if name in entry.manifest.attributes.get("aliases", ())]
    of_version = [entry for entry in chosen if version is None or entry.manifest.version == version]
    if of_version:
        return max(of_version, key=lambda entry: _version_order(entry.manifest.version))
    if chosen:
        known = ", ".join(entry.manifest.version for entry in chosen)
        raise UnknownName("model", f"{zoo}:{name}@{version}", hint=f"Its versions: {known}.")
    relevant = [note for note in notes if not entries or name in note]  # its manifest may be the broken one
    if relevant:
        raise UnknownName("model", f"{zoo}:{name}", hint=" ".join(relevant))
    raise UnknownName("model", f"{zoo}:{name}", _suggestions(entries))


def _by_bare_name(name: str, version: str | None, ref: str) -> Entry:
    if not ref:
        raise UnknownName("model", ref, hint="Name it zoo:name; `zoolens models` lists them.")
    entries = [entry for zoo in CHEAP_ZOOS for entry in _list_zoo(zoo, None, named=True)[0]]
    hits = [entry for entry in entries if entry.manifest.name == name and version in (None, entry.manifest.version)]
    if len({entry.zoo for entry in hits}) > 1:
        raise UnknownName("model", ref, hint=f"Say which: {' or '.join(entry.ref for entry in hits)}.")
    if not hits and Path(ref).exists():
        raise ManifestError(
            f"{ref} is there, but it is neither a manifest nor a model in a known format.",
            hint="Give a .yaml manifest, or a model file such as .onnx or .tflite.",
        )
    if not hits and guess_format(Path(ref)):
        raise UnknownName("model file", ref, hint="Check the path.")
    if not hits and (elsewhere := list(_namesakes(name))):
        raise UnknownName("model", ref, hint=f"Did you mean {' or '.join(elsewhere)}?")
    if not hits:
        near = difflib.get_close_matches(name, {entry.manifest.name for entry in entries}, n=3)
        refs = dict.fromkeys(entry.ref for entry in entries if entry.manifest.name in near)
        close = f"Did you mean {' or '.join(refs)}?" if refs else None
        raise UnknownName("model", ref, hint=close or "Name it zoo:name; `zoolens models` lists them.")
    return max(hits, key=lambda entry: _version_order(entry.manifest.version))


def _namesakes(name: str) -> Iterator[str]:
    """Models of exactly this name in the other zoos, as far as their listings are kept: no framework is imported."""
    for zoo in map(_open_zoo, plugins.names(plugins.ZOOS)):
        kept = _load(_cache_path(zoo), zoo.name) if zoo.distributions and not _missing(zoo) else None
        if any(name == one.partition(":")[2] for one in _suggestions(kept or ())):
            yield f"{zoo.name}:{name}"


def _matching(pattern: str, draft: Draft | None) -> list[Entry]:
    zoo, name, version = _split(pattern)
    found: list[Entry] = []
    known: list[str] = []
    for zoo_name in [zoo] if zoo else CHEAP_ZOOS:
        entries, _ = _list_zoo(zoo_name, None, named=True)
        known += _suggestions(entries)
        found += [
            entry
            for entry in entries
            if fnmatch.fnmatchcase(entry.manifest.name, name)
            and (version is None or fnmatch.fnmatchcase(entry.manifest.version, version))
        ]
    if not found:
        raise UnknownName("model", pattern, known)
    return [_described(entry, draft) for entry in found]


def _suggestions(entries: Iterable[Entry]) -> list[str]:
    return [
        f"{entry.zoo}:{name}"
        for entry in entries
        for name in (entry.manifest.name, *entry.manifest.attributes.get("aliases", ()))
    ]


def _version_order(version: str) -> tuple[tuple[int, ...], bool]:
    core, dash, _ = version.partition("+")[0].partition("-")
    return tuple(int(part) for part in core.split(".")), not dash  # a pre-release comes before its release


def _params(entry: Entry) -> float:
    known = params_of(entry.manifest)
    return known if known is not None else float("inf")


# --- listing


def _list_zoo(name: str, search: str | None, *, named: bool) -> tuple[list[Entry], list[str]]:
    """Entries and notes. A zoo that cannot be listed is a note; nothing here stops the listing of the others."""
    zoo: Zoo = _open_zoo(name)
    if zoo.remote and not named:
        return [], []
    missing = _missing(zoo)
    if missing:
        return [], [missing]
    try:
        if zoo.remote:
            return list(zoo.entries(search)), zoo.problems()
        if zoo.distributions:
            return _cached(zoo), []
        return list(zoo.entries()), zoo.problems()
    except ZoolensError as error:
        if named and zoo.remote:
            raise
        return [], [f"{name}: {error}"]
    except Exception as error:
        return [], [f"{name}: cannot be listed: {type(error).__name__}: {error}"]


def _open_zoo(name: str) -> Zoo:
    zoo: Zoo = plugins.load(plugins.ZOOS, name)()
    return zoo


def _missing(zoo: Zoo) -> str | None:
    for distribution in zoo.distributions:
        if _version(distribution) is None:
            return f"{zoo.name}: {MissingDependency(f'The {zoo.name} zoo', distribution, zoo.extra)}"
    reason = zoo.available()
    return f"{zoo.name}: {reason}" if reason else None


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _cached(zoo: Zoo) -> list[Entry]:
    path = _cache_path(zoo)
    entries = _load(path, zoo.name)
    if entries is None:
        entries = list(zoo.entries())
        _save(path, entries)
    return entries


def _cache_path(zoo: Zoo) -> Path:
    key = [__version__, zoo.state(), *(f"{name}={_version(name)}" for name in zoo.distributions)]
    digest = hashlib.sha256("\n".join(key).encode()).hexdigest()[:16]
    return cache_dir() / "catalog" / f"{zoo.name}-{digest}.json"


def _load(path: Path, zoo: str) -> list[Entry] | None:
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        return [_entry(zoo, row) for row in rows]
    except (OSError, ValueError, KeyError, TypeError, ValidationError):  # absent or damaged: listed anew
        return None


def _entry(zoo: str, row: dict[str, Any]) -> Entry:
    manifest = Manifest.model_validate(row["manifest"])
    folder = Path(row["folder"]) if row["folder"] else None
    weights = weights_of(manifest, folder) if manifest.assets else Weights(row["weights"])
    return Entry(zoo, manifest, weights, folder)


def _save(path: Path, entries: list[Entry]) -> None:
    rows = list(_rows(entries))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as stream:
            json.dump(rows, stream)
        Path(stream.name).replace(path)
    except OSError as error:  # a read-only cache makes the next listing slower, no more
        _log.debug("The catalogue cannot be cached: %s", error)


def _rows(entries: Iterable[Entry]) -> Iterator[dict[str, Any]]:
    for entry in entries:
        manifest = entry.manifest.model_dump(mode="json", exclude_defaults=True)
        yield {"manifest": manifest, "weights": entry.weights.value, "folder": str(entry.folder or "")}
