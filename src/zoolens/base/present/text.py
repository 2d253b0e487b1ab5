"""Untrusted text, made safe to show: one line without control characters and without local folders."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Final

LONGEST: Final = 1000  # characters of a text on a page
_AHEAD: Final = 20  # times as many are looked at: folders that are left out make a text shorter

_SIGN: Final = r"[^\s/\\'\"`,;:()<>|]"
_POSIX: Final = re.compile(rf"(?<![\w./\\~-])(?:file://)?(~?(?:/{_SIGN}+){{2,}}|~/{_SIGN}+)/?")
_WINDOWS: Final = re.compile(rf"(?<!\w)[A-Za-z]:\\{_SIGN}*(?:\\{_SIGN}+)*")
_ROOTS: Final = frozenset({  # first folders of absolute paths, on this machine or on the one that a store comes from
    "Applications", "Library", "Users", "Volumes", "afs", "data", "etc", "gpfs", "home", "lustre", "media", "mnt",
    "nfs", "opt", "private", "root", "scratch", "srv", "storage", "tmp", "usr", "var", "work", "workspace",
})  # fmt: skip


def shareable(text: object, longest: int = LONGEST) -> str:
    """A text as a page or a picture that is passed on may show it."""
    return clean(without_folders(str(text)[: _AHEAD * longest]), longest)


def clean(text: object, longest: int = LONGEST) -> str:
    """The text as one line without control characters that ends after `longest` characters."""
    # Strangers may write ten million characters.
    printable = str(text)[: longest + 1]
    if not printable.isprintable():
        printable = "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in printable)
    return printable if len(printable) <= longest else printable[: longest - 1] + "…"


def without_folders(text: str) -> str:
    """The text with every absolute path replaced by its last part: whoever gets a page has no use for our folders.

    Names of ONNX nodes look like paths ("/layer1/conv1/Conv"); they stay, since their first part is no root folder.
    """
    shorter = _POSIX.sub(_last_part, text)
    return _WINDOWS.sub(lambda match: PureWindowsPath(match[0]).name, shorter)


def _last_part(match: re.Match[str]) -> str:
    path = match[1]
    return PurePosixPath(path).name if path.startswith("~") or _is_root(path.split("/")[1]) else match[0]


@cache
def _is_root(folder: str) -> bool:
    return folder in _ROOTS or Path("/", folder).is_dir()
