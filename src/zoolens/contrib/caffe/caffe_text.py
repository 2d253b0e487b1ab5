"""Protobuf's text format, as .prototxt files have it: messages as dictionaries of lists. Nothing in it is run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.model_files.model_reading import model_text

Message = dict[str, list[Any]]  # every field may be repeated; a value is a text, a number or a message

_MAX_BYTES: Final = 1 << 24
_MAX_DEPTH: Final = 32
_PIECE: Final = re.compile(
    r"""\s+|\#[^\n]*|(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(?P<mark>[{}<>\[\]:,;])|(?P<word>[\w.+\-/]+)"""
)
_WHOLE: Final = re.compile(r"[+-]?\d+")
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_MAX_DIGITS: Final = 40
_CLOSING: Final = {"{": "}", "<": ">"}


def read_message(path: Path) -> Message:
    """The message a text file holds; ModelError where it is none."""
    try:
        pieces = _pieces(model_text(path, _MAX_BYTES))
        return _message(pieces, "", 0)
    except (ValueError, StopIteration) as error:
        raise ModelError(
            f"{path.name} is not a Caffe graph in text form: {str(error) or 'it ends too early'}.",
            hint="Fetch it again, or check its format.",
        ) from error


def _pieces(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        match = _PIECE.match(text, at)
        if match is None:
            raise ValueError(f"line {text.count(chr(10), 0, at) + 1} cannot be read")
        at = match.end()
        if match.lastgroup:
            yield match.group()


def _message(pieces: Iterator[str], end: str, depth: int) -> Message:
    if depth > _MAX_DEPTH:
        raise ValueError("it is nested too deeply")
    message: Message = {}
    for name in pieces:
        if name == end:
            return message
        if name in ",;":
            continue
        message.setdefault(name, []).extend(_values(pieces, next(pieces), depth))
    if end:
        raise ValueError("it ends in the middle of a message")
    return message


def _values(pieces: Iterator[str], piece: str, depth: int) -> list[Any]:
    """What follows a field's name: a message, or a colon and a value, a message or a list of them."""
    if piece == ":":
        piece = next(pieces)
    if piece == "[":
        return _list(pieces, depth)
    return [_value(pieces, piece, depth)]


def _list(pieces: Iterator[str], depth: int) -> list[Any]:
    values: list[Any] = []
    for piece in pieces:
        if piece == "]":
            return values
        if piece != ",":
            values.append(_value(pieces, piece, depth))
    raise ValueError("it ends in the middle of a list")


def _value(pieces: Iterator[str], piece: str, depth: int) -> Any:
    if piece in _CLOSING:
        return _message(pieces, _CLOSING[piece], depth + 1)
    if piece[0] in "\"'":
        return piece[1:-1]
    if piece in "}>]:,;":
        raise ValueError(f"{piece!r} stands where a value belongs")
    if _NUMBER.fullmatch(piece):
        return _number(piece)
    return {"true": True, "false": False}.get(piece, piece)


def _number(piece: str) -> int | float:
    if len(piece) > _MAX_DIGITS:
        raise ValueError("it holds a number that is too long")
    return int(piece) if _WHOLE.fullmatch(piece) else float(piece)
