"""The largest eigenvalue of many Hermitian matrices at once, from above, with proof.

Iterations such as Lanczos' only ever find it from below. So each matrix in turn is proved to stay below the level that
is known, or else raises it; few do the latter. There are two proofs that all eigenvalues of G stay below a level.

"cholesky" is certain: level·I − G has a Cholesky factor only if they do. What rounding may hide is added to the level:
a factor found in floating-point numbers proves definiteness up to (c + 1)·ε/(1 − (c + 1)·ε) of the trace (S. M. Rump,
Verification of positive definiteness, BIT 46, 2006).

"random" is quicker, on single-precision numbers, and wrong with a probability below 10⁻¹² for each matrix: by our own
draws, whatever the matrix is. The Chebyshev polynomial T_q of 2G/μ − I is at most 1 on eigenvalues below μ and grows
fast above it. Were there an eigenvalue above the level, random vectors would grow by T_q there, but for the chance
that all of them are nearly orthogonal to its eigenvector (after Kuczyński and Woźniakowski, SIAM J. Matrix Anal. Appl.
13, 1992).

Matrices come as real numbers, (parts, count, c, c): their real parts and, unless all are real, their imaginary parts.
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
_TESTED: Final = 1 << 18  # and of those that are tested together, while they are in the cache
_STEPS: Final = 24  # of Lanczos
_SMALL: Final = 24  # matrices up to this size are solved, not bounded
_WRONG: Final = 1e-12  # the chance that a random proof is wrong
_LARGE: Final = 100  # from this size on, reading a matrix takes longer than multiplying it by a few more draws


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
    return (grams[:, start : start + together] for start in range(0, grams.shape[1], together))


def _raised(grams: Array, level: float, slack: float, test: _Cholesky | _Random) -> float:
    """The level that all of these stay below, no lower than `level`."""
    if grams.shape[-1] <= _SMALL:
        return max(level, _solved(grams))
    above = _not_short(grams, level)
    while (above := test.not_below(above, level)).shape[1]:
        seen = max(lanczos(gram, _STEPS) for gram in _joined(above)) * (1 + slack)
        level = seen if seen > level else max(_solved(above), level) * (1 + slack)
    return level


def _not_short(grams: Array, level: float) -> Array:
    """Without those whose Frobenius norm is below the level, if there may be any: it is at least trace/√c."""
    size = grams.shape[-1]
    traces = np.trace(grams[0], axis1=1, axis2=2)
    if (traces > level * sqrt(size)).all():
        return grams
    lost = 1 + 2 * size**2 * float(np.finfo(grams.dtype).eps)  # to rounding, in the sum of so many squares
    found: Array = grams[:, np.sqrt(np.einsum("pbij,pbij->b", grams, grams)) * lost > level]
    return found


def _joined(grams: Array) -> Array:
    """As complex numbers, or real ones."""
    return np.asarray(grams[0] + 1j * grams[1] if len(grams) > 1 else grams[0])


def _solved(grams: Array) -> float:
    largest = np.linalg.eigvalsh(_joined(grams))[:, -1].max()
    return float(largest) * (1 + 64 * float(np.finfo(grams.dtype).eps))


class _Cholesky:
    def not_below(self, grams: Array, level: float) -> Array:
        """Those for which it is not proved that their eigenvalues stay below the level, found by halving."""
        count, size = grams.shape[1:3]
        if not count or (level > 0 and _definite(level * np.eye(size) - _joined(grams))):
            return grams[:, :0]
        if count == 1:
            return grams
        halves = grams[:, : count // 2], grams[:, count // 2 :]
        return np.concatenate([self.not_below(half, level) for half in halves], axis=1)


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
        if not grams.shape[1] or level <= 0:
            return grams
        size = grams.shape[-1]
        draws = 8 if size >= _LARGE else 2
        overlap = _WRONG ** (1 / draws)  # the chance that a complex draw's squared overlap is less than this, is this
        rate = acosh(2 * self._within - 1)
        steps = ceil(acosh(sqrt(2 * size / overlap)) / rate)
        grown = self._grown(grams, level / self._within, steps, draws)
        lost = 1 + steps**2 * size * float(np.finfo(grams.dtype).eps)  # to rounding, at every step and carried on
        found: Array = grams[:, ~(grown * lost < cosh(steps * rate) * sqrt(overlap))]
        return found

    def _grown(self, grams: Array, below: float, steps: int, draws: int) -> Floats:
        """The longest of T_q(X)·z over draws z of unit variance, for each matrix; X = 2G/below − I.

        Of complex matrices the real and imaginary parts of draws stand beside each other, (count, c, 2 · draws). Of
        real ones as many real draws stand there: that one is small is as likely as the root of it.
        """
        shape = (grams.shape[1], grams.shape[2], 2 * draws)
        before = self._draws.standard_normal(shape, np.float32).astype(grams.dtype, copy=False)
        scale = grams.dtype.type(4 / below)
        now = _image(grams, before, scale) / 2 - before
        for _ in range(steps - 1):
            following = _image(grams, now, scale)
            before += now
            before += now
            following -= before  # 2X·T_k − T_{k−1} is T_{k+1}
            before, now = now, following
        lengths = np.square(now).sum(axis=1, dtype=np.float64)
        if len(grams) > 1:
            lengths = (lengths[:, :draws] + lengths[:, draws:]) / 2
        return np.asarray(np.sqrt(lengths.max(axis=1)))


def _image(grams: Array, vectors: Array, scale: Any) -> Array:
    """Real matrices times vectors, or complex ones times complex vectors, as real numbers throughout."""
    image: Array = grams @ vectors
    half = vectors.shape[2] // 2
    real: Array = image[0]
    if len(grams) > 1:
        real[:, :, :half] -= image[1, :, :, half:]
        real[:, :, half:] += image[1, :, :, :half]
    real *= scale
    return real


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
