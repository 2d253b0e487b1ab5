"""What is sent: requests made before the run, and a judge of their answers where the data have labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.protocol.messages import InferRequest, InferResponse

MOST_BYTES: Final = 512 << 20  # of tensors that are held for a run

Judge = Callable[[int, InferResponse], int]


@dataclass(frozen=True)
class Workload:
    """Different requests, which are sent in a shuffled order again and again."""

    requests: tuple[InferRequest, ...]
    description: str
    judge: Judge | None = None  # whether the answer to the request of a number is right: 1, 0 or `UNKNOWN`
    notes: tuple[str, ...] = ()  # what a reader of the results should know

    def order(self, seed: int) -> Iterator[int]:
        """The numbers of the requests to send, without end: every pass over the data has an order of its own."""
        random = np.random.default_rng([seed, len(self.requests)])
        while True:
            yield from random.permutation(len(self.requests)).tolist()

    def with_parameters(self, **parameters: bool | int | float | str) -> Workload:
        """Return the workload with these parameters added to each request."""
        requests = tuple(replace(request, parameters={**request.parameters, **parameters}) for request in self.requests)
        return replace(self, requests=requests)


def fitting_count(arrays: Sequence[NDArray[np.generic]], wanted: int) -> int:
    """How many inputs like these may be held in memory, at most as many as are wanted."""
    size = max(sum(array.nbytes for array in arrays), 1)
    return max(1, min(wanted, MOST_BYTES // size))
