"""Which content counts under a name: a model's file or manifest may be replaced, and the old content's runs stay.

Of one name, in one format and (for models named by their path) in one place, the content that a user evaluated last is
the model; the others are replaced. Two manifests in one folder may have one name, and are two models then. Variants
that the doctor tries have the name too, but nobody evaluated them. Runs of before evaluations were marked are told
apart by their manifests: with the same one, it is the file that was replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from zoolens.base.errors import ZoolensError
from zoolens.base.store.records import Run, fingerprint
from zoolens.findings.comparisons.wording import changed_file_note
from zoolens.inventory.catalog.names import FILE_ZOO
from zoolens.inventory.manifests.digests import digest
from zoolens.inventory.manifests.locations import locate, model_fingerprint
from zoolens.inventory.manifests.schema import AssetFile, Manifest


@dataclass(frozen=True)
class Content:
    """A model content that was evaluated under a name."""

    ref: str
    format: str
    folder: str
    model: str
    evaluated: str  # in the order of which `zoolens eval` met contents; "": unknown
    begun: int  # in the order in which the store got its runs
    declared: Callable[[], str]  # digest of what its manifest says of inputs and outputs
    file: str = ""

    @property
    def place(self) -> tuple[str, str, str]:
        return self.ref, self.format, self.folder


def content_of(run: Run) -> Content:
    return Content(
        ref=run.ref,
        format=run.model.format,
        folder=folder_of(run),
        model=run.key.model,
        evaluated=run.met,
        begun=run.number,
        declared=lambda: declared_by(run),
        file=file_of(run),
    )


def folder_of(run: Run) -> str:
    """Where a model lies that was named by its path; "" for those of zoos, whose names are unique."""
    return str(run.origin.get("folder") or "") if run.ref.startswith(f"{FILE_ZOO}:") else ""


def file_of(run: Run) -> str:
    """The name of the manifest by which the model was named; "" where it was not, or nobody noted it."""
    return str(run.origin.get("file") or "")


def declared_by(run: Run) -> str:
    return fingerprint([run.model.manifest.get(part) for part in ("inputs", "outputs", "code")])


def replaced_contents(contents: Sequence[Content]) -> list[bool]:
    """For each content, whether another one has taken its place since."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for number, content in enumerate(contents):
        groups.setdefault(content.place, []).append(number)
    replaced = [False] * len(contents)
    for numbers in groups.values():
        if len({contents[number].model for number in numbers}) > 1:
            for number in _replaced_in_place(contents, numbers):
                replaced[number] = True
    return replaced


def _replaced_in_place(contents: Sequence[Content], numbers: Sequence[int]) -> Iterable[int]:
    """Each manifest's contents replace one another. One whose manifest nobody noted may be any of them: it counts where
    a manifest has it now."""
    files = {contents[number].file for number in numbers} - {""}
    if len(files) < 2:
        return _replaced(contents, numbers)
    noted = [number for number in numbers if contents[number].file]
    gone = {number for file in files for number in _replaced(contents, [n for n in noted if contents[n].file == file])}
    current = {contents[number].model for number in noted if number not in gone}
    return gone | {number for number in numbers if not contents[number].file and contents[number].model not in current}


def _replaced(contents: Sequence[Content], numbers: Collection[int]) -> Iterable[int]:
    if any(contents[number].evaluated for number in numbers):
        alike = {"": list(numbers)}
    else:
        alike = {}
        for number in numbers:
            alike.setdefault(contents[number].declared(), []).append(number)
    for group in alike.values():
        last = max(group, key=lambda number: (contents[number].evaluated, contents[number].begun))
        yield from (number for number in group if contents[number].model != contents[last].model)


@dataclass(frozen=True)
class FileState:
    """Whether the model files of a run have been replaced since it was measured."""

    changed: bool  # the run's files are here, with other contents
    # path and digest of each (None: missing) that this rests on; None: it rests on more, such as a variable in a path
    files: tuple[tuple[str, str | None], ...] | None


def changed_on_disk(run: Run) -> bool:
    """Whether the run's file is here, and is another by now. Digests are remembered, so that this is quick."""
    return file_state(run).changed


def file_state(run: Run) -> FileState:
    return file_states([run])[run.id]


def file_states(runs: Iterable[Run]) -> dict[str, FileState]:
    """The state of each run's files, by the run's id. Runs of one manifest in several environments have the same files,
    which are looked at once."""
    looked: dict[str, _Files] = {}
    states = {}
    for run in runs:
        declared, folder = run.origin.get("manifest"), run.origin.get("folder")
        key = fingerprint([declared, folder, run.model.format])
        if key not in looked:
            looked[key] = _files(declared, Path(folder) if folder else None, run.model.format)
        found = looked[key]
        states[run.id] = FileState(found.content not in (None, run.key.model), found.files)
    return states


@dataclass(frozen=True)
class _Files:
    """`content`: fingerprint of the model that the files make; None: not all of them are here. `files`: see
    `FileState`."""

    content: str | None
    files: tuple[tuple[str, str | None], ...] | None


def _files(declared: Any, folder: Path | None, format_: str) -> _Files:
    try:
        manifest = Manifest.model_validate(declared)
        asset = next((candidate for candidate in manifest.assets if candidate.format == format_), None)
        if asset is None:
            return _Files(None, ())
        places = {file.role: locate(file, folder) for file in asset.files}
        paths: dict[str, Path] = {role: place for role, place in places.items() if place is not None and place.exists()}
        content = model_fingerprint(manifest, asset, paths) if len(paths) == len(places) else None
        named = [(_named_path(file, folder, places[file.role]), paths.get(file.role)) for file in asset.files]
        if any(name is None for name, _ in named):
            return _Files(content, None)
        return _Files(content, tuple((str(name), None if path is None else digest(path)) for name, path in named))
    except ValidationError:  # of another version of zoolens
        return _Files(None, ())
    except (OSError, ZoolensError):
        # Not ours to judge: it cannot be read, such as in a folder of another user.
        return _Files(None, None)


def _named_path(file: AssetFile, folder: Path | None, located: Path | None) -> Path | None:
    """The path as it is named, before links are followed, since they may lead elsewhere tomorrow; None where the name
    alone does not tell the path."""
    if "://" not in file.location:
        return None if folder is None else folder.absolute() / file.location
    if file.location.startswith("file://") and "${" not in file.location:
        return Path(file.location.removeprefix("file://"))
    return located if file.location.startswith("package://") else None


def changed_notes(runs: Iterable[Run]) -> Iterator[str]:
    """One sentence for each run whose file is another by now: what it answered is not what the model answers."""
    for run in runs:
        if changed_on_disk(run):
            yield changed_file_note(run.ref, run.id)


def without_replaced(runs: Sequence[Run], known: Sequence[Run]) -> list[Run]:
    """The runs of contents that still count, judged by everything that is `known` of their names."""
    everything = list({run.id: run for run in (*runs, *known)}.values())
    flags = replaced_contents([content_of(run) for run in everything])
    gone = {run.id for run, replaced in zip(everything, flags, strict=True) if replaced}
    return [run for run in runs if run.id not in gone]
