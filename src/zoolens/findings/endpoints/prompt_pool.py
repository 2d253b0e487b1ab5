"""Prompts for an endpoint: pieces of texts, drawn so that nobody knows beforehand which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets.opening import open_dataset
from zoolens.inventory.preprocess.generating_tokenizer import GeneratingTokenizer

SHORT: Final = (8, 48)  # tokens of a short prompt
_LETTERS: Final = 12  # of a token; the longest ones have more, and a prompt is then shorter
_LEAST: Final = 400  # characters of all texts together
_MOST_TEXTS: Final = 10_000
_TRIES: Final = 100


@dataclass(frozen=True)
class Prompt:
    ids: tuple[int, ...]
    text: str
    long: bool


class PromptPool:
    """Draws pieces of texts, each once. `length`: tokens of a long one."""

    def __init__(self, texts: Sequence[str], tokenizer: GeneratingTokenizer, length: int, seed: int) -> None:
        self._tokenizer, self._length = tokenizer, length
        self._drawn: set[tuple[int, ...]] = set()
        # One long text with blanks between, so that a long prompt may go over the end of a short text.
        self._whole = "\n\n".join(texts)
        if len(self._whole) < _LEAST:
            raise DatasetError(f"The texts for prompts have less than {_LEAST} characters.")
        self._random = np.random.default_rng(seed)

    def draw(self, *, long: bool) -> Prompt:
        """A prompt that begins with a word. A long one has exactly as many tokens as were asked for."""
        wanted = self._length if long else int(self._random.integers(*SHORT))
        for _ in range(_TRIES):
            length = wanted * _LETTERS
            start = int(self._random.integers(0, max(len(self._whole) - wanted, 1)))
            start = self._whole.find(" ", start) + 1
            text = self._whole[start : start + length].strip()
            ids = tuple(self._tokenizer.prompt(text, special=True)[:wanted])
            if ids and ids not in self._drawn and (not long or len(ids) == wanted):
                self._drawn.add(ids)
                return Prompt(ids, text, long)
        raise DatasetError(
            f"The texts for prompts have no other piece of {wanted:,} tokens.", hint="Give longer texts with --data."
        )


def texts_of(data: str | Path | None) -> list[str]:
    """The texts of a dataset; without one, the help of Python, which is wherever this runs."""
    if data is None:
        from pydoc_data.topics import topics

        return [str(text) for text in topics.values()]
    texts: list[str] = []
    for sample in open_dataset(data, limit=_MOST_TEXTS):
        value = sample.value.item() if hasattr(sample.value, "item") else sample.value
        if not isinstance(value, str):
            raise DatasetError(
                f"{data} has no plain texts, of which prompts are made.", hint="Give --data passages:FILE.txt."
            )
        texts.append(value)
    return texts
