"""What a model may be called, and what is said of a name that is unknown or ambiguous.

| written | means |
| --- | --- |
| `zoo:name` | the newest version of that model in that zoo; an alias counts as a name |
| `zoo:name@1.0.0` | that version |
| `name`, `name@1.0.0` | the model of that name in the demo or folder zoo: to list other zoos may import a framework |
| `path/model.yaml` | the model that a manifest describes |
| `path/model.onnx` | a bare model file, whose manifest is drafted from what the file says about itself |
| `demo:*`, `torchvision:resnet?`, `demo:lenet-[tj]*` | every model that the pattern fits |
| `1a2b3c4d`, `last`, `last~2` | a stored run, by its id or the beginning of it, where measured runs are asked for |

An unknown name is an `UnknownName`, whose hint names the nearest ones. A name that several models have is an
`AmbiguousName`, which lists them. Two files that declare the same name and version are two models, unless their
contents are the same.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Set
from itertools import combinations
from pathlib import PurePath
from typing import Final, NamedTuple

from zoolens.base.errors import AmbiguousName

FILE_ZOO: Final = "file"  # the "zoo" of a model named by its path
OWN_ZOOS: Final = (FILE_ZOO, "folder")  # what the user calls own files, which is evidence of nothing
CHEAP_ZOOS: Final = ("demo", "folder")  # where a bare name is looked for
_RUN: Final = re.compile(r"[0-9a-f]{4,16}|last(~\d{1,9})?")
_SHOWN: Final = 5
_MANY: Final = 5_000  # references beyond which only those of the same first letters are held against a name


class Reference(NamedTuple):
    """The parts of `zoo:name@version`; None where a part is not given."""

    zoo: str | None
    name: str
    version: str | None


def parse(text: str) -> Reference:
    zoo, colon, rest = text.partition(":")
    name, _, version = (rest if colon else text).partition("@")
    return Reference(zoo if colon else None, name, version or None)


def bare(reference: str) -> str:
    """A reference without its version: `zoo:name`."""
    return reference.rpartition("@")[0] or reference


def is_pattern(text: str, wildcards: str = "*?[") -> bool:
    """Whether the text stands for every model it fits. Stored names may hold brackets: there only * and ? count."""
    return any(wildcard in text for wildcard in wildcards)


def is_run(text: str) -> bool:
    """Whether the text may be the id of a stored run, or `last`."""
    return _RUN.fullmatch(text) is not None


def last_part(name: str) -> str:
    """What follows the last slash. As `PurePath.name`, which takes ten times as long."""
    last = name.rpartition("/")[2]
    return (
        last
        if last not in ("", ".")
        else next((part for part in reversed(name.split("/")) if part not in ("", ".")), "")
    )


def nearest(wanted: str, references: Collection[str], count: int = 3, cutoff: float = 0.6) -> list[str]:
    """References that are spelt much like what was wanted: in full, by their name, or by the last part of that."""
    # Only for what is unknown.
    import difflib

    wanted = wanted.lower()
    by_spelling: dict[str, str] = {}
    for reference in references:
        name = reference.partition(":")[2].lower()
        for spelling in (reference.lower(), name, last_part(name)):
            if len(references) <= _MANY or spelling[:2] == wanted[:2]:
                by_spelling.setdefault(spelling, reference)
    close = difflib.get_close_matches(wanted, by_spelling, n=count, cutoff=cutoff)
    return list(dict.fromkeys(by_spelling[spelling] for spelling in close))


def ambiguous(name: str, candidates: Collection[str], **hint: str) -> AmbiguousName:
    """The error for a name that several models have."""
    ordered = sorted(candidates)
    shown = ordered[:_SHOWN]
    if len(ordered) > _SHOWN:
        shown.append("…")
    return AmbiguousName(name, shown, **hint)


def refuse_other_places(name: str, ref: str, contents: Mapping[tuple[str, str], Set[str]]) -> None:
    """Refuse a name that models of different contents have in several folders, or by several manifests of one folder.
    `contents`: the fingerprints of what was evaluated, by folder and file; copies of one file are one model."""
    apart = any(a.isdisjoint(b) for a, b in combinations(contents.values(), 2))
    if apart:
        last = bare(ref).partition(":")[2]
        paths = [str(PurePath(folder, file or last)) for folder, file in contents]
        raise ambiguous(name, paths, hint="Name it by its path.")
