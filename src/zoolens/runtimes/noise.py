"""Two inputs of noise, to see whether a model answers with probabilities: rows that are not negative and add up to one.

A softmax at the end of a file that cannot be read as a graph shows in this way, whatever the framework.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.runtimes.base import Session, TensorSpec

MAX_ELEMENTS: Final = 1 << 22
FREE: Final = 16  # extent of dimensions that a file leaves open, other than the batch
MADE_UP: Final = f"made-up inputs (noise, or zeros where they are whole numbers; open dimensions of {FREE})"
ROWS: Final = 2


def outputs_that_sum_to_one(session: Session) -> frozenset[str]:
    """Names of outputs whose rows pass for probabilities; none where the model does not take noise."""
    feeds = {}
    for spec in session.inputs:
        values = _noise(spec)
        if values is None:
            return frozenset()
        feeds[spec.name] = values
    try:
        answers = session.predict(feeds)
    except Exception:  # whatever it says about noise is no news about the file
        return frozenset()
    specs = {spec.name: spec for spec in session.outputs}
    return frozenset(name for name, raw in answers.items() if name in specs and sums_to_one(raw, specs[name]))


def sums_to_one(raw: NDArray[Any], spec: TensorSpec) -> bool:
    """Rows like those of a softmax. Answers of nothing but 0 and 1 prove nothing."""
    rows = raw.reshape(len(raw), -1).astype(np.float64) if raw.ndim >= 2 and len(raw) else np.zeros((0, 0))
    if spec.quantised and raw.dtype.kind != "f":
        rows = (rows - (spec.zero_point or 0)) * float(spec.scale or 1)
    if rows.size == 0 or rows.shape[1] < 2 or sum(extent > 1 for extent in raw.shape[1:]) != 1:
        return False
    slack = 1e-3 + (0.5 * float(spec.scale or 0) * rows.shape[1] if spec.quantised else 0.0)
    if not np.isfinite(rows).all() or rows.min() < -1e-6 or np.abs(rows.sum(axis=1) - 1).max() > slack:
        return False
    return bool(np.any((rows > 1e-6) & (rows < 1 - 1e-6)))


def made_up_feeds(specs: Sequence[TensorSpec], batch: int) -> dict[str, NDArray[Any]]:
    """Something to time a model with that no dataset fits, such as one with several inputs."""
    return {spec.name: _made_up(spec, batch) for spec in specs}


def _made_up(spec: TensorSpec, batch: int) -> NDArray[Any]:
    shape = [extent if extent and extent > 0 else FREE for extent in spec.shape]
    if spec.shape and not spec.shape[0]:
        shape[0] = batch
    kind = np.dtype(spec.dtype if spec.dtype in np.sctypeDict else np.float32)
    if kind.kind == "f":
        return np.random.default_rng(0).standard_normal(shape).astype(kind)
    return np.zeros(shape, kind)


def _noise(spec: TensorSpec) -> NDArray[Any] | None:
    shape = (spec.shape[0] or ROWS, *spec.shape[1:]) if spec.shape else ()
    if not shape or any(extent is None or extent < 1 for extent in shape):
        return None
    extents = [int(extent or 1) for extent in shape]
    if prod(extents) > MAX_ELEMENTS:
        return None
    random = np.random.default_rng(0)
    if spec.dtype in ("float32", "float16", "float64"):
        return random.standard_normal(extents).astype(spec.dtype)
    if spec.dtype in ("uint8", "int8"):
        return random.integers(0, 100, extents).astype(spec.dtype)
    return None  # numbers of words or classes: noise may lie outside the vocabulary
