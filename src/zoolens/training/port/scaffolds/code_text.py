"""Lines of Python: calls with their arguments, broken where they are too long."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

WIDTH: Final = 100
_INDENT: Final = "    "
_OPEN, _CLOSE = "([{", ")]}"


def call(function: str, arguments: Iterable[str]) -> str:
    return f"{function}({', '.join(arguments)})"


def docstring(lines: Sequence[str]) -> list[str]:
    """Lines of plain words as a docstring; `names.comment` sees to it that none of them ends it."""
    return [f'"""{lines[0]}"""'] if len(lines) == 1 else [f'"""{lines[0]}', *lines[1:], '"""']


def indented(lines: Iterable[str], levels: int = 1) -> list[str]:
    return [f"{_INDENT * levels}{line}" if line else "" for line in lines]


def fitted(lines: Iterable[str]) -> list[str]:
    """Breaks lines that are too long at the brackets with the most between them."""
    return [piece for line in lines for piece in _fitted(line)]


def _fitted(line: str) -> list[str]:
    if len(line) <= WIDTH or line.lstrip().startswith("#"):
        return [line]
    pairs = _brackets(line)
    if not pairs:
        return [line]
    start, stop = max(pairs, key=lambda pair: pair[1] - pair[0])
    margin = line[: len(line) - len(line.lstrip())]
    inner = line[start + 1 : stop]
    body = f"{margin}{_INDENT}{inner}"
    pieces = [body] if len(body) <= WIDTH else [f"{margin}{_INDENT}{part}," for part in _parts(inner)]
    return [line[: start + 1], *(piece for body in pieces for piece in _fitted(body)), f"{margin}{line[stop:]}"]


def _brackets(line: str) -> list[tuple[int, int]]:
    """Outermost pairs of brackets outside strings."""
    pairs, depth, first, quote = [], 0, 0, ""
    for place, letter in enumerate(line):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter in _OPEN:
            first = place if depth == 0 else first
            depth += 1
        elif letter in _CLOSE:
            depth -= 1
            if depth == 0:
                pairs.append((first, place))
    return pairs


def _parts(inner: str) -> Sequence[str]:
    """What stands between the commas of an argument list."""
    parts, depth, quote, start = [], 0, "", 0
    for place, letter in enumerate(inner):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter in _OPEN:
            depth += 1
        elif letter in _CLOSE:
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(inner[start:place].strip())
            start = place + 1
    last = inner[start:].strip()
    return [*parts, last] if last else parts
