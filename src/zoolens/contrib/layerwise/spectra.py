"""The largest eigenvalue of many Hermitian matrices at once, from above, with proof.

Iterations such as Lanczos' only ever find it from below. So each matrix in turn is proved to stay below the level that
is known, or else raises it; few do the latter. There are two proofs that all eigenvalues of G stay below a level.

"cholesky" is certain: level·I − G has a Cholesky factor only if they do. What rounding may hide is added to the level:
a factor found in floating-point numbers proves definiteness up to (c + 1)·ε/(1 − (c + 1)·ε) of the trace (S. M. Rump,
Verification of positive definiteness, BIT 46, 2006).

"random" is quicker, on single-precision numbers, and wrong with a probability below 10⁻¹² for each matrix: by our own
draws, whatever the matrix is. The polynomial V_q(x) = U_2q(√(x/μ)), of Chebyshev's second kind, is small below μ and
grows fast above it. Were there an eigenvalue above the level, random vectors would grow by V_q there, but for the
chance that all of them are nearly orthogonal to its eigenvector (after Kuczyński and Woźniakowski, SIAM J. Matrix Anal.
Appl. 13, 1992). An error of rounding, once made, grows no more than they do; all are bounded and added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import acosh, asinh, ceil, sinh, sqrt
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from zoolens.findings.graph.ir.model import Array

Proof = Literal["cholesky", "random"]
Floats = NDArray[np.float64]

_MADE: Final = 1 << 20  # entries of the matrices that are made together
_TESTED: Final = 1 << 18  # and of those that are tested together, while they are in the cache
_SMALL: Final = 24  # matrices up to this size are solved, not bounded
_WRONG: Final = 1e-12  # the chance that a random proof is wrong
_DRAWS: Final = 8  # of complex numbers, or twice as many of real ones
_MARGIN: Final = 1.3  # over how long random vectors are expected to become


def largest_eigenvalue(
    size: int,
    traces: Floats,
    grams: Callable[[NDArray[np.intp]], Array],
    *,
    slack: float,
    rounding: float = 0.0,
    uneven: float = 0.0,
    proof: Proof = "cholesky",
) -> float:
    """An upper bound of all eigenvalues of positive semidefinite matrices, about 1 + `slack` times the largest.

    `rounding`, by which each of them may be wrong in the l2 norm, is added to the bound, and the slack is less for it.
    `grams` gives those of some numbers, (count, size, size); `traces` are those of all. Those of large trace come
    first, and what has a trace below the level needs no proof. `uneven`: how far they may be from Hermitian.
    """
    test = _Cholesky() if proof == "cholesky" else _Random(size, slack, uneven)
    level = 0.0
    for numbers in _in_turn(traces, max(1, _MADE // size**2)):
        left = numbers[traces[numbers] > level]
        for part in _cut(grams(left), max(1, _TESTED // size**2)) if len(left) else ():
            level = _raised(part, level, lambda seen: max((1 + slack) * seen - rounding, (1 + slack / 2) * seen), test)
    return level * (1 + 2 * (size + 1) ** 2 * float(np.finfo(np.float64).eps)) + rounding


def _in_turn(traces: Floats, together: int) -> Iterator[NDArray[np.intp]]:
    order = np.argsort(-traces, kind="stable")
    yield order[:1]  # alone, so that the others meet a level
    for start in range(1, len(order), together):
        yield order[start : start + together]


def _cut(grams: Array, together: int) -> Iterator[Array]:
    return (grams[start : start + together] for start in range(0, len(grams), together))


def _raised(grams: Array, level: float, above_seen: Callable[[float], float], test: _Cholesky | _Random) -> float:
    """The level that all of these stay below, no lower than `level`."""
    if grams.shape[-1] <= _SMALL:
        return max(level, _solved(grams))
    above = _not_short(grams, level)
    while len(above := test.not_below(above, level)):
        next_level = above_seen(max(lanczos(gram, test.looks) for gram in above))
        if next_level <= level:
            return max(level, _solved(above))
        level = next_level
    return level


def _not_short(grams: Array, level: float) -> Array:
    """The matrices without those whose Frobenius norm is below the level, if there may be any: it is at least
    trace/√c."""
    size = grams.shape[-1]
    traces = np.trace(grams, axis1=1, axis2=2).real
    if (traces > level * sqrt(size)).all():
        return grams
    lost = 1 + 2 * size**2 * float(np.finfo(grams.dtype).eps)  # to rounding, in the sum of so many squares
    long: Array = grams[np.linalg.norm(grams, axis=(1, 2)) * lost > level]
    return long


def _solved(grams: Array) -> float:
    largest = np.linalg.eigvalsh(grams)[:, -1].max()
    return float(largest * (1 + (64 + grams.shape[-1]) * float(np.finfo(grams.dtype).eps)))


class _Cholesky:
    looks = 24  # steps of Lanczos

    def not_below(self, grams: Array, level: float) -> Array:
        """Those for which it is not proved that their eigenvalues stay below the level, found by halving."""
        if not len(grams) or (level > 0 and _definite(level * np.eye(grams.shape[-1]) - grams)):
            return grams[:0]
        if len(grams) == 1:
            return grams
        middle = len(grams) // 2
        return np.concatenate([self.not_below(half, level) for half in (grams[:middle], grams[middle:])])


def _definite(matrices: Array) -> bool:
    try:
        np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        return False
    return True


class _Random:
    """Bounds eigenvalues by what a polynomial of the matrices does to random vectors: right but for a small chance."""

    looks = 12  # steps of Lanczos: to see too little costs a step more at most, not a new factor

    def __init__(self, size: int, slack: float, uneven: float = 0.0) -> None:
        """Draw vectors of `size`; levels lie `slack` above the largest eigenvalue seen, and matrices may be `uneven`
        from Hermitian."""
        self._within = 1 + slack
        self._uneven = uneven
        self._overlap = sqrt(_WRONG ** (1 / _DRAWS))  # the chance that a draw's squared overlap is less than x, is x
        self._steps = self._expected(sqrt(size))
        draws = np.random.default_rng(0).standard_normal((size, 2 * _DRAWS), np.float32)
        self._real, self._complex = draws, draws.view(np.complex64) * np.float32(sqrt(0.5))

    def _expected(self, length: float) -> int:
        """Steps after which the draws, should they keep their length, prove something."""
        rate = acosh(2 * self._within - 1)
        return max(1, ceil(asinh(_MARGIN * length / self._overlap * sinh(rate / 2)) / rate - 0.5))

    def not_below(self, grams: Array, level: float) -> Array:
        """Those for which it is not proved that their eigenvalues stay below the level.

        V_{k+1} = (4G/μ − 2)·V_k − V_{k−1}, where V_0 = 1 and V_{−1} = −1. At the level V_k has grown to `growth`, and
        what was lost to rounding to no more than `drift`.
        """
        if not len(grams) or level <= 0:
            return grams
        scale = grams.dtype.type(4 * self._within / level)
        turn = 4 * self._within - 2
        now = np.repeat(self._drawn(grams.dtype)[None], len(grams), axis=0)
        before = -now
        longest = _lengths(now)
        lost = self._lost(grams, level)[:, None]
        drift = np.zeros_like(longest)
        drift_before = np.zeros_like(longest)
        growth = 1.0
        growth_before = -1.0
        for step in range(1, 2 * self._steps + 1):
            following = grams @ now
            following *= scale
            before += now
            before += now
            following -= before
            before, now = now, following
            drift, drift_before = turn * drift - drift_before + lost * longest, drift
            growth, growth_before = turn * growth - growth_before, growth
            length = _lengths(now)
            longest = np.maximum(longest, length)
            if step >= self._steps:
                left = ~(length + drift < self._overlap * growth).all(axis=1)
                if not left.any():
                    return grams[:0]
                if not left.all():
                    grams, now, before, longest, lost = (x[left] for x in (grams, now, before, longest, lost))
                    drift = drift[left]
                    drift_before = drift_before[left]
        return grams

    def _drawn(self, kind: np.dtype[Any]) -> Array:
        return (self._complex if kind.kind == "c" else self._real).astype(kind, copy=False)

    def _lost(self, grams: Array, level: float) -> Floats:
        """What rounding loses in one step, as a part of the longer of the two vectors; ‖G‖_F² ≤ λ·tr G."""
        size = grams.shape[-1]
        scale = 4 * self._within / level
        traces = np.trace(grams, axis1=1, axis2=2).real.astype(np.float64)
        roundings = 0.5 * float(np.finfo(grams.dtype).eps) * ((3 if np.iscomplexobj(grams) else 1) * size + 8)
        return np.asarray(roundings * (scale * np.sqrt(level * traces) + 3) + scale * self._uneven)


def _lengths(vectors: Array) -> Floats:
    """The lengths of the columns: (count, columns)."""
    parts = vectors.view(vectors.real.dtype)
    squares = np.einsum("bik,bik->bk", parts, parts)
    return np.asarray(np.sqrt(squares.reshape(*vectors.shape[::2], -1).sum(axis=2, dtype=np.float64)))


def lanczos(matrix: Array, steps: int) -> float:
    """The largest eigenvalue of a Hermitian matrix as seen from a Krylov space: never above it, but for rounding."""
    start = matrix[:, int(np.argmax(matrix.diagonal().real))]
    length = float(np.linalg.norm(start))
    if not length:
        return 0.0
    basis: NDArray[Any] = np.zeros((min(steps, len(matrix)), len(matrix)), matrix.dtype)
    diagonal, beside = [], []
    basis[0] = start / length
    for step in range(len(basis)):
        image = matrix @ basis[step]
        diagonal.append(float(np.vdot(basis[step], image).real))
        for _ in range(2):  # twice is enough to stay orthogonal
            image = image - (basis[: step + 1].conj() @ image) @ basis[: step + 1]
        length = float(np.linalg.norm(image))
        if step + 1 == len(basis) or length <= 1e-6 * abs(diagonal[0]):
            break
        beside.append(length)
        basis[step + 1] = image / length
    inner = np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1)
    return float(np.linalg.eigvalsh(inner)[-1])
