"""Which structure in the store is a model's: by library and architecture, else by the name of its file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from pydantic import ValidationError

from zoolens.base.errors import ZoolensError
from zoolens.base.progress import Progress
from zoolens.base.store.records import DONE, ModelRecord, Run, RunKind, fingerprint
from zoolens.base.store.store import Store
from zoolens.findings.graph.structures.structure import STAGE, structure_of
from zoolens.findings.graph.structures.structure_sources import Size, find_entries, manifest_size, source_of
from zoolens.findings.index.sources.aliases import Aliases, stored_aliases
from zoolens.findings.index.sources.attributes import manifest_of, split_ref
from zoolens.inventory.manifests.locations import fingerprint_of_dump
from zoolens.inventory.manifests.schema import Input, Manifest
from zoolens.inventory.zoos.zoo import Entry, Weights

Key = tuple[str, Size | None]  # of the model's content, or its name; image size


@dataclass(frozen=True)
class Structures:
    """The newest finished structure run of every content. Several contents may have been read under one name."""

    by_content: Mapping[Key, Run]
    by_ref: Mapping[Key, Sequence[Run]]

    @property
    def runs(self) -> Iterable[Run]:
        return self.by_content.values()

    def named(self, pattern: str) -> dict[str, tuple[str, Run]]:
        """The structures that a pattern names, by the ids of their runs, each with the name that it has there."""
        newest = {run.id for run in self.runs}
        found: dict[str, tuple[str, Run]] = {}
        for (ref, _), runs in self.by_ref.items():
            if not _fits(ref, pattern):
                continue
            for run in runs:
                if run.id in newest and (run.id not in found or ref == run.model.ref):
                    found[run.id] = (ref, run)
        return found

    def of(self, ref: str, manifest: Mapping[str, Any], measured: ModelRecord | None = None) -> Run | None:
        """The structure run of a model, and of the content `measured` if that is given; None where there is none."""
        if not self.by_content:
            return None
        size = _size(manifest)
        for content in architecture_keys(manifest):
            if structure := self.by_content.get((content, size)):
                return structure
        read = self.by_ref.get((ref, size), ())
        return next((run for run in read if _same_files(run, manifest, measured)), None)


def known_structures(store: Store, names: Aliases | None = None) -> Structures:
    by_content: dict[Key, Run] = {}
    by_ref: dict[Key, list[Run]] = {}
    names = stored_aliases(store) if names is None else names
    for run in store.runs(kind=RunKind.STRUCTURE):  # newest first
        if run.stages.get(STAGE) == DONE:
            size = run.dataset.details.get("size")
            sides = (int(size[0]), int(size[1])) if size else None
            by_content.setdefault((run.model.fingerprint, sides), run)
            for ref in {run.model.ref, *names.get(run.model.fingerprint, ())}:  # one file may have several names
                by_ref.setdefault((ref, sides), []).append(run)
    return Structures(by_content, by_ref)


def read_structures(store: Store, runs: Iterable[Run], progress: Progress | None = None) -> None:
    """Read the structure of every measured model that has none yet. `progress` is told which ones cannot be read."""
    known = known_structures(store)
    missing = {run.ref: run for run in runs if known.of(run.ref, manifest_of(run), run.model) is None}
    entries = [entry for entry in map(_entry, missing.values()) if entry is not None]
    _read(store, entries, progress)


def read_named_structures(store: Store, pattern: str, progress: Progress | None = None) -> None:
    """Read the structures of the models that a pattern names, and give those of a content that was read under another
    name this name too. UnknownName: no model is named so."""
    _read(store, find_entries([pattern]), progress)


def fill_structures(store: Store, runs: Iterable[Run], progress: Progress | None = None) -> bool:
    """Read the structures that a query needs, and return whether any was read. Structures that failed before are not
    tried again, nor those that need an environment of their own: making one takes minutes that nobody asked for."""
    known = known_structures(store)
    failed = {run.model.ref for run in store.runs(kind=RunKind.STRUCTURE) if run.stages.get(STAGE, DONE) != DONE}
    missing = {
        (run.ref, run.key.model): run
        for run in runs
        if run.ref not in failed and known.of(run.ref, manifest_of(run), run.model) is None
    }
    entries = [entry for entry in map(_entry, missing.values()) if entry is not None and _is_read_here(entry)]
    return _read(store, entries, progress)


def _is_read_here(entry: Entry) -> bool:
    try:
        return source_of(entry).environment is None
    except ZoolensError:
        # Its file is gone, or a package is not installed.
        return False


def _read(store: Store, entries: Sequence[Entry], progress: Progress | None) -> bool:
    """Read the structures of these entries, and return whether any was read."""
    structures = structure_of(entries, store=store, progress=progress) if entries else []
    for structure in structures:
        if structure.error is not None and progress is not None:
            progress.say(f"{structure.ref} has no structure: {structure.error}")
        elif structure.error is None and structure.kept and structure.source is not None:
            # The structure was read under another name; this model has it now too.
            source = structure.source
            store.begin_run(source.model, source.dataset, source.stack, kind=RunKind.STRUCTURE)
    return any(structure.error is None for structure in structures)


def _entry(run: Run) -> Entry | None:
    from pathlib import Path

    try:
        manifest = Manifest.model_validate(manifest_of(run))
    except ValidationError:  # of another version of zoolens
        return None
    folder = run.origin.get("folder")
    return Entry(split_ref(run.ref)[0], manifest, Weights.PRESENT, Path(folder) if folder else None)


def _size(manifest: Mapping[str, Any]) -> Size | None:
    try:
        first = Input.model_validate((manifest.get("inputs") or [{}])[0])
    except ValidationError:
        return None
    return manifest_size(Manifest.model_construct(inputs=(first,)))


def architecture_keys(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Fingerprints of the architectures that a manifest names, as `graph.structure_sources` makes them."""
    known = manifest.get("attributes") or {}
    yield _architecture(known.get("library"), known.get("architecture"), known.get("arguments"))
    for asset in manifest.get("assets") or ():
        built = asset.get("architecture") or {}
        yield _architecture(built.get("library"), built.get("name"), built.get("arguments"))


def _architecture(library: object, name: object, arguments: Any) -> str:
    if library is None and name is None and not arguments:  # as in most manifests
        return _NO_ARCHITECTURE
    return _fingerprint(library, name, dict(arguments or {}))


def _fingerprint(library: object, name: object, arguments: Mapping[str, Any]) -> str:
    return fingerprint({"library": library, "architecture": name, "arguments": arguments})


_NO_ARCHITECTURE: Final = _fingerprint(None, None, {})


def _fits(ref: str, pattern: str) -> bool:
    return any(fnmatchcase(ref.lower(), f"{pattern.lower()}{end}") for end in ("", "@*", "/*"))


def _same_files(structure: Run, manifest: Mapping[str, Any], measured: ModelRecord | None) -> bool:
    """Whether a structure may be of this manifest's files. The manifest may declare the digest of the file that the
    structure was read from; otherwise the measured content decides."""
    read, declared = structure.model.manifest, False
    for asset in manifest.get("assets") or ():
        if asset.get("format") == read.get("format"):
            for file in asset.get("files") or ():
                digest = (read.get("files") or {}).get(file.get("role") or "model")
                if digest and file.get("sha256"):
                    if not str(digest).startswith(file["sha256"]):
                        return False
                    declared = True
    return declared or _same_content(structure, measured)


def _same_content(structure: Run, measured: ModelRecord | None) -> bool:
    """Whether the measured content is made of the files that the structure was read from. A content in another format
    does not contradict it."""
    digests, format_ = structure.model.manifest.get("files"), structure.model.manifest.get("format")
    if measured is None or not digests or format_ != measured.format:
        return True
    assets = [asset for asset in measured.manifest.get("assets") or () if asset.get("format") == format_]
    return not assets or fingerprint_of_dump(measured.manifest, assets[0], digests) == measured.fingerprint
