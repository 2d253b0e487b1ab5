from __future__ import annotations

import pytest

from zoolens.base.errors import ModelError
from zoolens.findings.graph.importers.padding_modes import explicit_pads


@pytest.mark.parametrize(
    ("mode", "extents", "kernel", "stride", "dilation", "pads"),
    [
        ("valid", (7, 7), (3, 3), (2, 2), (), (0, 0, 0, 0)),
        ("SAME", (224, 224), (3, 3), (2, 2), (), (0, 0, 1, 1)),  # the odd one goes to the bottom and right
        ("same", (5, 9), (3, 5), (1, 2), (2, 1), (2, 2, 2, 2)),
        ("same", (8,), (1,), (2,), (), (0, 0)),
        ("causal", (10,), (3,), (1,), (2,), (4, 0)),
    ],
)
def test_modes_become_begins_then_ends(mode, extents, kernel, stride, dilation, pads):
    assert explicit_pads(mode, extents, kernel, stride, dilation) == pads


def test_an_unknown_mode_is_named():
    with pytest.raises(ModelError, match="'full'"):
        explicit_pads("full", (4,), (3,), (1,))
