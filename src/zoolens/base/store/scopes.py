"""What an observation holds for within its run: all of it, one batch size, one context length, one class, one epoch,
or another run.

The store and every JSON output keep a scope as text, such as "batch=8,raw". Here is the one place that writes and reads
this text.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final

RAW: Final = ",raw"  # behind the scope of a timing from which no disturbance was removed


class Dimension(StrEnum):
    """Along what the observations of one metric differ."""

    BATCH = "batch"
    CONTEXT = "context"  # tokens that a language model sees; "512x8" of eight sequences at once
    CLASS = "class"
    EPOCH = "epoch"
    WITH = "with"  # the other run of a pair

    @property
    def prefix(self) -> str:
        """How the text of every scope along this dimension begins."""
        return f"{self.value}="


_DIMENSIONS: Final = {str(dimension): dimension for dimension in Dimension}


@dataclass(frozen=True)
class Scope:
    """`value` is a number or an id along `dimension`. Without a dimension it is free text, such as the name of a
    dataset or of a phase; empty text means that the observation holds for the whole run."""

    dimension: Dimension | None = None
    value: str = ""
    raw: bool = False

    def __str__(self) -> str:
        text = self.value if self.dimension is None else f"{self.dimension.prefix}{self.value}"
        return f"{text}{RAW}" if self.raw else text

    @property
    def number(self) -> int | None:
        """Returns the value as a number; None if it is not one."""
        return int(self.value) if self.dimension is not None and self.value.isdecimal() else None


@lru_cache(1024)
def parse_scope(text: str) -> Scope:
    """The scope that is written so. Whatever the text, `str` of the result is the same text."""
    raw = text.endswith(RAW)
    plain = text.removesuffix(RAW)
    name, equals, value = plain.partition("=")
    if equals and name in _DIMENSIONS:
        return Scope(_DIMENSIONS[name], value, raw)
    return Scope(None, plain, raw)


def is_of_part(text: str) -> bool:
    """Whether a scope is a part of its run (one class, one epoch) or a pair of runs, and not the whole run, of which
    timings are told by batch size and context length."""
    return parse_scope(text).dimension not in (None, Dimension.BATCH, Dimension.CONTEXT)


def batch_scope(size: int, *, raw: bool = False) -> str:
    return str(Scope(Dimension.BATCH, str(size), raw))


def context_scope(tokens: int, sequences: int = 1, *, raw: bool = False) -> str:
    value = str(tokens) if sequences == 1 else f"{tokens}x{sequences}"
    return str(Scope(Dimension.CONTEXT, value, raw))


def context_tokens(text: str) -> int:
    """How many tokens the scope of a context is of, however many sequences there are at once."""
    return int(parse_scope(text).value.partition("x")[0])


def class_scope(index: int) -> str:
    return str(Scope(Dimension.CLASS, str(index)))


def epoch_scope(number: int) -> str:
    return str(Scope(Dimension.EPOCH, str(number)))


def pair_scope(other_run: str) -> str:
    return str(Scope(Dimension.WITH, other_run))
