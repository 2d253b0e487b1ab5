"""The paths that runs name: where their data and models lay when they were measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl

_LEAST_PARTS: Final = 3  # of a folder that is searched for: "/", and two names


def paths_in(text: str) -> Iterator[Path]:
    """The absolute paths in a text such as "/data/x" or "npz:/data/x.npz?classes=%2Fdata%2Fnames.txt"."""
    place, _, options = text.partition("?")
    values = [value for _, value in parse_qsl(options)]
    without_kind = place.partition(":")[2]
    for named in (place, without_kind, *values):
        path = Path(named)
        if path.is_absolute():
            yield path


def private_folders(origins: Iterable[Mapping[str, Any]]) -> set[Path]:
    """The folders that origins of runs name, and those above them: names of customers and projects, often. Whoever
    looks for paths in a text alone cannot tell where one ends that has spaces in it."""
    folders: set[Path] = set()
    for origin in origins:
        for text in _texts(origin):
            for path in paths_in(text):
                folders |= {path, *path.parents}
    return {folder for folder in folders if len(folder.parts) >= _LEAST_PARTS}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts(list(value.values()))
    elif isinstance(value, list | tuple):
        for member in value:
            yield from _texts(member)
