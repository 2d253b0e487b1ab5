"""Texts as numbers of whole words, by a declared pattern and a vocabulary file. It runs in the tokenizer's process: a
stranger's pattern may never end."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from zoolens.base.errors import ManifestError
from zoolens.inventory.preprocess.word_shapes import RULES

TEXT: Final = "text"  # forms of a sample: one text,
PAIR: Final = "pair"  # two that belong together,
WORDS: Final = "words"  # one that was split into words by others
SPECIAL: Final = -1  # instead of the number of a word or a text: a token that stands for none


@dataclass
class Encoding:
    """The tokens of one sample. `shapes` has one number a token where the model takes shapes. Of each token, `begins`
    and `ends` are places of characters in its text, `words` its word, `texts` its text of a pair."""

    ids: list[int]
    types: list[int]
    cut: bool
    unknown: int  # −1: the tokenizer has no unknown token
    shapes: list[int] = field(default_factory=list)
    begins: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    words: list[int] = field(default_factory=list)
    texts: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class _Word:
    text: str
    begin: int
    end: int
    place: int  # among the words of the sample


class WordEncoder:
    """What a manifest declares under `words`, ready to run."""

    def __init__(self, content: bytes, declared: Mapping[str, Any], max_length: int, cut: str) -> None:
        self._declared, self._max_length, self._cut = declared, max_length, cut
        self._vocabulary = _vocabulary(content, declared["key"])
        self._pattern = _compiled(declared["pattern"])
        shapes = declared["shapes"]
        self._shapes = None if shapes is None else _vocabulary(content, shapes["key"])
        self._shape = None if shapes is None else RULES[shapes["rule"]]
        numbers = [*self._vocabulary.values(), declared["unknown_id"], declared["start_id"] or 0]
        start = 0 if declared["start_id"] is None else 1
        self.about = {"size": max(numbers) + 1, "pad": None, "pad_type": 0, "special": start}

    def encode(self, form: str, parts: Sequence[str]) -> Encoding:
        words = self._words(form, parts)
        start = self._declared["start_id"]
        room = max(0, self._max_length - (start is not None))
        cut = self._cut != "refuse" and len(words) > room
        if cut:
            words = words[:room] if self._cut == "right" else words[len(words) - room :]
        unknown = self._declared["unknown_id"]
        numbers = [self._vocabulary.get(self._normalised(word.text)) for word in words]
        encoding = Encoding(
            ids=[unknown if number is None else number for number in numbers],
            types=[0] * len(words),
            cut=cut,
            unknown=numbers.count(None),
            shapes=[self._shape_of(word.text) for word in words],
            begins=[word.begin for word in words],
            ends=[word.end for word in words],
            words=[word.place for word in words],
            texts=[0] * len(words),
        )
        if start is not None:
            for row, value in (
                (encoding.ids, start), (encoding.types, 0), (encoding.shapes, 0), (encoding.begins, 0),
                (encoding.ends, 0), (encoding.words, SPECIAL), (encoding.texts, SPECIAL),
            ):  # fmt: skip
                row.insert(0, value)
        return encoding

    def show(self, text: str) -> list[str]:
        """The words of a text; those that the vocabulary does not have are marked."""
        words = [self._normalised(word.text) for word in self._words(TEXT, [text])]
        return [word if word in self._vocabulary else f"{word} (unknown)" for word in words]

    def _words(self, form: str, parts: Sequence[str]) -> list[_Word]:
        if form == WORDS:
            return [_Word(word, 0, len(word), place) for place, word in enumerate(parts)]
        if form == PAIR:
            raise ManifestError("A vocabulary of words takes one text, not a pair.")
        if self._pattern is None:
            raise ManifestError(
                "The manifest declares no pattern that splits a text into words.",
                hint="Declare tokenizer: {words: {pattern: …}}, or give words: --data tagged:FILE.",
            )
        (text,) = parts
        found = self._pattern.finditer(text)
        if self._declared["matches"] == "words":
            ranges = [match.span() for match in found]
        else:
            ranges = _between([match.span() for match in found], len(text))
        full = [(begin, end) for begin, end in ranges if end > begin]
        return [_Word(text[begin:end], begin, end, place) for place, (begin, end) in enumerate(full)]

    def _normalised(self, word: str) -> str:
        return word.lower() if self._declared["lower_case"] else word

    def _shape_of(self, word: str) -> int:
        if self._shapes is None or self._shape is None:
            return 0
        shape = self._shape(word)
        if shape not in self._shapes:
            raise ManifestError(f"The vocabulary has no shape {shape[:40]!r}, which the word {word[:40]!r} has.")
        return self._shapes[shape]


def _between(separators: list[tuple[int, int]], length: int) -> list[tuple[int, int]]:
    begins = [0, *(end for _, end in separators)]
    ends = [*(begin for begin, _ in separators), length]
    return list(zip(begins, ends, strict=True))


def _compiled(pattern: str | None) -> re.Pattern[str] | None:
    try:
        return None if pattern is None else re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ManifestError(f"The pattern {pattern!r} of words is not a regular expression: {error}.") from error


def _vocabulary(content: bytes, key: str | None) -> dict[str, int]:
    """Words and their numbers: JSON, as a list or as a mapping, or lines of `word id` or `word`."""
    refusal = ManifestError(
        "The vocabulary is neither JSON (words, or words with their numbers) nor lines of `word id` or `word`.",
        hint="Where it lies inside of an object, name it: words: {key: …}.",
    )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise refusal from error
    if text.lstrip().startswith(("{", "[")):
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise refusal from error
        found = found if key is None else found.get(key) if isinstance(found, dict) else None
        if isinstance(found, list):
            found = {word: number for number, word in enumerate(found) if isinstance(word, str)}
    else:
        lines = text.split("\n")
        while lines and not lines[-1].strip():
            lines.pop()
        rows = [line.rstrip("\r").rsplit(None, 1) for line in lines]
        if rows and all(len(row) == 2 and row[1].isdecimal() for row in rows):
            found = {word: int(number) for word, number in rows}
        else:
            found = {line.strip(): number for number, line in enumerate(lines)}
    if not isinstance(found, dict) or not found:
        raise refusal
    if any(type(number) is not int or not 0 <= number < 1 << 31 for number in found.values()):
        raise refusal
    return found
