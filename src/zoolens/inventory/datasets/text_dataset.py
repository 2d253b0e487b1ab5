"""Samples that are texts, pairs of texts or rows of words, all of them in memory, and what is right of each.

A sample's value is an array without axes that holds a Python object: numpy's own texts are all as long as the longest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets.arrays import check_samples
from zoolens.inventory.datasets.classes import check_labels
from zoolens.inventory.datasets.dataset import UNLABELLED, Dataset, Rows, Sample
from zoolens.inventory.datasets.truth import Truth

# Neither is a tuple, which numpy would take for a row of several texts.


@dataclass(frozen=True, slots=True)
class TextPair:
    """Two texts that belong together: two sentences to compare, a question and its context."""

    first: str
    second: str

    @property
    def parts(self) -> tuple[str, ...]:
        return (self.first, self.second)

    def __str__(self) -> str:
        return f"{self.first} | {self.second}"


@dataclass(frozen=True, slots=True)
class Words:
    """A text that was split into words by whoever tagged them."""

    parts: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join(self.parts)


@dataclass(frozen=True, slots=True)
class Choices:
    """A text and several ways to go on, of which one is chosen. `continuations` are written behind the context as they
    are; `choices` are the same without what separates them from it."""

    context: str
    choices: tuple[str, ...]
    delimiter: str = ""

    @property
    def continuations(self) -> tuple[str, ...]:
        return tuple(self.delimiter + choice for choice in self.choices)

    @property
    def parts(self) -> tuple[str, ...]:
        return (self.context, *self.continuations)

    def __str__(self) -> str:
        return f"{self.context} | {' / '.join(self.choices)}"


@dataclass(frozen=True, slots=True)
class Writing:
    """What a model writes behind a prompt."""

    tokens: int  # at most
    draws: int = 0  # texts that are drawn from the model's distribution, beside the most likely one
    temperature: float = 1.0  # of these
    seed: int = 0


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """What somebody has said in a conversation."""

    role: str
    content: str

    def __str__(self) -> str:
        return f"{self.role}: {self.content}"


@dataclass(frozen=True, slots=True)
class Prompt:
    """The beginning of a text that a model goes on with; or a conversation, of which its chat template makes one."""

    text: str
    writing: Writing
    messages: tuple[ChatMessage, ...] = ()

    @property
    def parts(self) -> tuple[str, ...]:
        if not self.messages:
            return (self.text,)
        return tuple(part for message in self.messages for part in (message.role, message.content))

    def __str__(self) -> str:
        return "\n".join(map(str, self.messages)) if self.messages else self.text


Value = str | TextPair | Words | Choices | Prompt


@dataclass(frozen=True)
class Truths:
    """What is right of each sample, where that is no class."""

    kind: str
    of: Sequence[Truth | None]


class TextDataset(Dataset):
    """All texts in memory; a sample is called by its place, counted from 0, unless it has an id of its own."""

    def __init__(
        self,
        texts: Sequence[Value],
        labels: Sequence[int] | None = None,
        *,
        name: str,
        classes: tuple[str, ...] | None = None,
        alphabetical: bool = False,
        truths: Truths | None = None,
        ids: Sequence[str] | None = None,
    ) -> None:
        numbers = [UNLABELLED] * len(texts) if labels is None else labels
        check_samples(name, len(texts))
        check_labels(name, numbers, classes)
        if ids is not None and len(set(ids)) < len(ids):
            raise DatasetError(f"Two samples of {name} have the same id.", hint="Ids must tell samples apart.")
        self.name, self.classes, self.alphabetical = name, classes, alphabetical
        self.truth_kind = None if truths is None else truths.kind
        self._truths = truths
        self._texts = text_values(texts)
        self._labels = np.array(numbers, np.int64)
        self._ids = None if ids is None else tuple(ids)

    def __len__(self) -> int:
        return len(self._texts)

    def read(self, index: int) -> Sample:
        place = range(len(self))[index]  # a negative index counts from the end
        text = np.empty((), object)
        text[()] = self._texts[place]
        return Sample(self._id(place), text, int(self._labels[place]))

    def read_rows(self, indices: NDArray[np.int64]) -> Rows:
        return Rows(tuple(map(self._id, indices.tolist())), self._texts[indices], self._labels[indices])

    def labels(self) -> NDArray[np.int64]:
        return self._labels

    def truth(self, index: int) -> Truth | None:
        return super().truth(index) if self._truths is None else self._truths.of[range(len(self))[index]]

    def fingerprint(self) -> str:
        digest = hashlib.sha256(b"texts;")
        for text in self._texts:
            # A single text is written as before there were others.
            if not isinstance(text, str):
                digest.update(f"{type(text).__name__} {len(text.parts)};".encode())
            if isinstance(text, Choices):
                _add_text(digest, text.delimiter)
            if isinstance(text, Prompt):
                _add_text(digest, repr(text.writing))
            for part in (text,) if isinstance(text, str) else text.parts:
                _add_text(digest, part)
        digest.update(b"labels" + self._labels.astype("<i8").tobytes())
        if self._truths is not None:
            digest.update(f"truths {self._truths.kind};".encode())
            for truth in self._truths.of:
                add_truth(digest, truth)
        for own in self._ids or ():
            _add_text(digest, own)
        return digest.hexdigest()

    def _id(self, place: int) -> str:
        return str(place) if self._ids is None else self._ids[place]


def text_values(texts: Iterable[Value]) -> NDArray[Any]:
    """An array of texts, each as the object that it is."""
    listed = list(texts)
    values = np.empty(len(listed), object)
    values[:] = listed
    return values


def _add_text(digest: Any, text: str) -> None:
    content = text.encode("utf-8", "surrogatepass")
    digest.update(f"{len(content)};".encode() + content)


def add_truth(digest: Any, truth: Truth | None) -> None:
    """Adds what is right of one sample to a digest."""
    if truth is None:
        digest.update(b"none;")
        return
    for name in sorted(truth.parts):
        values = np.asarray(truth[name])
        digest.update(f"{name} {values.shape};".encode())
        if values.dtype.kind == "f":
            digest.update(values.astype("<f8").tobytes())
        else:
            for text in values.reshape(-1).tolist():
                _add_text(digest, str(text))
