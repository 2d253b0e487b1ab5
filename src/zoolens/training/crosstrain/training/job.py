"""What one side is told and what it answers: plain data, since each side trains in a process of its own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from zoolens.base.errors import ConstraintError
from zoolens.training.crosstrain.training.recipe import Recipe
from zoolens.training.pairs.semantics import Semantics

Status = Literal["finished", "non-finite", "out-of-memory", "failed"]
LoopKind = Literal["eager", "compiled"]
_DEVICE: Final = re.compile(r"cpu|cuda(?::([0-9]{1,4}))?")


class Job(BaseModel):
    """One side to be trained, as its process is told."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    recipe: Recipe
    framework: str
    semantics: Semantics  # the recipe's, with what is switched for this side alone
    # A folder with train_x.npy, train_y.npy, test_x.npy, test_y.npy (images uint8 N×H×W×C, labels int32).
    data: Path
    output: Path  # a folder of this job's own
    # Initial weights (safetensors, names and layout of `network`); None: the side makes its own from the seed.
    weights: Path | None = None
    loop: LoopKind = "compiled"
    device: str = "cpu"
    threads: int | None = None
    keep_weights: bool = False
    # Steps (counted from 1) at which the state is written to capture-STEP.safetensors: `activation/LAYER` and
    # `gradient/TENSOR` of that step, then after its update `tensor/TENSOR`, `first/TENSOR`, `second/TENSOR`,
    # `average/TENSOR` (the optimizer's slots, raw: momentum or first moment, mean or sum of squares, and the average
    # gradient of a centred RMSprop) and `statistic/TENSOR` of norms, and `loss`. Training ends after the last capture.
    capture: tuple[int, ...] = ()

    @property
    def gpu(self) -> int | None:
        """The number of the GPU that trains; None is the CPU."""
        match = _DEVICE.fullmatch(self.device)
        if match is None:
            raise ConstraintError(f"There is no device {self.device!r}.", hint="There are cpu, cuda, cuda:1 and so on.")
        return None if self.device == "cpu" else int(match[1] or 0)

    @property
    def loss_semantics(self) -> Semantics:
        """What this job's loss does, where it is not what every loss does: what frameworks leave open is uniform."""
        smoothing = (self.semantics.smoothing or "uniform") if self.recipe.label_smoothing else None
        return Semantics(smoothing=smoothing, reduction=self.semantics.reduction)


class Epoch(BaseModel):
    """`loss` is the mean over all training samples of that epoch, as the steps saw them; `correct` counts test
    samples after it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    number: int = Field(ge=1)
    loss: float | None  # None: not finite
    correct: int = Field(ge=0)
    total: int = Field(ge=1)
    seconds: float = Field(ge=0, description="training alone; the test is not in it")


class Outcome(BaseModel):
    """What a side answers. A loss that is not finite is a result, not a crash. `predictions` (the class answered for
    every test sample, int32) lie beside it in predictions.npy, the final weights in weights.safetensors if kept."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    framework: str
    versions: dict[str, str]
    status: Status
    message: str = ""
    epochs: tuple[Epoch, ...] = ()
    steps: int = 0
    parameters: int | None = None
    semantics: Semantics = Field(default_factory=Semantics, description="resolved, read from the live objects")
    seconds: float = 0.0
