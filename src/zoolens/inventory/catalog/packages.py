"""Which Python packages are installed here."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

from packaging.utils import canonicalize_name


@cache
def installed_packages() -> dict[str, str]:
    """Normalised name and version of every distribution on the path, from the names of their folders.

    Reading each one's metadata takes half a second where many are installed; the folder's name says the same.
    """
    versions: dict[str, str] = {}
    for place in map(Path, sys.path):
        for folder in place.glob("*.dist-info") if place.is_dir() else ():
            name, _, version = folder.name.removesuffix(".dist-info").partition("-")
            versions.setdefault(canonicalize_name(name), version)
    return dict(sorted(versions.items()))
