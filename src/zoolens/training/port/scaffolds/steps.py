"""The statements of a draft, before they are text: what each computes, from which values, with which settings.

A writer of a framework turns every node into steps. Blocks are found by comparing steps, and settings that differ
between the instances of a block become arguments of its function.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final


class _Required:
    """The default of a setting that is always written."""

    def __repr__(self) -> str:
        return "required"


REQUIRED: Final = _Required()


@dataclass(frozen=True)
class Setting:
    """One argument of a layer or function. It is left out where it has the framework's default.

    Settings of one `family` that have equal values in every instance of a block share one argument.
    """

    keyword: str
    value: Any
    default: Any = REQUIRED
    family: str = ""
    positional: bool = False

    @property
    def kind(self) -> tuple[str, str, str, bool]:
        return self.keyword, self.family, literal(self.default), self.positional

    @property
    def omitted(self) -> bool:
        return self.default is not REQUIRED and same_value(self.value, self.default)


@dataclass(frozen=True)
class CodeStep:
    """`pattern` has {0}, {1} … for the inputs, {layer} for the layer, and {keyword} for settings of a plain expression.

    `maker` is the class of a layer, which has a name and is made before it is called; "" for a plain expression.
    `path` is what the source calls it, in parts; `is_leaf` says whether the last part is the layer itself.
    `after` are statements about the layer once it is made, with {layer}. Steps with one `shared` call one layer, which
    the first of them makes.
    """

    values: tuple[str, ...]
    inputs: tuple[str, ...]
    pattern: str
    label: str
    maker: str = ""
    settings: tuple[Setting, ...] = ()
    path: tuple[str, ...] = ()
    is_leaf: bool = True
    after: tuple[str, ...] = ()
    movable: bool = False  # a concat that may as well be written before the block
    body: int | None = None  # the number of the block that it calls
    shared: str = ""
    shape: tuple[int, ...] = field(default=(), compare=False)

    @property
    def is_call(self) -> bool:
        return self.body is not None

    def slots(self) -> Iterator[Setting]:
        yield from self.settings


def same_value(a: Any, b: Any) -> bool:
    """Equality that tells True from 1 and 1.0, which are other literals."""
    return type(a) is type(b) and bool(a == b)


def literal(value: Any) -> str:
    """The Python text of a plain value. Anything else is refused, so that no name of a layer can become code."""
    if value is REQUIRED:
        return "required"
    if value is None or isinstance(value, bool | int):
        return repr(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, str):
        if not all(letter.isascii() and (letter.isalnum() or letter in "_-.") for letter in value):
            raise ValueError(f"{value!r} is no plain word")
        return f'"{value}"'
    if isinstance(value, tuple):
        inner = ", ".join(map(literal, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    raise TypeError(f"{type(value).__name__} has no literal")


def _number(value: float) -> str:
    if value != value or value in (float("inf"), float("-inf")):
        return f'float("{value}")'
    return repr(value)
