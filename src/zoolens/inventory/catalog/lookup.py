"""Find a model by name, or several by pattern; see `names` for what a name may be."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from zoolens.base.errors import AssetError, ManifestError, UnknownName
from zoolens.inventory.catalog.names import CHEAP_ZOOS, FILE_ZOO, Reference, ambiguous, is_pattern, nearest, parse
from zoolens.inventory.manifests.digests import digest
from zoolens.inventory.manifests.files import SUFFIXES, read_manifest
from zoolens.inventory.manifests.formats import detect_format, followed, guess_format, location_of
from zoolens.inventory.manifests.locations import resolve_file
from zoolens.inventory.manifests.schema import AssetFile
from zoolens.inventory.zoos.listing import kept_names, list_zoo, references
from zoolens.inventory.zoos.undescribed import undescribed, weights_of
from zoolens.inventory.zoos.zoo import Entry, Weights

Model = str | Path | Entry

_DATASETS = ("demo",)  # which are taken for models at times


def find(model: Model, *, draft: bool = True) -> Entry:
    """The one model of this name.

    A bare model file gets a drafted manifest, for which it is opened. With `draft=False` nothing is opened: such an
    entry knows only its name and its format.
    """
    if isinstance(model, Entry):
        return _described(model, draft)
    path = _as_path(model)
    if path is not None:
        return _described(_from_path(path), draft)
    reference = parse(str(model))
    entry = _by_bare_name(reference, str(model)) if reference.zoo is None else _in_zoo(reference)
    return _described(entry, draft)


def find_all(models: Iterable[Model], *, draft: bool = True) -> list[Entry]:
    """All models that names, paths and patterns mean, each once, in order."""
    entries: list[Entry] = []
    # Two files may declare one name.
    namesakes: dict[str, list[Entry]] = {}
    for entry in (entry for model in models for entry in _matching(model, draft)):
        if entry not in namesakes.setdefault(entry.full_ref, []):
            namesakes[entry.full_ref].append(entry)
            entries.append(entry)
    return entries


def _matching(model: Model, draft: bool) -> list[Entry]:
    if isinstance(model, Entry) or not is_pattern(str(model)) or _as_path(model) is not None:
        return [find(model, draft=draft)]
    zoo, name, version = parse(str(model))
    fitting: list[Entry] = []
    known: list[str] = []
    for zoo_name in [zoo] if zoo else CHEAP_ZOOS:
        listed = list_zoo(zoo_name, None, named=True)
        known += references(listed.entries)
        fitting += [
            _unambiguous(entry, listed.namesakes)
            for entry in listed.entries
            if fnmatch.fnmatchcase(entry.manifest.name, name)
            and (version is None or fnmatch.fnmatchcase(entry.manifest.version, version))
        ]
    if not fitting:
        raise UnknownName("model", str(model), known)
    return [_described(entry, draft) for entry in fitting]


def model_text(model: Model) -> str:
    """Returns the name or path by which `find` finds a model again."""
    if not isinstance(model, Entry):
        return str(model)
    if model.zoo != FILE_ZOO or model.folder is None:
        return model.full_ref
    if model.file:
        return str(model.folder / model.file)
    # A bare model file or folder: where its files lie begins with its name.
    location = model.manifest.assets[0].files[0].location
    if location.startswith("file://"):
        return location.removeprefix("file://")
    return str(model.folder / Path(location).parts[0])


# --- by path


def _as_path(model: str | Path) -> Path | None:
    path = Path(model).expanduser()
    looks_like_one = os.sep in str(model) and ":" not in path.parts[0]
    if path.suffix in SUFFIXES or guess_format(path) or looks_like_one:
        return path if path.exists() else None
    return None


def _from_path(path: Path) -> Entry:
    if path.suffix in SUFFIXES:
        path = path.resolve()
        manifest = read_manifest(path)
        return Entry(FILE_ZOO, manifest, weights_of(manifest, path.parent), path.parent, path.name)
    path = followed(path)
    format_, files = detect_format(path)
    locations = {role: location_of(file, path.parent) for role, file in files.items()}
    return Entry(FILE_ZOO, undescribed(path.name, format_, locations), Weights.PRESENT, path.parent)


def _described(entry: Entry, draft: bool) -> Entry:
    if entry.described or not draft or entry.weights is not Weights.PRESENT:
        return entry
    # Brings the runtimes, which most names do not need.
    from zoolens.inventory.catalog.draft import draft_entry

    return draft_entry(entry)


# --- by name


def _in_zoo(reference: Reference) -> Entry:
    zoo, name, version = str(reference.zoo), reference.name, reference.version
    listed = list_zoo(zoo, name, named=True)
    entries = listed.entries
    exact = [entry for entry in entries if entry.manifest.name == name]
    chosen = exact or [entry for entry in entries if name in entry.manifest.attributes.get("aliases", ())]
    of_version = [entry for entry in chosen if version is None or entry.manifest.version == version]
    if not exact and len({entry.manifest.name for entry in of_version}) > 1:
        raise ambiguous(f"{zoo}:{name}", {entry.ref for entry in of_version})
    if of_version:
        return _unambiguous(max(of_version, key=version_order), listed.namesakes)
    if chosen:
        known = ", ".join(entry.manifest.version for entry in chosen)
        raise UnknownName("model", f"{zoo}:{name}@{version}", hint=f"Its versions: {known}.")
    # Its manifest may be the broken one.
    relevant = [note for note in listed.notes if not entries or name in note]
    if relevant:
        raise UnknownName("model", f"{zoo}:{name}", hint=" ".join(relevant))
    raise UnknownName("model", f"{zoo}:{name}", references(entries))


def _by_bare_name(reference: Reference, text: str) -> Entry:
    if not text:
        raise UnknownName("model", text, hint="Name it zoo:name; `zoolens models` lists them.")
    listings = [list_zoo(zoo, None, named=True) for zoo in CHEAP_ZOOS]
    entries = [entry for listed in listings for entry in listed.entries]
    named = [entry for entry in entries if entry.manifest.name == reference.name]
    hits = [entry for entry in named if reference.version in (None, entry.manifest.version)]
    if len({entry.zoo for entry in hits}) > 1:
        raise ambiguous(text, {entry.ref for entry in hits})
    if hits:
        namesakes = {reference: paths for listed in listings for reference, paths in listed.namesakes.items()}
        return _unambiguous(max(hits, key=version_order), namesakes)
    if Path(text).is_dir():
        raise ManifestError(
            f"{text} is a folder, and no model.",
            hint="Name a model file in it, or let `zoolens init` evaluate all that it holds.",
        )
    if Path(text).exists():
        raise ManifestError(
            f"{text} is there, but it is neither a manifest nor a model in a known format.",
            hint="Give a .yaml manifest, or a model file such as .onnx or .tflite.",
        )
    if guess_format(Path(text)) or Path(text).suffix.lower() in (".yaml", ".yml"):
        raise UnknownName("model file", text, hint="Check the path.")
    close = _like(reference.name, entries)
    listed = "Name it zoo:name; `zoolens models` lists them."
    if text in _DATASETS:
        listed = f"{text} is a dataset: --data {text}. All models of the demo are 'demo:*'."
    raise UnknownName("model", text, hint=f"Did you mean {' or '.join(close)}?" if close else listed)


def _unambiguous(entry: Entry, namesakes: Mapping[str, Sequence[Path]]) -> Entry:
    """The entry, unless a model of another content has the same name and version."""
    paths = namesakes.get(entry.full_ref, ())
    if paths:
        first, *others = (_from_path(path) for path in paths)
        contents, names = _contents(first), _label_files(first)
        for other in others:
            # All there is where no file is here.
            same_text = first.described and other.manifest == first.manifest
            same = _contents(other) == contents and _label_files(other) == names
            if not same or not (contents or same_text):
                raise ambiguous(entry.full_ref, [str(path) for path in paths], hint="Give its path.")
    return entry


def _contents(entry: Entry) -> set[str]:
    """What the files of a model hold, as far as they are here. Bare torch weights are no asset yet: they are known by
    the bytes of their file."""
    # Only here: files are read for it.
    from zoolens.inventory.catalog.stored import contents_of

    if entry.described or entry.manifest.assets:
        return contents_of(entry)
    digests = {_file_digest(location, entry.folder) for location in entry.manifest.attributes["files"].values()}
    return {known for known in digests if known is not None}


def _label_files(entry: Entry) -> list[str | None]:
    """What the labels file of each output holds. A fingerprint has its name only."""
    files = [output.labels_file for output in entry.manifest.outputs]
    return [None if file is None else _file_digest(file, entry.folder) for file in files]


def _file_digest(location: str, folder: Path | None) -> str | None:
    """Returns the digest of the file, None where there is no such file here."""
    try:
        return digest(resolve_file(AssetFile(location=location), folder, fetch=False))
    except (AssetError, ValidationError):
        return None


def _like(name: str, entries: Iterable[Entry]) -> list[str]:
    """Returns models of exactly this name in other zoos, else those of the cheap zoos with a similar name."""
    elsewhere = [reference for reference in kept_names() if reference.partition(":")[2] == name]
    if elsewhere:
        return list(dict.fromkeys(elsewhere))
    return nearest(name, dict.fromkeys(entry.ref for entry in entries))


def version_order(entry: Entry) -> tuple[tuple[int, ...], bool, tuple[tuple[int, int, str], ...]]:
    """Versions sort as semantic versioning says: a pre-release before its release, and its numbers before its words."""
    without_build = entry.manifest.version.partition("+")[0]
    core, dash, pre = without_build.partition("-")
    numbers = tuple(int(part) for part in core.split("."))
    if not dash:
        return numbers, True, ()
    parts = tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in pre.split("."))
    return numbers, False, parts
