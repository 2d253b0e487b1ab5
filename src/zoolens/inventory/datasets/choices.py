"""Texts with several ways to go on, of which one is right: multiple choice for models of the next token."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets.text_dataset import Choices, TextDataset, Truths
from zoolens.inventory.datasets.text_tables import Row, json_lines, read_content
from zoolens.inventory.datasets.truth import Truth

CHOICE: Final = "choice"
_MOST_CHOICES: Final = 100
_MOST_BYTES: Final = 1 << 20  # of a context with one choice, which is what is split into tokens at once
_MOST_VALUES: Final = 1000  # of one line of JSON
_NOTHING: Final = "none"


def open_choices(
    location: str, *, context: str = "context", choices: str = "choices", answer: str = "answer", delimiter: str = " "
) -> TextDataset:
    """A .jsonl file with {"context": …, "choices": […], "answer": 0} on each line; answer is the place of the right
    choice, counted from 0, and may be left out where nobody knows it. context, choices, answer: the names of these
    fields. delimiter: what stands between the context and a choice, a space where nothing is said; none: nothing.
    """
    path = Path(location).expanduser()
    between = "" if delimiter == _NOTHING else delimiter
    samples: list[Choices] = []
    truths: list[Truth | None] = []
    for number, row in json_lines(read_content(path), path, _MOST_VALUES):
        sample = _sample(row, context, choices, between, f"{path} line {number}")
        samples.append(sample)
        truths.append(_truth(row.get(answer), len(sample.choices), answer, f"{path} line {number}"))
    return TextDataset(samples, name=path.stem, truths=Truths(CHOICE, truths))


def _sample(row: Row, context: str, choices: str, delimiter: str, where: str) -> Choices:
    text, listed = _value(row, context, where), _value(row, choices, where)
    if not isinstance(text, str):
        raise DatasetError(f"{where} has no text in {context!r}, but {str(text)[:60]!r}.")
    if not isinstance(listed, list) or not all(isinstance(choice, str) for choice in listed):
        raise DatasetError(f"{where} has no list of texts in {choices!r}, but {str(listed)[:60]!r}.")
    if not 2 <= len(listed) <= _MOST_CHOICES:
        raise DatasetError(f"{where} has {len(listed):,} choices; 2 to {_MOST_CHOICES} are possible.")
    if "" in listed:
        raise DatasetError(f"{where} has an empty choice, which has no probability of its own.", hint="Remove it.")
    sample = Choices(text, tuple(listed), delimiter)
    longest = max(len(text.encode("utf-8", "surrogatepass")) for text in sample.continuations)
    total = len(text.encode("utf-8", "surrogatepass")) + longest
    if total > _MOST_BYTES:
        raise DatasetError(
            f"{where} has {total:,} bytes in its context and a choice, more than the {_MOST_BYTES:,} that are split "
            "into tokens.",
            hint="Shorten the context.",
        )
    return sample


def _value(row: Row, name: str, where: str) -> Any:
    if name not in row:
        listed = ", ".join(map(str, list(row)[:8])) or "nothing"
        raise DatasetError(
            f"{where} has no {name[:80]!r}, but {listed[:200]}.",
            hint="Name the fields: choices:FILE.jsonl?context=…&choices=…&answer=….",
        )
    return row[name]


def _truth(value: Any, count: int, name: str, where: str) -> Truth | None:
    """The right choice; a number written as text, as some datasets have it, is one too."""
    if value is None:
        return None
    number = int(value) if isinstance(value, str) and value.isascii() and value.isdecimal() else value
    if type(number) is not int or not 0 <= number < count:
        raise DatasetError(
            f"{where} has the {name} {str(value)[:40]!r}, which is not the place of one of its {count} choices.",
            hint=f"It is a number from 0 to {count - 1}.",
        )
    return Truth(CHOICE, {"answer": np.array([number], np.int64)})
