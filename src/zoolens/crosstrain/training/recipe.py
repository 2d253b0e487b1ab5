"""A training recipe as data: everything that decides how a network is trained, so that frameworks can be told the
same."""

from __future__ import annotations

from typing import Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from zoolens.crosstrain.training.semantics import ALIGNED, Semantics
from zoolens.store.records import fingerprint

MAX_EPOCHS: Final = 10_000
MAX_BATCH: Final = 1 << 20
MAX_LIMIT: Final = 1 << 31  # samples
LIBRARY_ONLY_SHIPPED: Final = ("vgg16", "resnet50", "densenet121")  # library mode builds what the library ships


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Optimizer(Part):
    model_config = ConfigDict(allow_inf_nan=False)

    name: Literal["sgd", "adam"] = "adam"
    beta1: float = Field(default=0.9, ge=0, lt=1)
    beta2: float = Field(default=0.999, ge=0, lt=1)
    epsilon: float | None = Field(default=None, ge=0, description="None: the framework's own, or semantics decide")
    momentum: float = Field(default=0.0, ge=0, lt=1, description="of sgd")
    weight_decay: float = Field(default=0.0, ge=0, description="on every parameter; semantics say how")


class Recipe(Part):
    """`mode`: "library" builds what each library's user gets: torchvision's or keras.applications' own network for the
    large architectures, each framework's own default layers for the small ones; "aligned" builds one definition with
    the same semantics in each. `semantics` fixes single ones in either mode (not in a network that a library ships).
    `weights`: "shared" gives all sides the same initial file."""

    model_config = ConfigDict(allow_inf_nan=False)

    architecture: str = Field(min_length=1, max_length=60)
    mode: Literal["library", "aligned"] = "aligned"
    dataset: str = Field(default="fashion-mnist", max_length=4096, description="see data.py")
    train_limit: int | None = Field(default=None, ge=1, le=MAX_LIMIT)
    test_limit: int | None = Field(default=None, ge=1, le=MAX_LIMIT)
    loss: Literal["cross_entropy"] = "cross_entropy"
    optimizer: Optimizer = Field(default_factory=Optimizer)
    learning_rate: float = Field(gt=0)
    batch_size: int = Field(ge=1, le=MAX_BATCH)
    epochs: int = Field(ge=1, le=MAX_EPOCHS)
    seed: int = Field(default=0, ge=0, lt=1 << 31)
    weights: Literal["own", "shared"] = "own"
    order: Literal["shared", "own"] = "shared"
    augmentation: Literal["none", "flip", "flip-crop"] = "none"
    precision: Literal["float32", "tf32", "bfloat16", "float64"] = "float32"
    semantics: Semantics = Field(default_factory=Semantics)

    @property
    def fingerprint(self) -> str:
        return fingerprint(["recipe", self.model_dump(mode="json")])

    @property
    def shipped(self) -> bool:
        """Library mode of an architecture that torchvision and keras.applications ship."""
        return self.mode == "library" and self.architecture in LIBRARY_ONLY_SHIPPED

    @property
    def wanted(self) -> Semantics:
        """What both sides are told; None is left to each framework."""
        if self.mode == "library":
            return self.semantics
        decay = Semantics(weight_decay="coupled") if self.optimizer.weight_decay else Semantics()
        return self.semantics.over(decay).over(ALIGNED)

    @model_validator(mode="after")
    def _shared_needs_one_definition(self) -> Self:
        if self.shipped and self.weights == "shared":
            raise ValueError("weights cannot be shared between networks as the libraries ship them: use mode: aligned")
        if self.shipped and self.semantics != Semantics():
            raise ValueError("a network as its library ships it has its own semantics: use mode: aligned")
        return self
