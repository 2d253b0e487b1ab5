"""Schedules of recipes in torch: before every step the optimizer is given that step's learning rate."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoolens.training.pairs.optimizers.torch_rules import OwnRule
from zoolens.training.pairs.semantics import Semantics


def habits() -> Semantics:
    """What torch's users get: schedulers are stepped once an epoch, as torch's documentation shows it; a warm-up begins
    where LinearLR does by default; and a buffer of momentum has no learning rate in it."""
    import torch

    start = inspect.signature(torch.optim.lr_scheduler.LinearLR).parameters["start_factor"].default
    return Semantics(schedule_unit="epoch", warmup_start=start, momentum_rate="current")


class RateTable:
    """`on_device`: rates and the number of the step are tensors, so that the step can be compiled or recorded."""

    def __init__(self, optimizer: Any, rates: NDArray[np.float64], *, on_device: bool) -> None:
        import torch

        self._optimizer, self._rates, self._number, self._on_device = optimizer, rates, 0, on_device
        if on_device:
            own = isinstance(optimizer, OwnRule)
            device = (optimizer.parameters[0] if own else optimizer.param_groups[0]["params"][0]).device
            self._table = torch.tensor(rates, dtype=torch.float32, device=device)
            self._place = torch.zeros(1, dtype=torch.int64, device=device)
            self._rate = self._table[0].clone()
            self._set(self._rate)

    def advance(self) -> None:
        """Give the optimizer the rate of the next step."""
        if self._on_device:
            self._rate.copy_(self._table.index_select(0, self._place)[0])
            self._place += 1
            return
        self._set(float(self._rates[self._number]))
        self._number += 1

    def reset(self) -> None:
        """Begin again with the first step."""
        self._number = 0
        if self._on_device:
            self._place.zero_()

    def _set(self, rate: Any) -> None:
        if isinstance(self._optimizer, OwnRule):
            self._optimizer.rate = rate
            return
        for group in self._optimizer.param_groups:
            group["lr"] = rate
