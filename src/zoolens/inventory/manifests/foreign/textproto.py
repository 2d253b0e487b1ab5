"""Protocol buffers written as text, read without their schema.

Every field is a list of the values it was given, since the text does not say which fields may repeat. A value is a
text, a number, a bool, a word of an enumeration or a message. Needs no protobuf package.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

MAX_DEPTH: Final = 32
_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|\#[^\n]*)
      | (?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      | (?P<number>[-+]?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)[fF]?)
      | (?P<word>-?[A-Za-z_][A-Za-z0-9_.]*)
      | (?P<mark>[{}<>\[\]:,;/])""",
    re.VERBOSE,
)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "'": "'", "\\": "\\"}
_CLOSING: Final = {"{": "}", "<": ">"}

Message = dict[str, list[Any]]


class NotTextProto(Exception):
    """The text is not a protocol buffer; `line` is where."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line, self.what = line, what


class Word(str):
    """A bare word: a member of an enumeration."""

    __slots__ = ()


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    line: int


def parse_textproto(text: str) -> Message:
    """The fields of the outermost message. Raises NotTextProto."""
    return _Parser(text).message(None, 0)


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._position = 0

    def message(self, closing: str | None, depth: int) -> Message:
        if depth > MAX_DEPTH:
            raise NotTextProto(self._peek().line, f"messages are nested more than {MAX_DEPTH} levels deep")
        fields: Message = {}
        while (token := self._next()).text != closing or token.kind != "mark":
            if token.kind == "end":
                if closing is None:
                    return fields
                raise NotTextProto(token.line, f"{closing!r} is missing at the end")
            if token.kind != "word":
                raise NotTextProto(token.line, f"a field's name is expected, not {token.text[:40]!r}")
            fields.setdefault(token.text, []).extend(self._values(depth))
            if self._peek().text in (",", ";"):
                self._next()
        return fields

    def _values(self, depth: int) -> list[Any]:
        """What follows a field's name: one value, or several in square brackets."""
        colon = self._peek().text == ":"
        if colon:
            self._next()
        token = self._peek()
        if token.text != "[" or token.kind != "mark":
            if not colon and token.text not in _CLOSING:
                raise NotTextProto(token.line, f"':' is expected, not {token.text[:40]!r}")
            return [self._value(depth)]
        self._next()
        values = []
        while self._peek().text != "]":
            values.append(self._value(depth))
            if self._peek().text == ",":
                self._next()
            elif self._peek().text != "]":
                raise NotTextProto(self._peek().line, f"',' or ']' is expected, not {self._peek().text[:40]!r}")
        self._next()
        return values

    def _value(self, depth: int) -> Any:
        token = self._next()
        if token.kind == "mark" and token.text in _CLOSING:
            return self.message(_CLOSING[token.text], depth + 1)
        if token.kind == "text":
            parts = [_unquoted(token)]
            while self._peek().kind == "text":
                parts.append(_unquoted(self._next()))
            return "".join(parts)
        if token.kind == "number":
            return _number(token)
        if token.kind == "word":
            return {"true": True, "false": False}.get(token.text, Word(token.text))
        raise NotTextProto(token.line, f"a value is expected, not {token.text[:40]!r}")

    def _peek(self) -> _Token:
        return self._tokens[self._position]

    def _next(self) -> _Token:
        token = self._tokens[self._position]
        self._position += token.kind != "end"
        return token


def _tokens(text: str) -> Iterator[_Token]:
    position, line = 0, 1
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise NotTextProto(line, f"{text[position : position + 20].splitlines()[0]!r} cannot be read")
        if match.lastgroup != "space":
            yield _Token(str(match.lastgroup), match.group(), line)
        line += match.group().count("\n")
        position = match.end()
    yield _Token("end", "the end of the file", line)


def _unquoted(token: _Token) -> str:
    return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[0]), token.text[1:-1])


def _number(token: _Token) -> int | float:
    text = token.text.rstrip("fF") if "x" not in token.text.lower() else token.text
    if len(text) > 40:
        raise NotTextProto(token.line, f"a number of {len(text):,} digits is not read")
    try:
        return int(text, 0)
    except ValueError:
        return float(text) if not text.lstrip("-+").isdigit() else int(text)
