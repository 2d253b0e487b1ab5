"""ONNX's Einsum as the transposes and the matrix product that it is short for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zoolens.findings.graph.importers.einsum import Einsum
from zoolens.findings.graph.importers.onnx.translation import OnnxCall
from zoolens.findings.graph.ir.model import Shape


def einsum(call: OnnxCall) -> None:
    """One or two operands whose letters stand for one axis each; anything else is named."""
    given, arrow, wanted = call.get("equation", "").replace(" ", "").partition("->")
    terms = given.split(",")
    plain = bool(arrow) and "." not in given + wanted and all(len(set(term)) == len(term) for term in (*terms, wanted))

    def add(op: str, inputs: Sequence[str], shape: Shape, **attributes: Any) -> str:
        return call.add(op, tuple(inputs), shape=shape, **attributes)

    lowered = Einsum(add, call.state.shape)
    if not plain or len(terms) != len(call.inputs) or len(terms) > 2 or not set(wanted) <= set(given):
        call.unknown(f"of {given[:40]}", *_shapes(call, terms, wanted))
    elif len(terms) == 1:
        call.answer(lowered.one(call.live(0), terms[0], wanted))
    else:
        call.answer(lowered.two((call.live(0), call.live(1)), terms[0], terms[1], wanted))


def _shapes(call: OnnxCall, terms: Sequence[str], wanted: str) -> Sequence[Shape]:
    """The output's shape, where the letters tell it; what an ellipsis stands for is left to the file."""
    extents: dict[str, int] = {}
    for position, letters in enumerate(terms):
        if "." in letters or len(letters) != len(call.shape(position)):
            return ()
        extents |= dict(zip(letters, call.shape(position), strict=True))
    if set(wanted) <= set(extents):
        return [tuple(extents[letter] for letter in wanted)]
    return ()
