from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from zoolens.contrib.layerwise.grams import grams, half

random = np.random.default_rng(7)


def written_out(phases, frequency):
    """Sum over phases of A·Aᴴ, for each group."""
    found = 0
    for taps in phases:
        response = sum(matrix * np.exp(1j * np.dot(frequency, offset)) for offset, matrix in taps.items())
        found = found + response @ response.conj().swapaxes(1, 2)
    return found


def drawn(offsets, groups, dtype):
    return {offset: random.standard_normal((groups, 5, 4)).astype(dtype) for offset in offsets}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize(
    "windows",
    [
        [list(product(range(3), range(3)))],
        [list(product(range(1, 3), range(2))), [(0, 1), (1, 1)], [(0, 1)]],  # strides: as many phases
        [list(product([0, 2, 4], [1, 4]))],  # dilated
        [[(0, 3), (2, 0)]],
    ],
)
def test_few_nodes_give_all_frequencies(windows, groups, dtype):
    phases = [drawn(offsets, groups, dtype) for offsets in windows]
    frequencies = random.uniform(-np.pi, np.pi, (6, 2))
    found = grams(phases, frequencies)
    given = found.at(np.arange(6 * groups))
    exact = np.concatenate([written_out(phases, frequency) for frequency in frequencies])
    apart = np.linalg.norm(given - exact, 2, axis=(1, 2)).max()
    assert apart <= found.rounding <= 1e4 * np.finfo(dtype).eps * np.abs(exact).max()
    np.testing.assert_allclose(found.traces, np.trace(exact, axis1=1, axis2=2).real, rtol=1e-4)


def test_a_single_frequency_is_nought_and_real():
    taps = drawn([(0, 0), (0, 1), (1, 1)], 2, np.float64)
    found = grams([taps], np.zeros((1, 2))).at(np.array([1]))
    assert found.dtype == np.float64
    np.testing.assert_allclose(found[0], written_out([taps], (0, 0))[1].real)


def test_half_of_a_grid_has_one_of_each_pair_of_opposites():
    angles = [2 * np.pi * np.arange(count) / count for count in (4, 5)]
    kept = half(angles)
    assert (kept[0] == 0).all()
    both = np.concatenate([kept, -kept]) % (2 * np.pi)
    assert len(np.unique(both.round(9) % round(2 * np.pi, 9), axis=0)) == 20
    assert len(kept) == 11  # 0 and half a turn along the first axis are their own opposites
