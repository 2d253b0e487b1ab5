"""Einstein sums as the transposes and the matrix product that they are short for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Protocol

from zoolens.findings.graph.ir.model import Shape


class Adding(Protocol):
    """Adds a node of an operator on values, in a shape, with attributes; returns its name."""

    def __call__(self, op: str, inputs: Sequence[str], shape: Shape, **attributes: Any) -> str: ...


def spelled_out(equation: str, ranks: Sequence[int]) -> tuple[list[str], str] | None:
    """The letters of each operand and of the result; an ellipsis is spelled out. None where a letter stands twice in an
    operand, or where the result is not said."""
    given, arrow, wanted = equation.replace(" ", "").partition("->")
    terms = given.split(",")
    if not arrow or len(terms) != len(ranks):
        return None
    spare = [letter for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if letter not in equation]
    hidden = [rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks, strict=True) if "..." in term]
    outer = "".join(spare[: max(hidden, default=0)])
    if any(count != len(outer) for count in hidden):
        return None
    terms = [term.replace("...", outer) for term in terms]
    wanted = wanted.replace("...", outer)
    plain = all(len(set(term)) == len(term) for term in (*terms, wanted)) and set(wanted) <= set("".join(terms))
    fits = all(len(term) == rank for term, rank in zip(terms, ranks, strict=True))
    return (terms, wanted) if plain and fits else None


class Einsum:
    """Lowers sums of one or two operands whose letters are spelled out."""

    def __init__(self, add: Adding, shape_of: Callable[[str], Shape]) -> None:
        self._add, self._shape_of = add, shape_of

    def one(self, value: str, letters: str, wanted: str) -> str:
        summed = self._summed(value, letters, wanted)
        return self.turned(summed, _kept(letters, wanted), wanted)

    def two(self, values: Sequence[str], left: str, right: str, wanted: str) -> str:
        a = self._summed(values[0], left, wanted + right)
        b = self._summed(values[1], right, wanted + left)
        left, right = _kept(left, wanted + right), _kept(right, wanted + left)
        batch = "".join(letter for letter in wanted if letter in left and letter in right)
        summed = "".join(letter for letter in left if letter in right and letter not in wanted)
        rows = "".join(letter for letter in wanted if letter in left and letter not in right)
        columns = "".join(letter for letter in wanted if letter in right and letter not in left)
        extents = {**self._extents(a, left), **self._extents(b, right)}
        a = self._grouped(self.turned(a, left, batch + rows + summed), batch, rows, summed, extents)
        b = self._grouped(self.turned(b, right, batch + summed + columns), batch, summed, columns, extents)
        shape = (*self._shape_of(a)[:-1], self._shape_of(b)[-1])
        product = self._add("matmul", (a, b), shape)
        shaped = self.shaped(product, tuple(extents[letter] for letter in batch + rows + columns))
        return self.turned(shaped, batch + rows + columns, wanted)

    def turned(self, value: str, letters: str, wanted: str) -> str:
        if letters == wanted:
            return value
        perm = tuple(letters.index(letter) for letter in wanted)
        shape = self._shape_of(value)
        return self._add("transpose", (value,), tuple(shape[axis] for axis in perm), perm=perm)

    def shaped(self, value: str, shape: Shape) -> str:
        if self._shape_of(value) == shape:
            return value
        return self._add("reshape", (value,), shape)

    def _summed(self, value: str, letters: str, needed: str) -> str:
        axes = tuple(axis for axis, letter in enumerate(letters) if letter not in needed)
        if not axes:
            return value
        kept = tuple(extent for axis, extent in enumerate(self._shape_of(value)) if axis not in axes)
        return self._add("sum", (value,), kept, axes=axes)

    def _extents(self, value: str, letters: str) -> dict[str, int]:
        return dict(zip(letters, self._shape_of(value), strict=True))

    def _grouped(self, value: str, batch: str, rows: str, columns: str, extents: dict[str, int]) -> str:
        """Reshapes a value to matrices: several letters of one side become one axis, none becomes an axis of 1."""
        sides = (prod(extents[letter] for letter in letters) for letters in (rows, columns))
        return self.shaped(value, (*(extents[letter] for letter in batch), *sides))


def _kept(letters: str, needed: str) -> str:
    return "".join(letter for letter in letters if letter in needed)
