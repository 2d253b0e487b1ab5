"""Files beside a foreign manifest: which of those that it names are here."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from zoolens.base.errors import ManifestError
from zoolens.base.safety.untrusted import is_file, read_text
from zoolens.inventory.manifests.digests import digest, size_on_disk
from zoolens.inventory.manifests.schema import MAX_LABEL_BYTES, AssetFile


def beside(folder: Path, name: str) -> str | None:
    """The path of a file inside `folder`, relative to it: as it is named, or by its last part. None: not here."""
    for candidate in (PurePosixPath(name), PurePosixPath(PurePosixPath(name).name)):
        inside = not candidate.is_absolute() and ".." not in candidate.parts and candidate.parts
        if inside and (is_file(folder / candidate) or _is_folder(folder / candidate)):
            return candidate.as_posix()
    return None


def labels_beside(folder: Path, name: str) -> str | None:
    """The path of a file with class names inside `folder`, relative to it; None: not here, or no run could read it."""
    location = beside(folder, name)
    if location is None:
        return None
    try:
        read_text(folder / location, MAX_LABEL_BYTES)
    except (OSError, UnicodeDecodeError):
        return None
    return location


def described(folder: Path, location: str, role: str) -> AssetFile:
    """A file that is here, with its digest and size."""
    path = folder / location
    try:
        size, sha256 = size_on_disk(path), digest(path)
    except OSError as error:
        raise ManifestError(f"{path} cannot be read: {error.strerror}.") from error
    return AssetFile(location=location, role=role, sha256=sha256, bytes=size)  # type: ignore[arg-type]


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False
