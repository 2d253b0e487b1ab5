"""Answers to noise say which outputs do not have one row for each input."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from zoolens.inventory.runtimes.outputs.noise_probe import answers_to_noise
from zoolens.inventory.runtimes.runtime import TensorSpec


def probed(shape: tuple[int | None, ...], rows: int | None, declared: int | None) -> frozenset[str]:
    """A model that finds `rows` objects in whatever it is given; None: one row for each input."""

    def predict(feeds: dict[str, Any]) -> dict[str, Any]:
        count = len(feeds["x"]) if rows is None else rows
        return {"y": np.random.default_rng(0).normal(size=(count, 7)).astype(np.float32)}

    inputs, outputs = (TensorSpec("x", shape, "float32"),), (TensorSpec("y", (declared, 7), "float32"),)
    session: Any = SimpleNamespace(inputs=inputs, outputs=outputs, predict=predict)
    return answers_to_noise(session).other_rows


@pytest.mark.parametrize(
    ("shape", "rows", "declared", "other"),
    [
        ((1, 3, 8, 8), 5, None, True),
        ((None, 3, 8, 8), 5, None, True),
        ((None, 3, 8, 8), 0, None, True),
        ((1, 3, 8, 8), None, None, False),  # the number of rows is open in the file, and yet that of the inputs
        ((None, 3, 8, 8), None, None, False),
        ((1, 3, None, None), 5, None, True),  # no noise is made for open sizes: the shapes tell
        ((1, 3, None, None), None, 1, False),
        ((None, 3, None, None), 5, None, False),
    ],
)
def test_rows_of_found_objects(shape, rows, declared, other):
    assert bool(probed(shape, rows, declared)) is other
