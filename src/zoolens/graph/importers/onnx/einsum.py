"""ONNX's Einsum as the transposes and the matrix product that it is short for."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from zoolens.graph.importers.onnx.translation import OnnxCall
from zoolens.graph.model import Shape


def einsum(call: OnnxCall) -> None:
    """One or two operands whose letters stand for one axis each; anything else is named."""
    given, arrow, wanted = call.get("equation", "").replace(" ", "").partition("->")
    terms = given.split(",")
    plain = bool(arrow) and "." not in given + wanted and all(len(set(term)) == len(term) for term in (*terms, wanted))
    if not plain or len(terms) != len(call.inputs) or len(terms) > 2 or not set(wanted) <= set(given):
        call.unknown(f"of {given[:40]}", *_shapes(call, terms, wanted))
    elif len(terms) == 1:
        call.answer(_turned(call, _summed(call, call.live(0), terms[0], wanted), _kept(terms[0], wanted), wanted))
    else:
        _product(call, terms[0], terms[1], wanted)


def _shapes(call: OnnxCall, terms: Sequence[str], wanted: str) -> Sequence[Shape]:
    """The output's shape, where the letters tell it; what an ellipsis stands for is left to the file."""
    extents: dict[str, int] = {}
    for position, letters in enumerate(terms):
        if "." in letters or len(letters) != len(call.shape(position)):
            return ()
        extents |= dict(zip(letters, call.shape(position), strict=True))
    return [tuple(extents[letter] for letter in wanted)] if set(wanted) <= set(extents) else ()


def _product(call: OnnxCall, left: str, right: str, wanted: str) -> None:
    a, b = (
        _summed(call, call.live(i), own, wanted + other)
        for i, (own, other) in enumerate(((left, right), (right, left)))
    )
    left, right = _kept(left, wanted + right), _kept(right, wanted + left)
    batch = "".join(letter for letter in wanted if letter in left and letter in right)
    summed = "".join(letter for letter in left if letter in right and letter not in wanted)
    rows = "".join(letter for letter in wanted if letter in left and letter not in right)
    columns = "".join(letter for letter in wanted if letter in right and letter not in left)
    extents = {**_extents(call, a, left), **_extents(call, b, right)}
    a = _grouped(call, _turned(call, a, left, batch + rows + summed), batch, rows, summed, extents)
    b = _grouped(call, _turned(call, b, right, batch + summed + columns), batch, summed, columns, extents)
    product = call.add("matmul", (a, b))
    shaped = _shaped(call, product, tuple(extents[letter] for letter in batch + rows + columns))
    call.answer(_turned(call, shaped, batch + rows + columns, wanted))


def _summed(call: OnnxCall, value: str, letters: str, needed: str) -> str:
    axes = tuple(axis for axis, letter in enumerate(letters) if letter not in needed)
    return call.add("sum", (value,), axes=axes) if axes else value


def _kept(letters: str, needed: str) -> str:
    return "".join(letter for letter in letters if letter in needed)


def _extents(call: OnnxCall, value: str, letters: str) -> dict[str, int]:
    return dict(zip(letters, call.state.shape(value), strict=True))


def _turned(call: OnnxCall, value: str, letters: str, wanted: str) -> str:
    if letters == wanted:
        return value
    return call.add("transpose", (value,), perm=tuple(letters.index(letter) for letter in wanted))


def _grouped(call: OnnxCall, value: str, batch: str, rows: str, columns: str, extents: dict[str, int]) -> str:
    """Reshapes a value to matrices: several letters of one side become one axis, none becomes an axis of 1."""
    sides = (prod(extents[letter] for letter in letters) for letters in (rows, columns))
    return _shaped(call, value, (*(extents[letter] for letter in batch), *sides))


def _shaped(call: OnnxCall, value: str, shape: Shape) -> str:
    return value if call.state.shape(value) == shape else call.add("reshape", (value,), shape=shape)
