"""Window arithmetic agrees with counting windows one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoolens.base.errors import ModelError
from zoolens.findings.graph.ir.sliding_windows import ceil_pads, grown, same_pads, slid

small = st.integers(1, 7)


@given(st.integers(1, 40), small, small, st.integers(1, 3))
def test_same_pads_make_the_output_extent_over_stride_rounded_up(extent, kernel, stride, dilation):
    pads = same_pads((extent,), (kernel,), (stride,), (dilation,))
    assert slid((extent,), (kernel,), (stride,), (dilation,), pads) == (-(-extent // stride),)
    assert 0 <= pads[1] - pads[0] <= 1
    assert same_pads((extent,), (kernel,), (stride,), (dilation,), lower=True) == pads[::-1]


@given(st.integers(7, 40), small, small, st.integers(0, 3))
def test_ceil_keeps_every_window_that_starts_inside(extent, kernel, stride, pad):
    pad = min(pad, kernel // 2)  # more is allowed nowhere
    pads = ceil_pads((extent,), (kernel,), (stride,), (1,), (pad, pad))
    starts = [0]
    while starts[-1] + kernel < extent + 2 * pad and starts[-1] + stride < extent + pad:
        starts.append(starts[-1] + stride)
    assert slid((extent,), (kernel,), (stride,), (1,), pads) == (len(starts),)
    assert pads[0] == pad


@given(st.integers(1, 12), small, small)
def test_a_transposed_convolution_undoes_the_extent(extent, kernel, stride):
    (wide,) = grown((extent,), (kernel,), (stride,), (1,), (0, 0), (0,))
    assert slid((wide,), (kernel,), (stride,), (1,), (0, 0)) == (extent,)


def test_windows_that_cannot_be_are_refused():
    with pytest.raises(ModelError, match="does not fit"):
        slid((4,), (5,), (1,), (1,), (0, 0))
    with pytest.raises(ModelError, match="strides"):
        slid((4,), (3,), (0,), (1,), (0, 0))
    with pytest.raises(ModelError, match="2 axes"):
        slid((4, 4), (3,), (1,), (1,), (0, 0))
