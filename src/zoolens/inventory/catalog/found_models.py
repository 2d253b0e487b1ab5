"""Models that lie in a folder: those that a manifest describes, bare files, and what cannot be run as it is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from zoolens.inventory.zoos.folder import FolderZoo


@dataclass(frozen=True)
class FoundModels:
    manifests: tuple[Path, ...]
    files: tuple[Path, ...]  # no manifest describes them
    left_out: tuple[str, ...]  # and why


def find_models(root: Path, besides: Path | None = None) -> FoundModels:
    """The models at or below `root`; the folder `besides`, such as that of the data, is not searched."""
    zoo = FolderZoo([root])
    manifests: list[Path] = []
    files: list[Path] = []
    left_out: list[str] = []
    for entry, path in zoo.located(root, besides):
        if not entry.manifest.attributes.get("undescribed"):
            manifests.append(path)
        elif entry.manifest.assets:
            files.append(path)
        else:
            left_out.append(f"{path.name}: it holds weights only; a manifest has to say which network they belong to")
    return FoundModels(tuple(manifests), tuple(files), (*left_out, *zoo.problems()))
