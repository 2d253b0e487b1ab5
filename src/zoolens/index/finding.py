"""From the name in a query to a row: the model it means, and which of its rows.

A name is a reference (zoo:name@version or zoo:name), a bare name, the last part of one, a row's key, or any part of
one model's name. A name under which the same content was measured before finds it too, where no model has it now.
Models that answered the probes come before others of the same name, the newest version before older ones. Of several
runtimes it is the one that EXEC names, else the one that most rows are of.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final

from zoolens.errors import UnknownName, ZoolensError
from zoolens.index.rows import Row

STACK: Final = (
    "runtime",
    "runtime_version",
    "device",
    "precision",
    "threads",
    "mode",
)  # keys of EXEC that are looked at
SHOWN: Final = 5
MANY: Final = 5_000
_KEY: Final = re.compile(r"[0-9a-f]{8,16}")
_DIGITS: Final = re.compile(r"\d+")


def find_row(rows: Sequence[Row], name: str, exec_: Mapping[str, Any] | None = None) -> int:
    named = _of_one_model(rows, name, _named(rows, name))
    fitting = [row for row in named if _fits(rows[row], exec_ or {})]
    if not fitting:
        raise _not_in(rows, named, exec_ or {})
    popular = Counter(row.runtime for row in rows if row.signature)
    return max(fitting, key=lambda row: (*_merit(rows[row], popular), -row))


def bare_ref(row: Row) -> str:
    """zoo:name."""
    return _bare(row.ref)


def _named(rows: Sequence[Row], name: str) -> list[int]:
    wanted = name.strip().lower()
    for matches in _ways(wanted):
        found = [number for number, row in enumerate(rows) if matches(row)]
        if found:
            return [number for number in found if rows[number].signature] or found
    known = dict.fromkeys(bare_ref(row) for row in rows)
    close = _close(wanted, known)
    hint = f"Did you mean {' or '.join(close)}?" if close else None
    if not rows:
        hint = "Nothing is indexed yet: measure models with `zoolens eval`."
    raise UnknownName("indexed model", name, known, hint=hint)


def _ways(wanted: str) -> Iterator[Callable[[Row], bool]]:
    """From the strictest to the most lenient."""
    if _KEY.fullmatch(wanted):
        yield lambda row: row.key.startswith(wanted)
    spelt = [
        lambda ref: ref == wanted,
        lambda ref: _bare(ref) == wanted,
        lambda ref: _name(ref) == wanted,
        lambda ref: PurePath(_name(ref)).name == PurePath(wanted).name,
    ]
    yield from (lambda row, way=way: way(row.ref.lower()) for way in spelt)
    yield from (lambda row, way=way: any(way(ref.lower()) for ref in row.also) for way in spelt)
    if wanted:
        yield lambda row: wanted in row.ref.lower()


def _name(ref: str) -> str:
    return _bare(ref).partition(":")[2]


def _bare(ref: str) -> str:
    return ref.partition("@")[0]


def _close(wanted: str, known: Collection[str]) -> list[str]:
    """References whose name, or its last part, is spelt much alike."""
    import difflib

    by_part: dict[str, str] = {}
    for ref in known:
        name = ref.partition(":")[2].lower()
        for part in (ref.lower(), name, PurePath(name).name):
            if len(known) <= MANY or part[:2] == wanted[:2]:  # likeness takes long to tell
                by_part.setdefault(part, ref)
    return list(dict.fromkeys(by_part[part] for part in difflib.get_close_matches(wanted, by_part, n=3)))


def _of_one_model(rows: Sequence[Row], name: str, found: Sequence[int]) -> list[int]:
    models = sorted({bare_ref(rows[row]) for row in found})
    if len(models) > 1:
        shown = ", ".join(models[:SHOWN]) + (", …" if len(models) > SHOWN else "")
        raise ZoolensError(f"{name!r} could be any of {shown}.", hint="Name it in full, as zoo:name.")
    newest = max(_version(rows[row]) for row in found)
    return [row for row in found if _version(rows[row]) == newest]


def _version(row: Row) -> tuple[int, ...]:
    return tuple(int(digits) for digits in _DIGITS.findall(row.ref.rpartition("@")[2])) if "@" in row.ref else ()


def _fits(row: Row, exec_: Mapping[str, Any]) -> bool:
    """What never ran fits any stack."""
    asked = ((key, value) for key, value in exec_.items() if key in STACK)
    return row.runtime is None or all(_same(row.attributes.get(key), value) for key, value in asked)


def _same(known: object, asked: object) -> bool:
    if isinstance(known, float | int) and not isinstance(known, bool):
        try:
            return float(known) == float(str(asked))
        except ValueError:
            return False
    return known is not None and str(known).lower() == str(asked).lower()


def _merit(row: Row, popular: Mapping[str | None, int]) -> tuple[bool, int, str, str]:
    return (row.signature, popular[row.runtime], row.runtime or "", str(row.attributes.get("measured", "")))


def _not_in(rows: Sequence[Row], named: Sequence[int], exec_: Mapping[str, Any]) -> ZoolensError:
    asked = ", ".join(f"{key}={exec_[key]}" for key in STACK if key in exec_)
    there = sorted({", ".join(_stack_words(rows[row])) for row in named})
    return ZoolensError(
        f"{bare_ref(rows[named[0]])} was not measured with {asked}.", hint=f"It was with {' and with '.join(there)}."
    )


def _stack_words(row: Row) -> Iterator[str]:
    for key in ("runtime", "precision", "device"):
        if key in row.attributes:
            yield f"{key}={row.attributes[key]}"
