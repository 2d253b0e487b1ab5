"""A query that cannot be understood or answered: what is wrong, where it stands, how to write it."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from zoolens.base.errors import UnknownName, ZoolensError

WIDEST = 100  # columns of the query shown: the surroundings of what is wrong


class QueryError(ZoolensError):
    """`text[start:end]` is what is wrong. Printed: one sentence, the line, a caret below it, one hint."""

    def __init__(self, message: str, text: str, start: int, end: int, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.text = text
        self.start = start
        self.end = end

    def __str__(self) -> str:
        lines = [self.message, *_pointed(self.text, self.start, self.end)]
        return "\n".join([*lines, self.hint] if self.hint else lines)


class ClauseError(ZoolensError):
    """A part of a query cannot be answered. `name` is a name that the query uses, or the keyword of a clause."""

    def __init__(self, name: str, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.name = name


class UnknownQueryName(UnknownName):
    """A query uses a name that stands for nothing in the index: `name`."""

    def __init__(self, kind: str, name: str, known: Iterable[str], *, hint: str | None = None) -> None:
        super().__init__(kind, name, known, hint=hint)
        self.name = name


def _pointed(text: str, start: int, end: int) -> tuple[str, str]:
    """Return the line that holds `start`, cut to its surroundings, and carets under `start` to `end`."""
    number = text.count("\n", 0, start) + 1
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", start)
    line = text[first:] if last < 0 else text[first:last]
    at = start - first
    length = max(min(end - start, len(line) - at), 1)
    # A long line is cut so that the carets, or half a line of them, and ten more columns are seen.
    cut = max(0, at + min(length, WIDEST // 2) - WIDEST + 10)
    shown = line[cut : cut + WIDEST]
    before, behind = shown[: at - cut], shown[at - cut :]
    if cut:
        before = f"… {before}"
    tail = f"{behind} …" if cut + WIDEST < len(line) else behind
    gutter = f"  line {number}: " if "\n" in text.strip() else "  "
    carets = "^" * max(_columns(behind[:length]), 1)
    return gutter + _plain(before + tail), " " * _columns(gutter + before) + carets


def _plain(text: str) -> str:
    """What a terminal shows in as many columns as `_columns` counts: no tabs, no control characters."""
    return "".join(" " if unicodedata.category(letter).startswith(("C", "Z")) else letter for letter in text)


def _columns(text: str) -> int:
    return sum(_width(letter) for letter in text)


def _width(letter: str) -> int:
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1
