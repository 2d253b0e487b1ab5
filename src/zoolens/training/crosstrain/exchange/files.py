"""The files of a folder from elsewhere: only those that belong there, each read once, of bounded size, unaltered."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from zoolens.base.errors import ZoolensError
from zoolens.base.safety.untrusted import open_regular
from zoolens.training.crosstrain.exchange.contents import CHECKSUMS, DATASHEET, RECIPES, SCHEMA, STUDY, WEIGHTS
from zoolens.training.crosstrain.exchange.exchange_schema import TABLES

MAX_FILES: Final = 100_000
_MIB: Final = 1 << 20
_CHUNK: Final = 1 << 20
_WEIGHTS_NAME: Final = re.compile(rf"{WEIGHTS}/(0|[1-9][0-9]{{0,8}})\.safetensors")
_LINE: Final = re.compile(r"([0-9a-f]{64})  (\S+)")
# The largest that is read, in MiB; weights are read one by one.
_LIMITS: Final[Mapping[str, int]] = {
    STUDY: 64,
    RECIPES: 64,
    SCHEMA: 16,
    DATASHEET: 16,
    CHECKSUMS: 16,
    **{f"{table}.parquet": 1024 if table == "predictions" else 256 for table in TABLES},
}
_WEIGHTS_LIMIT: Final = 4096


class FolderRefused(Exception):
    """What is wrong with a folder, all of it that could be seen."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


@dataclass(frozen=True)
class Files:
    """`content` by name, without weights; `weights` and `digests` (SHA-256) by number and by name."""

    content: Mapping[str, bytes]
    weights: Mapping[int, Path]
    digests: Mapping[str, str]


def read_files(folder: Path) -> Files:
    """Refused: a file too many or missing, a link, one that is too large, a checksum that is not right."""
    names = _listed(folder)
    weights = {int(match[1]): folder / name for name in names if (match := _WEIGHTS_NAME.fullmatch(name))}
    content = {name: _read(folder, name) for name in names if not _WEIGHTS_NAME.fullmatch(name)}
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in content.items()}
    for number, path in weights.items():
        digests[f"{WEIGHTS}/{number}.safetensors"] = digest(path)
    problems = list(_checksum_problems(content[CHECKSUMS], digests))
    if problems:
        raise FolderRefused(problems)
    return Files(content, weights, digests)


def digest(path: Path) -> str:
    sha256 = hashlib.sha256()
    with _opened(path) as file:
        while chunk := file.read(_CHUNK):
            sha256.update(chunk)
    return sha256.hexdigest()


def checksum_lines(digests: Mapping[str, str]) -> str:
    """Writes the checksums as `sha256sum --check` reads them."""
    return "".join(f"{digests[name]}  {name}\n" for name in sorted(digests) if name != CHECKSUMS)


def _listed(folder: Path) -> list[str]:
    if not folder.is_dir():
        raise ZoolensError(f"{folder} is not a folder.", hint="Name a folder that `crosstrain export` wrote.")
    names: list[str] = []
    problems: list[str] = []
    for name, info in _walk(folder):
        if len(names) + len(problems) >= MAX_FILES:
            raise FolderRefused([f"The folder has more than {MAX_FILES} files."])
        if wrong := _wrong_file(name, info):
            problems.append(f"{shown(name)} {wrong}.")
        else:
            names.append(name)
    seen = set(names)
    problems += [
        f"{name} is missing." for name in _LIMITS if name not in seen and not any(p.startswith(name) for p in problems)
    ]
    if problems:
        raise FolderRefused(problems)
    return names


def _walk(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Links are told, never followed; of folders only `weights` is entered."""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.name == WEIGHTS and entry.is_dir(follow_symlinks=False):
            inside = sorted(os.scandir(entry.path), key=lambda file: file.name)
            yield from ((f"{WEIGHTS}/{file.name}", file.stat(follow_symlinks=False)) for file in inside)
        else:
            yield entry.name, entry.stat(follow_symlinks=False)


def _wrong_file(name: str, info: os.stat_result) -> str | None:
    if stat.S_ISLNK(info.st_mode):
        return "is a link, which could lead anywhere"
    if stat.S_ISDIR(info.st_mode):
        return "is a folder that does not belong here"
    if not stat.S_ISREG(info.st_mode):
        return "is not a plain file"
    limit = _WEIGHTS_LIMIT if _WEIGHTS_NAME.fullmatch(name) else _LIMITS.get(name)
    if limit is None:
        return "does not belong here"
    return f"is larger than {limit} MiB" if info.st_size > limit * _MIB else None


def _read(folder: Path, name: str) -> bytes:
    with _opened(folder / name) as file:
        content = file.read(_LIMITS[name] * _MIB + 1)
    if len(content) > _LIMITS[name] * _MIB:
        raise FolderRefused([f"{name} is larger than {_LIMITS[name]} MiB."])
    return content


def _opened(path: Path) -> IO[bytes]:
    try:
        return open_regular(path, follow_links=False)
    except OSError as error:
        raise FolderRefused([f"{path.name} cannot be read: {error.strerror}."]) from error


def _checksum_problems(content: bytes, digests: Mapping[str, str]) -> Iterator[str]:
    stated: dict[str, str] = {}
    for number, line in enumerate(content.decode("utf-8", "replace").split("\n")[:-1], start=1):
        match = _LINE.fullmatch(line)
        if match is None or match[2] in stated:
            yield f"{CHECKSUMS}, line {number} is not a SHA-256 and the name of a file."
        else:
            stated[match[2]] = match[1]
    there = {name: checksum for name, checksum in digests.items() if name != CHECKSUMS}
    yield from (f"{name} is not in {CHECKSUMS}." for name in sorted(there.keys() - stated.keys()))
    yield from (
        f"{CHECKSUMS} names {shown(name)}, which is not there." for name in sorted(stated.keys() - there.keys())
    )
    for name in sorted(there.keys() & stated.keys()):
        if there[name] != stated[name]:
            yield f"{name} is not the file that {CHECKSUMS} was made from: its SHA-256 is another one."
    if stated == there and checksum_lines(digests).encode() != content:
        yield f"{CHECKSUMS} is not as it was written."


def shown(name: str) -> str:
    return name if name.isprintable() and len(name) <= 120 else repr(name[:120])
