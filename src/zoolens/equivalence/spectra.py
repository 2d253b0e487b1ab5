"""The largest eigenvalue of many Hermitian matrices at once, from above, with proof.

Iterations such as Lanczos' only ever find it from below. So each matrix in turn is proved to stay below the level that
is known, or else raises it; few do the latter. There are two proofs that all eigenvalues of G stay below a level.

"cholesky" is certain: level·I − G has a Cholesky factor only if they do. What rounding may hide is added to the level:
a factor found in floating-point numbers proves definiteness up to (c + 1)·ε/(1 − (c + 1)·ε) of the trace (S. M. Rump,
Verification of positive definiteness, BIT 46, 2006).

"random" is quicker, on single-precision numbers, and wrong with a probability below 10⁻¹⁴ for each matrix: by our own
draws, whatever the matrix is. The Chebyshev polynomial T_q of 2G/μ − I is at most 1 on eigenvalues below μ and grows
fast above it. Were there an eigenvalue above the level, random vectors would grow by T_q there, but for the chance
that all of them are nearly orthogonal to its eigenvector (after Kuczyński and Woźniakowski, SIAM J. Matrix Anal. Appl.
13, 1992).

Matrices come as real numbers, (count, parts, c, c): their real parts and, unless all are real, their imaginary parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import acosh, ceil, cosh, sqrt
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from zoolens.graph.model import Array

Proof = Literal["cholesky", "random"]
Floats = NDArray[np.float64]

_MADE: Final = 1 << 20  # entries of the matrices that are made together
_TESTED: Final = 1 << 17  # and of those that are tested together, while they are in the cache
_STEPS: Final = 24  # of Lanczos
_SMALL: Final = 24  # matrices up to this size are solved, not bounded
_WRONG: Final = 1e-14  # the chance that a random proof is wrong
_LARGE: Final = 400  # from this size on, reading a matrix takes longer than multiplying it by a few more draws


def largest_eigenvalue(
    size: int, traces: Floats, grams: Callable[[NDArray[np.intp]], Array], *, slack: float, proof: Proof
) -> float:
    """An upper bound of all eigenvalues of positive semidefinite matrices, about 1 + `slack` times the largest.

    `grams` gives those of some numbers, each `size`×`size`; `traces` are those of all. Those of large trace come
    first, and what has a trace or a Frobenius norm below the level needs no proof.
    """
    test = _Cholesky() if proof == "cholesky" else _Random(slack)
    level = 0.0
    for some in _in_turn(traces, max(1, _MADE // size**2)):
        left = some[traces[some] > level]
        for part in _cut(grams(left), max(1, _TESTED // size**2)) if len(left) else ():
            level = _raised(part, level, slack, test)
    return level * (1 + 2 * (size + 1) ** 2 * float(np.finfo(np.float64).eps))


def _in_turn(traces: Floats, together: int) -> Iterator[NDArray[np.intp]]:
    order = np.argsort(-traces, kind="stable")
    yield order[:1]  # alone, so that the others meet a level
    for start in range(1, len(order), together):
        yield order[start : start + together]


def _cut(grams: Array, together: int) -> Iterator[Array]:
    return (grams[start : start + together] for start in range(0, len(grams), together))


def _raised(grams: Array, level: float, slack: float, test: _Cholesky | _Random) -> float:
    """The level that all of these stay below, no lower than `level`."""
    if grams.shape[-1] <= _SMALL:
        return max(level, _solved(grams))
    lost = 1 + grams[0].size * float(np.finfo(grams.dtype).eps)  # to rounding, in the sum of so many squares
    above = grams[np.sqrt(np.einsum("bpij,bpij->b", grams, grams)) * lost > level]
    while len(above := test.not_below(above, level)):
        seen = max(lanczos(gram, _STEPS) for gram in _joined(above)) * (1 + slack)
        level = seen if seen > level else max(_solved(above), level) * (1 + slack)
    return level


def _joined(grams: Array) -> Array:
    """As complex numbers, or real ones."""
    return np.asarray(grams[:, 0] + 1j * grams[:, 1] if grams.shape[1] > 1 else grams[:, 0])


def _solved(grams: Array) -> float:
    largest = np.linalg.eigvalsh(_joined(grams))[:, -1].max()
    return float(largest) * (1 + 64 * float(np.finfo(grams.dtype).eps))


class _Cholesky:
    def not_below(self, grams: Array, level: float) -> Array:
        """Those for which it is not proved that their eigenvalues stay below the level, found by halving."""
        if not len(grams) or (level > 0 and _definite(level * np.eye(grams.shape[-1]) - _joined(grams))):
            return grams[:0]
        if len(grams) == 1:
            return grams
        half = len(grams) // 2
        return np.concatenate([self.not_below(grams[:half], level), self.not_below(grams[half:], level)])


def _definite(matrices: Array) -> bool:
    try:
        np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        return False
    return True


class _Random:
    """`slack`: how far the level lies above the largest eigenvalue seen."""

    def __init__(self, slack: float) -> None:
        self._within = 1 + slack
        self._draws = np.random.default_rng(0)

    def not_below(self, grams: Array, level: float) -> Array:
        if not len(grams) or level <= 0:
            return grams
        size = grams.shape[-1]
        draws = 8 if size >= _LARGE else 2
        overlap = _WRONG ** (1 / draws)  # the chance that a complex draw's squared overlap is less than this, is this
        rate = acosh(2 * self._within - 1)
        steps = ceil(acosh(sqrt(4 * size / overlap)) / rate)
        grown = self._grown(grams, level / self._within, steps, draws)
        lost = 1 + steps**2 * size * float(np.finfo(grams.dtype).eps)  # to rounding, at every step and carried on
        found: Array = grams[~(grown * lost < cosh(steps * rate) * sqrt(overlap))]
        return found

    def _grown(self, grams: Array, below: float, steps: int, draws: int) -> Floats:
        """The longest of T_q(2G/below − I)·z over draws z of unit variance, for each matrix.

        Of a complex matrix the real and imaginary parts of draws stand beside each other, (count, c, 2 · draws). Of a
        real one as many real draws stand there: that one is small is as likely as the root of it.
        """
        count, parts, size, _ = grams.shape
        stacked = grams.reshape(count, parts * size, size)
        scale = grams.dtype.type(2 / below)
        before = self._draws.standard_normal((count, size, 2 * draws), np.float32).astype(grams.dtype, copy=False)
        now = scale * _image(stacked, before) - before
        for _ in range(steps - 1):
            before, now = now, 2 * (scale * _image(stacked, now) - now) - before
        lengths = np.square(now).sum(axis=1, dtype=np.float64)
        if parts > 1:
            lengths = (lengths[:, :draws] + lengths[:, draws:]) / 2
        return np.asarray(np.sqrt(lengths.max(axis=1)))


def _image(stacked: Array, vectors: Array) -> Array:
    """Real matrices times vectors, or complex ones times complex vectors, as real numbers throughout."""
    image = stacked @ vectors
    size, half = vectors.shape[1], vectors.shape[2] // 2
    if image.shape[1] == size:
        return np.asarray(image)
    real = image[:, :size, :half] - image[:, size:, half:]
    return np.concatenate([real, image[:, :size, half:] + image[:, size:, :half]], axis=2)


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
