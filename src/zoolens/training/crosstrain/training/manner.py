"""How a trial is trained, as far as it is no matter of the recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from zoolens.base.engine.machine import gpu_names
from zoolens.training.crosstrain.training.fanout import this_machine
from zoolens.training.crosstrain.training.job import LoopKind


@dataclass(frozen=True)
class Manner:
    """Conditions of a training beside its recipe."""

    loop: LoopKind | None = None  # None: each framework's usual one
    device: str = "cpu"
    threads: int | None = None
    concurrent: bool = False  # all sides at once; else one after another, each with the whole machine
    keep_weights: bool = False

    @property
    def conditions(self) -> dict[str, Any]:
        """What of it can change the numbers."""
        settings = {"loop": self.loop or "usual", "device": self.device, "threads": self.threads}
        gpus = {} if self.device == "cpu" else {"gpus": list(gpu_names())}
        return {**this_machine(), **settings, **gpus}
