"""Where a user's things lie, and how files and folders are written so that nobody sees half of one.

ZOOLENS_HOME moves the store and the caches.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from zoolens.base.errors import ZoolensError

_SOFTWARE: Final = ("site-packages", "node_modules", "__pycache__")


def data_dir() -> Path:
    """Returns the folder of the store, which must not be deleted."""
    home = os.environ.get("ZOOLENS_HOME")
    if home:
        return Path(home) / "data"
    from platformdirs import user_data_path

    return user_data_path("zoolens", appauthor=False)


def cache_dir() -> Path:
    """Returns the folder of downloads, environments and catalogues, which may be deleted at any time."""
    home = os.environ.get("ZOOLENS_HOME")
    if home:
        return Path(home) / "cache"
    from platformdirs import user_cache_path

    return user_cache_path("zoolens", appauthor=False)


@contextmanager
def replaced_file(path: Path) -> Iterator[IO[bytes]]:
    """A new file that takes the place of this one at the end, at once; where anything fails, the old one stays. A link
    stays a link: what it leads to is replaced."""
    target = path.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(_hidden(target.name))
    try:
        with part.open("xb") as file:
            yield file
        part.replace(target)
    finally:
        with suppress(OSError):
            part.unlink()


@contextmanager
def new_folder(folder: Path, *, shared: bool = False) -> Iterator[Path]:
    """An empty folder under another name, which takes this name at the end, at once; where anything fails, nothing is
    left. Nothing but an empty folder may lie there before. `shared`: other users may read it."""
    from shutil import rmtree

    target = folder.absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    building = target.with_name(_hidden(target.name))
    building.mkdir(mode=0o700)
    try:
        yield building
        if shared:
            building.chmod(0o755)
        building.replace(target)
    finally:
        rmtree(building, ignore_errors=True)


@contextmanager
def exported_folder(folder: Path) -> Iterator[Path]:
    """A `new_folder` that a user names and may give to others; ZoolensError where it cannot be written."""
    target = folder.absolute()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ZoolensError(f"{folder} already exists and is not empty.", hint="Name a new folder.")
    try:
        with new_folder(target, shared=True) as building:
            yield building
    except OSError as error:
        raise ZoolensError(f"{folder} cannot be written: {error.strerror or error}.", hint="Name another.") from error


def as_written(path: Path) -> str:
    """The path as a user in the working directory writes it."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def holds_software(name: str, files: Collection[str]) -> bool:
    """Whether a folder of this name with these files holds installed software, whose pictures and models are no
    user's."""
    return name in _SOFTWARE or "pyvenv.cfg" in files


def _hidden(name: str) -> str:
    """Returns a unique name for a file that is being written; file names have at most 255 bytes."""
    return f".{name[:40]}-{os.urandom(6).hex()}"
