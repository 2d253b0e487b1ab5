"""Large JSON objects of strangers, read element by element: no more than one element is in memory at a time.

An annotation file of COCO has some hundred megabytes, and takes thirty times as much memory once it is parsed whole.
"""

from __future__ import annotations

import io
import json
from collections.abc import Collection, Iterator
from json.decoder import WHITESPACE  # type: ignore[attr-defined]  # of the standard library, and not in its stubs
from pathlib import Path
from typing import Any, Final, TextIO

from zoolens.base.safety.untrusted import open_regular

LARGEST: Final = 1 << 24  # characters of one element: a mask drawn pixel by pixel has some ten thousand
_CHUNK: Final = 1 << 20
_DECODER: Final = json.JSONDecoder()


def array_elements(path: Path, wanted: Collection[str], seen: set[str]) -> Iterator[tuple[str, Any]]:
    """The elements of the arrays that a JSON object has under the `wanted` names, each with that name, in the file's
    order. `seen` gets the names of all parts, also of empty ones. ValueError where it is no JSON object, and
    UnicodeDecodeError where it is no text."""
    with open_regular(path) as file, io.TextIOWrapper(file, encoding="utf-8-sig") as stream:
        reader = _Reader(stream)
        if reader.next_sign() != "{":
            raise ValueError("it is not a JSON object")
        for name in reader.names():
            if name in seen:
                raise ValueError(f"it has two parts named {name[:80]!r}")
            seen.add(name)
            if reader.next_sign() != "[":
                reader.value()
                continue
            for element in reader.elements():
                if name in wanted:
                    yield name, element
        if reader.next_sign():
            raise ValueError(f"something follows its end at character {reader.place:,}")


class _Reader:
    """A place in a text of which only a part is in memory."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._text = ""
        self._at = 0
        self._before = 0  # characters that are no longer in memory
        self._ended = False

    @property
    def place(self) -> int:
        return self._before + self._at

    def names(self) -> Iterator[str]:
        """The names in an object; whoever asks for the next must have read the value of the last."""
        self._take("{")
        if self._took("}"):
            return
        while True:
            if self.next_sign() != '"':
                raise ValueError(f"a name is missing at character {self.place:,}")
            name = self.value()
            self._take(":")
            yield name
            if self._took("}"):
                return
            self._take(",")

    def elements(self) -> Iterator[Any]:
        """The elements of an array."""
        self._take("[")
        if self._took("]"):
            return
        while True:
            yield self.value()
            if self._took("]"):
                return
            self._take(",")

    def next_sign(self) -> str:
        """The next character that is no white space, which is not consumed; empty at the end."""
        while True:
            self._at = WHITESPACE.match(self._text, self._at).end()
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def value(self) -> Any:
        self.next_sign()
        while True:
            problem = "it ends in the middle"
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
                # A number at the end of what is in memory may go on.
                if end < len(self._text) or self._ended:
                    self._at = end
                    return value
            except json.JSONDecodeError as error:
                problem = f"{error.msg} at character {self._before + error.pos:,}"
            except RecursionError as error:
                raise ValueError("it is nested too deeply") from error
            if len(self._text) - self._at > LARGEST:
                raise ValueError(f"{problem}, or a part of it has more than {LARGEST:,} characters")
            if not self._more():
                raise ValueError(problem)

    def _take(self, sign: str) -> None:
        if not self._took(sign):
            raise ValueError(f"{sign!r} is missing at character {self.place:,}")

    def _took(self, sign: str) -> bool:
        found = self.next_sign() == sign
        self._at += found
        return found

    def _more(self) -> bool:
        """Reads on; doubles what is in memory where that was too little for one element."""
        if self._ended:
            return False
        read = self._stream.read(max(_CHUNK, len(self._text) - self._at))
        self._ended = not read
        self._before += self._at
        self._text, self._at = self._text[self._at :] + read, 0
        return True
