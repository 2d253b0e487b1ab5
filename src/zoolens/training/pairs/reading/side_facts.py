"""What one framework's live objects are, as plain data that travels from its process to ours.

Nothing here is known beforehand: every field is read from an object that was just built, or measured by running it.
"""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict, Field

CUMULATIVE: Final = "as much as makes the mean of all steps"


class Fact(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class LayerFact(Fact):
    """One operation of the network at the size it is trained on. `pads`: top, left, bottom, right, with those of a
    padding layer before it. `shape` is without the batch, channels first."""

    name: str
    op: str  # of zoolens.findings.graph.ir.vocabulary
    kernel: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    pads: tuple[int, ...] = ()
    rate: float | None = None
    units: str = Field(default="", description="what a dropout layer drops, where it does not decide for each number")
    given: tuple[int, ...] = Field(default=(), description="shape of its first input")
    shape: tuple[int, ...] = ()
    learned: dict[str, int] = Field(default_factory=dict, description="numbers to learn by role: kernel, bias, …")


class Drawn(Fact):
    """A learned tensor as it was freshly drawn."""

    layer: str
    kind: str  # conv, dense, norm
    role: str  # kernel, bias, scale, shift
    fan_in: int
    fan_out: int
    count: int
    square: float  # mean of its squares
    bound: float  # largest absolute value
    constant: float | None = None  # its only value, if it has but one
    declared: str | None = None  # the initialiser's own name, where the layer has one


class NormFact(Fact):
    """What a batch norm does."""

    layer: str
    epsilon: float
    kept: float  # share of the old statistics that a step leaves, measured on a copy of the layer
    divisor: str  # what the running variance divides by, "n" or "n - 1"
    cumulative: bool = False  # the statistics are the means of all steps, so that `kept` is that of the first one only

    @property
    def keeps(self) -> str:
        """What a step keeps of the old statistics, in words."""
        return CUMULATIVE if self.cumulative else f"{self.kept:g}"


class OptimizerFact(Fact):
    """An optimizer with its defaults. None: it has no such thing."""

    name: str
    constants: dict[str, float | bool]  # defaults under common names
    # By step, how many times its declared size epsilon acts beside the corrected root of the second moment.
    epsilon_acts: dict[int, float] = Field(default_factory=dict)
    weight_decay: str  # what it does, in words
    momentum: str | None = None  # what it does, in words
    epsilon: str | None = None  # where RMSprop and Adagrad add it
    nesterov: str | None = None  # what it does, in words


class LossFact(Fact):
    """Cross-entropy with its defaults, by calling it. `largest`: the loss of a wrong answer given with certainty."""

    name: str
    reduction: str
    takes: str  # logits, probabilities
    largest: float


class BehaviourFact(Fact):
    """What something does that has no layers, found by running it."""

    kind: str  # of the finding
    subject: str  # what is compared, such as "binary cross-entropy"
    name: str  # what it is called there
    does: dict[str, str]  # question -> answer


class PaddingFact(Fact):
    """What a 3×3 layer with stride 2 that halves an even map pads: rows before and after, and how it is asked for."""

    before: int
    after: int
    asked: str


class SideFacts(Fact):
    versions: dict[str, str]
    network: str = Field(description="who built it")
    layers: tuple[LayerFact, ...]
    drawn: tuple[Drawn, ...]
    norms: tuple[NormFact, ...]
    optimizers: tuple[OptimizerFact, ...] = ()
    loss: LossFact | None = Field(default=None, description="None: it was not asked for")
    behaviours: tuple[BehaviourFact, ...] = Field(default=(), description="further losses, and schedules")
    padding: PaddingFact | None = Field(default=None, description="None: it has no layers that pad")
    channels: str = Field(description="first or last")

    @property
    def parameters(self) -> int:
        return sum(sum(layer.learned.values()) for layer in self.layers)
