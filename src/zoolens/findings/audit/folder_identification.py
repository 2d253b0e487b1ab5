"""All model files of a folder, each held against its own name: a guard for CI."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoolens.base.errors import ZoolensError
from zoolens.base.progress import Progress
from zoolens.base.store.store import Store, borrowed_store
from zoolens.base.verdicts import Coverage, Gap, Outcome, Tally, Verdict, combined, judged
from zoolens.findings.audit.identification import Identification, identify, stored
from zoolens.findings.audit.name_claims import name_claim
from zoolens.findings.graph.signatures.known_networks import KnownNetwork
from zoolens.findings.graph.structures.structure import Structure, structure_of
from zoolens.findings.graph.structures.structure_sources import find_entries
from zoolens.inventory.manifests.formats import guess_format
from zoolens.inventory.zoos.zoo import Entry


@dataclass(frozen=True)
class IdentifiedFile:
    """`found`: None where the structure cannot be read, for the reason in `error`."""

    path: str  # within the folder
    found: Identification | None
    error: str = ""

    @property
    def state(self) -> str:
        """An outcome, or "no claim" for a name that speaks of no network."""
        return self.verdict.outcome.value if self.verdict else "no claim"

    @property
    def sentence(self) -> str:
        if self.found is None:
            return self.error
        agreed = self.state in (Outcome.SAME.value, "no claim")
        return self.found.sentence if agreed or not self.found.judgement else self.found.judgement.sentence

    @property
    def verdict(self) -> Verdict | None:
        """What cannot be read cannot be judged; None where the name claims nothing."""
        if self.found is not None:
            return self.found.verdict
        if name_claim([Path(self.path).name]) is None:
            return None
        return judged(Coverage((Tally("files", 0, 1),), (Gap(f"file {self.path}"),)), different=False)


def identified_files(
    folder: Path,
    *,
    store: Store | str | Path | None = None,
    size: tuple[int, int] | None = None,
    like: bool = False,
    progress: Progress | None = None,
) -> list[IdentifiedFile]:
    paths = list(_model_files(folder))
    if not paths:
        raise ZoolensError(f"There is no model file in {folder}.", hint="Name a folder with model files, or one file.")
    entries: dict[Path, Entry | str] = {path: _entry(path) for path in paths}
    with borrowed_store(store) as opened:
        readable = [entry for entry in entries.values() if isinstance(entry, Entry)]
        structures = structure_of(readable, store=opened, size=size, progress=progress) if readable else []
        further = list(stored(opened))
    return [_file(path, folder, entries[path], structures, further, like=like) for path in paths]


def exit_code(files: Sequence[IdentifiedFile]) -> int:
    """The gravest: a name that is wrong counts more than one of which it is not known."""
    states = {file.state for file in files}
    gravest = (outcome for outcome in (Outcome.DIFFERENT, Outcome.NOT_KNOWN) if outcome.value in states)
    return next(gravest, Outcome.SAME).exit_code


def as_data(folder: Path, files: Sequence[IdentifiedFile]) -> dict[str, Any]:
    verdicts = [verdict for file in files if (verdict := file.verdict) is not None]
    whole = combined(verdicts).as_data() if verdicts else {"outcome": None, "coverage": Coverage().as_data()}
    rows = [_row(file) for file in files]
    return {"folder": str(folder), **whole, "models": rows}


def _row(file: IdentifiedFile) -> dict[str, Any]:
    found = file.found.as_data() if file.found else {}
    return {"path": file.path, "state": file.state, "error": file.error or None, **found}


def _model_files(folder: Path) -> Iterator[Path]:
    """Model files and SavedModel folders, by name alone. Hidden ones are left out, as are weights of a Caffe network
    whose structure lies beside them, and folders behind a link: one to a folder above would never end."""
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if guess_format(path) is not None:
            beside = (path.with_suffix(".prototxt"), path.with_name(f"{path.stem}.deploy.prototxt"))
            if path.suffix != ".caffemodel" or not any(graph.is_file() for graph in beside):
                yield path
        elif path.is_dir() and not path.is_symlink():
            yield from _model_files(path)


def _entry(path: Path) -> Entry | str:
    try:
        return find_entries([path])[0]
    except ZoolensError as error:
        return error.message


def _file(
    path: Path,
    folder: Path,
    entry: Entry | str,
    structures: Sequence[Structure],
    further: Sequence[KnownNetwork],
    *,
    like: bool,
) -> IdentifiedFile:
    shown = path.relative_to(folder).as_posix()
    if isinstance(entry, str):
        return IdentifiedFile(shown, None, entry)
    structure = next(each for each in structures if each.entry == entry)
    try:
        graph = structure.graph
    except ZoolensError as error:
        return IdentifiedFile(shown, None, error.message)
    return IdentifiedFile(shown, identify(graph, path.name, names=[path.name], further=further, like=like))
