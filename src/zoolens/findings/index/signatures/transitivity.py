"""The shortcut of the published system, offered beside the exact index so that the two can be compared.

A new model is compared with a few random models of the index; its difference from every other one is inferred by the
triangle inequality, d(a, c) ≤ d(a, b) + d(b, c). The inferred difference is an upper bound that is never smaller than
the best direct one: the model said to be nearest is always one of the few that were compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ZoolensError

# As many as the published system compares a new model with.
ANCHORS: Final = 5
MAX_MODELS: Final = 5_000  # all pairs are kept

Compare = Callable[[int, NDArray[np.int64]], NDArray[np.float64]]  # differences of one model from several


def infer(compare: Compare, models: int, *, anchors: int = ANCHORS, seed: int = 0) -> NDArray[np.float32]:
    """The differences of all pairs, as known after the models were inserted one by one."""
    if models > MAX_MODELS:
        raise ZoolensError(
            f"Transitivity keeps all pairs, which is too much for {models:,} models.", hint="Use the exact index."
        )
    choose = np.random.default_rng(seed)
    known = np.zeros((models, models), np.float32)
    for new in range(1, models):
        compared = choose.choice(new, min(anchors, new), replace=False)
        direct = compare(new, compared).astype(np.float32)
        row = inferred(direct, known[compared, :new])
        row[compared] = direct
        known[new, :new] = known[:new, new] = row
    return known


def inferred(direct: NDArray[np.float32], known: NDArray[np.float32]) -> NDArray[np.float32]:
    """The least sum over the models compared with (`direct`: differences from them; `known`: theirs from all)."""
    return np.asarray(np.minimum(np.min(direct[:, None] + known, axis=0), 1), np.float32)
