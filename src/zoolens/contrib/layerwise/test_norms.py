from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zoolens.base.errors import ModelError
from zoolens.contrib.layerwise.norms import Geometry, conv_norm, matrix_norm
from zoolens.findings.graph.reference.spatial import conv, conv_transpose, padded

random = np.random.default_rng(3)


def written_out(kernel, extents, *, stride, pads, dilation, groups):
    """The norm of the operator as one dense matrix."""
    channels = kernel.shape[1] * groups
    size = channels * int(np.prod(extents))
    every = np.eye(size).reshape(size, channels, *extents)
    image = conv(padded(every, pads), kernel, stride, dilation, groups)
    return np.linalg.norm(image.reshape(size, -1), 2)


@st.composite
def convolutions(draw):
    rank = draw(st.sampled_from([1, 2]))
    axis = st.integers(1, 3)
    window = tuple(draw(st.integers(1, 4)) for _ in range(rank))
    stride, dilation = (tuple(draw(axis) for _ in range(rank)) for _ in range(2))
    pads = tuple(draw(st.integers(0, 3)) for _ in range(2 * rank))
    room = [(k - 1) * d + 1 - pads[i] - pads[rank + i] for i, (k, d) in enumerate(zip(window, dilation, strict=True))]
    extents = tuple(max(1, least) + draw(st.integers(0, 4)) for least in room)
    groups = draw(st.sampled_from([1, 2, 3]))
    out, inner = groups * draw(axis), draw(axis)
    kernel = np.random.default_rng(draw(st.integers(0, 999))).standard_normal((out, inner, *window))
    return kernel, extents, {"stride": stride, "pads": pads, "dilation": dilation, "groups": groups}


@settings(max_examples=60, deadline=None)
@given(convolutions(), st.sampled_from(["cholesky", "random"]))
def test_it_is_an_upper_bound_of_the_operator_written_out(case, proof):
    kernel, extents, how = case
    assert conv_norm(kernel, extents, Geometry(**how), proof=proof) >= written_out(kernel, extents, **how) * (1 - 1e-9)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("proof", ["cholesky", "random"])
def test_matrices_too_large_to_be_solved(stride, proof):
    """More than 24 channels on either side: bounded, level by level."""
    kernel = random.standard_normal((32, 40, 3, 3))
    how = {"stride": (stride, stride), "pads": (1, 0, 0, 1), "dilation": (1, 1), "groups": 1}
    exact = written_out(kernel, (4, 5), **how)
    assert exact <= conv_norm(kernel, (4, 5), Geometry(**how), proof=proof) <= 1.35 * exact


def test_it_is_tight_where_edges_matter_little():
    kernel = random.standard_normal((3, 4, 3, 3))
    how = {"stride": (1, 1), "pads": (1, 1, 1, 1), "dilation": (1, 1), "groups": 1}
    exact = written_out(kernel, (14, 14), **how)
    assert exact <= conv_norm(kernel, (14, 14), Geometry(**how)) <= 1.03 * exact


def test_strides_are_tight_too():
    kernel = random.standard_normal((4, 3, 3, 3))
    how = {"stride": (2, 2), "pads": (0, 0, 1, 1), "dilation": (1, 1), "groups": 1}
    exact = written_out(kernel, (16, 16), **how)
    assert exact <= conv_norm(kernel, (16, 16), Geometry(**how)) <= 1.02 * exact


def test_the_folded_kernel_is_no_upper_bound():
    """A smooth 3×3 kernel: its folded norm is about a third of what the operator does."""
    kernel = np.ones((1, 1, 3, 3))
    exact = written_out(kernel, (20, 20), stride=(1, 1), pads=(1, 1, 1, 1), dilation=(1, 1), groups=1)
    folded = np.linalg.norm(kernel.reshape(1, -1), 2)
    assert exact > 2.8 * folded
    assert conv_norm(kernel, (20, 20), Geometry(pads=(1, 1, 1, 1))) >= exact


@pytest.mark.parametrize("proof", ["cholesky", "random"])
@pytest.mark.parametrize("shape", [(5, 3), (60, 200), (200, 60)])
def test_matrices(shape, proof):
    matrix = random.standard_normal(shape)
    exact = np.linalg.norm(matrix, 2)
    assert exact <= matrix_norm(matrix, proof=proof) <= exact * (1.002 if proof == "cholesky" else 1.06)


def test_a_transposed_convolution_is_the_adjoint():
    kernel = random.standard_normal((4, 3, 3, 3))
    every = np.eye(4 * 25).reshape(100, 4, 5, 5)
    image = conv_transpose(
        every, kernel, stride=(2, 2), dilation=(1, 1), pads=(1, 1, 1, 1), output_pads=(1, 1), groups=1
    )
    exact = np.linalg.norm(image.reshape(100, -1), 2)
    found = conv_norm(kernel, image.shape[2:], Geometry(stride=(2, 2), pads=(1, 1, 1, 1)))
    assert exact <= found <= 1.2 * exact


def test_fewer_frequencies_on_a_large_image():
    """The bound of a few frequencies holds for all, and is as close as asked."""
    kernel = random.standard_normal((2, 2, 3, 3))
    fine = conv_norm(kernel, (63, 63), Geometry(pads=(1, 1, 1, 1)), tolerance=1e-4)
    for tolerance in (0.3, 0.1, 0.01):
        assert fine * (1 - 1e-4) <= conv_norm(kernel, (63, 63), Geometry(pads=(1, 1, 1, 1)), tolerance=tolerance)
        assert conv_norm(kernel, (63, 63), Geometry(pads=(1, 1, 1, 1)), tolerance=tolerance) <= fine * (1 + tolerance)


def test_nothing_is_stretched_by_nothing():
    assert conv_norm(np.zeros((4, 4, 3, 3)), (8, 8)) == 0
    assert matrix_norm(np.zeros((40, 50)), proof="random") == 0


def test_taps_that_meet_only_pads_do_not_count():
    """On a single pixel, only the middle of a padded kernel matters."""
    kernel = random.standard_normal((5, 6, 3, 3))
    exact = np.linalg.norm(kernel[:, :, 1, 1], 2)
    assert conv_norm(kernel, (1, 1), Geometry(pads=(1, 1, 1, 1))) == pytest.approx(exact)


@pytest.mark.parametrize("proof", ["cholesky", "random"])
@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_very_small_and_very_large_weights(scale, proof):
    matrix = random.standard_normal((40, 50))
    exact = np.linalg.norm(matrix, 2)
    assert exact <= matrix_norm(matrix * scale, proof=proof) / scale <= 1.06 * exact


def test_weights_that_are_no_numbers():
    for value in (np.nan, np.inf):
        with pytest.raises(ModelError, match="not finite"):
            matrix_norm(np.full((30, 30), value))
