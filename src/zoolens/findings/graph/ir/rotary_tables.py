"""Tables by which rotary positions turn queries and keys, by their numbers: cosines and sines of position × rate.

A file may hold them, compute them from positions, or say the base that the rates follow from. All become one form: the
rates, by which two tables are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import isclose, log
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.findings.graph.ir.model import Array, Graph, Node, Shape

ROTARY: Final = "rotary"  # the attribute of a constant: which of the two tables it is
RATES: Final = "rates"
COSINES: Final = "cosines"
SINES: Final = "sines"
MOST: Final = 1 << 22  # numbers of a table that is looked at
_CLOSE: Final = 1e-5  # of two rates: frameworks compute powers and angles in float32
_ROUNDED: Final = 2e-6  # of a cosine in float32
_TURNED: Final = 4e-7  # by each radian of the angle, which float32 holds to 24 bits
_DIGITS: Final = range(1, 8)  # of a base that somebody has written

Floats = NDArray[np.float64]


def with_rotary_tables(graph: Graph, values: Mapping[str, Array]) -> Graph:
    """The graph whose tables of cosines and sines say their rates. `values`: numbers of constants, by node.

    The sines tell the rates: small angles are lost in cosines of float32. Cosines are known by the sines beside them.
    """
    candidates = dict(_matrices(values))
    rates = {name: found for name, matrix in candidates.items() if (found := _rates_of_sines(matrix)) is not None}
    every = list(dict.fromkeys(rates.values()))
    known = {name: (SINES, found) for name, found in rates.items()}
    for name, matrix in candidates.items():
        found = next((each for each in every if _is_table(matrix, each, np.cos)), None)
        if name not in known and found is not None:
            known[name] = (COSINES, found)
    if not known:
        return graph
    return replace(graph, nodes=tuple(_described(node, known) for node in graph.nodes))


def same_rates(a: Iterable[float], b: Iterable[float]) -> bool:
    first, second = tuple(a), tuple(b)
    if len(first) != len(second):
        return False
    return all(isclose(*pair, rel_tol=_CLOSE, abs_tol=1e-12) for pair in zip(first, second, strict=True))


def rate_words(rates: tuple[float, ...]) -> str:
    """The base that rates follow from, in words, and by what positions are divided; else how many rates there are."""
    first = rates[0]
    if len(rates) > 1 and 0 < rates[-1] < first:
        exponent = (len(rates) - 1) / len(rates)
        base = float(np.exp(log(first / rates[-1]) / exponent))
        for digits in _DIGITS:
            written = float(f"{base:.{digits}g}")
            factor = float(f"{1 / first:.6g}")
            if same_rates(rates, _law(written, factor, len(rates))):
                divided = "" if factor == 1 else f", positions divided by {factor:g}"
                return f"the base {written:,.10g}{divided}"
    return f"{len(rates)} rates of their own (from {rates[0]:.4g} to {rates[-1]:.4g})"


def has_rotary_tables(graph: Graph) -> bool:
    return any(node.get(ROTARY) for node in graph)


def matrix_shape(shape: Shape) -> Shape:
    """Tokens and width of a table, without the axes along which it is only repeated."""
    return tuple(extent for extent in shape if extent != 1)


def _law(base: float, factor: float, count: int) -> tuple[float, ...]:
    return tuple(base ** (-place / count) / factor for place in range(count))


def _described(node: Node, known: Mapping[str, tuple[str, tuple[float, ...]]]) -> Node:
    if node.name not in known:
        return node
    kind, rates = known[node.name]
    return node.with_attributes(rotary=kind, rates=rates)


def _matrices(values: Mapping[str, Array]) -> Iterable[tuple[str, Floats]]:
    """Tables of tokens × width whose two halves are equal, by the first of them."""
    for name, array in values.items():
        if array.dtype.kind != "f" or not 4 <= array.size <= MOST:
            continue
        shape = matrix_shape(array.shape)
        if len(shape) != 2 or shape[1] % 2:
            continue
        matrix = array.reshape(shape).astype(np.float64)
        half = shape[1] // 2
        if np.isfinite(matrix).all() and np.array_equal(matrix[:, :half], matrix[:, half:]):
            yield name, matrix[:, :half]


def _rates_of_sines(matrix: Floats) -> tuple[float, ...] | None:
    """The rates whose sines a table is; None where it is none."""
    if matrix[0].any() or not (np.abs(matrix[1]) <= 1).all():
        return None
    rates = tuple(float(f"{rate:.7g}") for rate in np.arcsin(matrix[1]))
    return rates if min(rates) > 0 and _is_table(matrix, rates, np.sin) else None


def _is_table(matrix: Floats, rates: tuple[float, ...], function: np.ufunc) -> bool:
    if matrix.shape[1] != len(rates):
        return False
    angles = np.arange(len(matrix))[:, None] * np.asarray(rates)
    off = np.abs(matrix - function(angles))
    return bool((off <= _ROUNDED + _TURNED * angles).all())
