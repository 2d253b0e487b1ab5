"""Schedules of recipes in torch: after every step the optimizer is given the learning rate of the next one."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoolens.training.pairs.semantics import Semantics


def habits() -> Semantics:
    """What torch's users get: schedulers are stepped once an epoch, as torch's documentation shows it; a warm-up begins
    where LinearLR does by default; and a buffer of momentum has no learning rate in it."""
    import torch

    start = inspect.signature(torch.optim.lr_scheduler.LinearLR).parameters["start_factor"].default
    return Semantics(schedule_unit="epoch", warmup_start=start, momentum_rate="current")


class RateTable:
    """A schedule that has the rate of every step. `on_device`: rates and the number of the step are tensors, so that
    the step can be compiled or recorded."""

    def __init__(self, optimizer: Any, rates: NDArray[np.float64], *, on_device: bool) -> None:
        import torch

        self._groups, self._rates, self._number, self._on_device = optimizer.param_groups, rates, 0, on_device
        if on_device:
            device = self._groups[0]["params"][0].device
            self._table = torch.tensor(rates, dtype=torch.float32, device=device)
            self._place = torch.zeros(1, dtype=torch.int64, device=device)
            self._rate = self._table[0].clone()
        self.reset()

    def step(self) -> None:
        """Give the optimizer the rate of the next step; the last one stays."""
        if self._on_device:
            self._place += 1
            self._rate.copy_(self._table.index_select(0, self._place.clamp(max=len(self._table) - 1))[0])
            return
        self._number = min(self._number + 1, len(self._rates) - 1)
        self._set(float(self._rates[self._number]))

    def reset(self) -> None:
        """Begin again with the first step."""
        self._number = 0
        if self._on_device:
            self._place.zero_()
            self._rate.copy_(self._table[0])
        self._set(self._rate if self._on_device else float(self._rates[0]))

    def _set(self, rate: Any) -> None:
        for group in self._groups:
            group["lr"] = rate
