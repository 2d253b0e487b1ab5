"""Which token comes next, given the distribution over all of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zoolens.faces.serving.contracts.language import Sampling
from zoolens.inventory.runtimes.sequences import log_probabilities

Floats = NDArray[np.float64]


class TokenChoice:
    """Choices of one text. Equal seeds make equal choices of equal distributions."""

    def __init__(self, how: Sampling) -> None:
        self._how = how
        self._random = np.random.default_rng(how.seed)

    def choose(self, logarithms: Floats) -> int:
        """The number of a token. Of several most likely ones, the first."""
        if self._how.temperature == 0:
            return int(logarithms.argmax())
        # The largest becomes 0 first: divided by a very small number the others are then infinite, and it is not.
        with np.errstate(over="ignore"):
            scaled = (logarithms - logarithms.max()) / self._how.temperature
        chances = np.exp(log_probabilities(scaled))
        if self._how.top_p >= 1:
            return self._drawn(np.arange(len(chances)), chances)
        order = np.argsort(-chances, kind="stable")
        # The token with which the sum reaches top_p still counts.
        count = int(np.searchsorted(np.cumsum(chances[order]), self._how.top_p)) + 1
        return self._drawn(order[:count], chances[order[:count]])

    def _drawn(self, numbers: NDArray[np.int64], chances: Floats) -> int:
        sums = np.cumsum(chances)
        place = int(np.searchsorted(sums, self._random.random() * sums[-1], side="right"))
        # Rounding may lead beyond the last one that is possible at all.
        return int(numbers[min(place, int(np.flatnonzero(chances)[-1]))])
