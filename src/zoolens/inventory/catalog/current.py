"""The manifest that the model of a stored run has today, which may say something else than the stored one."""

from __future__ import annotations

from pathlib import Path

from zoolens.base.errors import MissingDependency, UnknownName
from zoolens.base.store.records import Run
from zoolens.inventory.catalog.lookup import find
from zoolens.inventory.catalog.names import FILE_ZOO
from zoolens.inventory.manifests.files import read_manifest
from zoolens.inventory.zoos.zoo import Entry, Weights


def current_entry(run: Run) -> Entry | None:
    """The model of a run as it is described today. None where it has no manifest of its own (a bare file, whose draft
    follows from the file) or where that is not there any more."""
    zoo = run.ref.partition(":")[0]
    folder, file = run.origin.get("folder"), run.origin.get("file")
    if folder and file:
        path = Path(folder) / file
        return Entry(zoo, read_manifest(path), Weights.PRESENT, path.parent, path.name) if path.is_file() else None
    if zoo == FILE_ZOO:
        return None
    try:
        return find(run.ref, draft=False)
    except (UnknownName, MissingDependency):
        return None


def has_lost_manifest(run: Run) -> bool:
    """Whether the run was made from a manifest that is not there any more."""
    was_described = run.ref.partition(":")[0] != FILE_ZOO or bool(run.origin.get("file"))
    return was_described and current_entry(run) is None
