"""Character and word error rates: edit distances of single inputs, and their sum over the length of the references.

Distances are Levenshtein's: the fewest insertions, deletions and substitutions of one symbol.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zoolens.base.errors import UnknownName, ZoolensError
from zoolens.base.numerics.sequence_alignment import common_beginning
from zoolens.inventory.tasks.scoring.score import Integers, Score, checked_weights, ratio

Unit = Literal["character", "word"]
Symbols = NDArray[np.uint32]

# Product of both lengths, after equal beginnings and ends are cut off: about a minute of one core, at the 13.5 ns a
# cell that were measured on rows of 30,000 symbols. Two texts of a million characters would take hours.
MOST_CELLS: Final = 4_000_000_000

_SEVERAL_SPACES: Final = re.compile(r"\s\s+")
_NOT_SPOKEN: Final = re.compile(r"[^\w\s']|_")


def _collapse_spaces(text: str) -> str:
    return _SEVERAL_SPACES.sub(" ", text).strip()


def _keep_spoken(text: str) -> str:
    return _collapse_spaces(_NOT_SPOKEN.sub(" ", text.casefold()).strip())


# What is done to both texts before they are compared, by name.
NORMALIZATIONS: Final[dict[str, Callable[[str], str]]] = {
    "none": str,
    # jiwer's default for characters
    "strip": str.strip,
    # jiwer's default for words
    "spaces": _collapse_spaces,
    # case folded, without punctuation other than apostrophes
    "spoken": _keep_spoken,
}


@dataclass(frozen=True)
class ErrorParts:
    """One row an input. `length`: symbols of the reference. `normalization`: what was done to both texts before."""

    distance: Integers
    length: Integers
    unit: Unit
    normalization: str


def error_parts(
    answers: Sequence[str], references: Sequence[str], unit: Unit, normalization: str | None = None
) -> ErrorParts:
    """Distance of each answer from its reference. `normalization`: a name in NORMALIZATIONS; None: jiwer's default,
    which is "strip" for characters and "spaces" for words."""
    name = normalization or ("strip" if unit == "character" else "spaces")
    if name not in NORMALIZATIONS:
        raise UnknownName("normalization", name, NORMALIZATIONS)
    if len(answers) != len(references):
        raise ZoolensError(f"There are {len(answers)} answers but {len(references)} references.")
    normalize = NORMALIZATIONS[name]
    symbols = _characters if unit == "character" else _words
    rows = [symbols(normalize(answer), normalize(truth)) for answer, truth in zip(answers, references, strict=True)]
    return ErrorParts(
        np.array([levenshtein(ours, true) for ours, true in rows], np.int64),
        np.array([len(true) for _, true in rows], np.int64),
        unit,
        name,
    )


def error_rate(parts: ErrorParts, weights: ArrayLike | None = None) -> Score:
    """Errors for each symbol of the references, over all inputs together. It exceeds 1 where much is inserted."""
    counts = checked_weights(weights, len(parts.length))
    return ratio(int(counts @ parts.distance), int(counts @ parts.length), f"No reference has a {parts.unit}.")


def _characters(answer: str, reference: str) -> tuple[Symbols, Symbols]:
    # A lone surrogate, which JSON can hold, is a character too.
    ours, true = (np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4") for text in (answer, reference))
    return ours.astype(np.uint32), true.astype(np.uint32)


def _words(answer: str, reference: str) -> tuple[Symbols, Symbols]:
    """Numbers of the words. As in jiwer, only a blank separates words."""
    numbers: dict[str, int] = {}
    ours, true = (
        np.array([numbers.setdefault(word, len(numbers)) for word in text.split(" ") if word], np.uint32)
        for text in (answer, reference)
    )
    return ours, true


def levenshtein(a: Symbols, b: Symbols) -> int:
    """The edit distance of two rows of symbols, in memory of a few rows of the longer one."""
    shorter, longer = _without_common_ends(*sorted((a, b), key=len))
    if len(shorter) * len(longer) > MOST_CELLS:
        raise ZoolensError(
            f"Texts of {len(shorter):,} and {len(longer):,} differing symbols are too long for an edit distance.",
            hint="Split them into shorter ones.",
        )
    places = np.arange(len(longer) + 1)
    row = places.copy()
    candidates = np.empty_like(row)
    for symbol in shorter:
        candidates[0] = row[0] + 1
        np.minimum(row[1:] + 1, row[:-1] + (longer != symbol), out=candidates[1:])
        # Insertions: the least of candidates[k] + (j − k) over all k up to j.
        row = np.minimum.accumulate(candidates - places) + places
    return int(row[-1])


def _without_common_ends(shorter: Symbols, longer: Symbols) -> tuple[Symbols, Symbols]:
    start = common_beginning(shorter, longer)
    shorter, longer = shorter[start:], longer[start:]
    end = common_beginning(shorter[::-1], longer[::-1])
    return shorter[: len(shorter) - end], longer[: len(longer) - end]


def text_similarity(texts: Sequence[str], others: Sequence[str]) -> NDArray[np.float64]:
    """1 − edit distance in characters / characters of the longer text, of each pair; 1 where both are empty."""
    parts = error_parts(texts, others, "character", "none")
    longest = np.maximum(parts.length, [len(text) for text in texts])
    return np.asarray(1 - parts.distance / np.maximum(longest, 1), np.float64)
