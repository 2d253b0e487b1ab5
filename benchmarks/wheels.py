"""Packages that are not installed, taken from a folder of wheels."""

from __future__ import annotations

import zipfile
from pathlib import Path


def unpacked(wheels: Path, folder: Path) -> Path:
    """Wheels need not be installed: they are unpacked in front of what is, and metadata beside them are linked."""
    folder.mkdir(parents=True)
    for wheel in wheels.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
    for metadata in wheels.glob("*.dist-info"):
        (folder / metadata.name).symlink_to(metadata.absolute())
    return folder
