"""The files of the explorer that are built already: `make ui` writes them, and the wheel has them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import PurePath
from typing import Final

_MEDIA_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_NOT_BUILT: Final = b"<!doctype html><title>zoolens</title><p>The explorer is not built here. Run: make ui</p>\n"


@dataclass(frozen=True)
class Asset:
    """One file. `tag` changes with its content."""

    content: bytes
    media_type: str
    tag: str
    # Whether a browser must ask before it takes its copy
    caching: str = "no-cache"


@cache
def assets() -> Mapping[str, Asset]:
    """Every file by its name. Nothing else can be asked for, so that no path can lead anywhere."""
    files = {"index.html": _NOT_BUILT}
    files |= {
        file.name: file.read_bytes()
        for file in resources.files("zoolens.faces.ui").joinpath("assets").iterdir()
        if PurePath(file.name).suffix in _MEDIA_TYPES
    }
    # The same vega draws reports, so that a chart looks the same everywhere.
    files["vega.js"] = resources.files("zoolens.base.present").joinpath("assets", "vega.js").read_bytes()
    return {name: _asset(name, content) for name, content in files.items()}


def _asset(name: str, content: bytes) -> Asset:
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    media_type = _MEDIA_TYPES[PurePath(name).suffix]
    # Browsers fetch the icon again whenever the address changes: at every letter.
    if media_type == _MEDIA_TYPES[".svg"]:
        return Asset(content, media_type, tag, caching="max-age=86400")
    return Asset(content, media_type, tag)
