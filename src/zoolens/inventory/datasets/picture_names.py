"""Names of pictures as annotation files write them, which may be paths on another machine, and the files they mean."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from zoolens.inventory.datasets.imagefolder import images_under


def name_parts(name: str) -> tuple[str, ...]:
    """The folders and the file of a name, also of one that Windows wrote."""
    parts = PurePosixPath(name.strip().replace("\\", "/")).parts
    return tuple(part for part in parts if part not in ("/", ".", ".."))


def locate_pictures(names: Iterable[str], root: Path) -> tuple[list[str | None], int]:
    """The place of each picture below `root`, None where it is not there; and how many were found by the last parts of
    their name alone. Only files that a walk through the folder met are found, so that no name leads out of it."""
    there = {path.relative_to(root).as_posix() for path in images_under(root)}
    files: list[str | None] = []
    shortened = 0
    for name in names:
        parts = name_parts(name)
        fitting = next((start for start in range(len(parts)) if "/".join(parts[start:]) in there), None)
        files.append(None if fitting is None else "/".join(parts[fitting:]))
        shortened += bool(fitting)
    return files, shortened
