from __future__ import annotations

import numpy as np
import pytest

from zoolens.contrib.layerwise.spectra import _Cholesky, _Random, lanczos, largest_eigenvalue

random = np.random.default_rng(5)


def hermitian(count, size, *, real=False, dtype=np.float64):
    """Positive semidefinite matrices as they are tested, and in full precision."""
    factor = random.standard_normal((count, size, size))
    if not real:
        factor = factor + 1j * random.standard_normal(factor.shape)
    whole = factor @ factor.conj().swapaxes(1, 2)
    return whole.astype(dtype if real else np.result_type(dtype, np.complex64)), whole


@pytest.mark.parametrize("real", [True, False])
@pytest.mark.parametrize(("proof", "slack"), [("cholesky", 0.01), ("random", 0.1)])
@pytest.mark.parametrize("size", [8, 40, 450])
def test_the_largest_of_many(size, proof, slack, real):
    dtype = np.float64 if proof == "cholesky" else np.float32
    given, whole = hermitian(3 if size > 100 else 20, size, real=real, dtype=dtype)
    exact = np.linalg.eigvalsh(whole).max()
    traces = np.trace(whole, axis1=1, axis2=2).real
    found = largest_eigenvalue(size, traces, lambda some: given[some], slack=slack, proof=proof)
    assert exact * (1 - 1e-5) <= found <= exact * (1 + 1.5 * slack)


@pytest.mark.parametrize("test", [_Cholesky(), _Random(30, 0.05)])
def test_what_reaches_the_level_is_never_passed(test):
    """One eigenvalue stands out by 6 % and more; the level is just below it, then well above."""
    given, whole = hermitian(12, 30)
    each = np.linalg.eigvalsh(whole)[:, -1]
    level = np.sort(each)[6] * (1 - 1e-9)
    kept = {one.tobytes() for one in test.not_below(given, level)}
    assert all(one.tobytes() in kept for one, largest in zip(given, each, strict=True) if largest >= level)
    assert len(test.not_below(given, each.max() * 1.06)) == 0


def test_lanczos_comes_from_below():
    _, whole = hermitian(1, 80)
    exact = np.linalg.eigvalsh(whole[0])[-1]
    few, many = lanczos(whole[0], 5), lanczos(whole[0], 60)
    assert few <= many <= exact * (1 + 1e-12)
    assert many == pytest.approx(exact, rel=1e-6)


def test_lanczos_of_a_matrix_of_rank_one():
    vector = random.standard_normal(50)
    assert lanczos(np.outer(vector, vector), 24) == pytest.approx(vector @ vector)
    assert lanczos(np.zeros((30, 30)), 24) == 0


@pytest.mark.parametrize("size", [40, 600])
def test_rounding_is_counted(size):
    """Just above the level nothing is passed, and far below it all is; also where every eigenvalue is the same."""
    test = _Random(size, 0.1)
    same = np.eye(size, dtype=np.float32)[None]
    assert len(test.not_below(same, 1 - 1e-6)) == 1
    assert len(test.not_below(same, 1.5)) == 0
