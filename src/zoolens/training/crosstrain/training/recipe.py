"""A training recipe as data: everything that decides how a network is trained, so that frameworks can be told the
same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from zoolens.base.store.records import fingerprint
from zoolens.training.pairs.data.batch_choice import MAX_BATCH, Augmentation
from zoolens.training.pairs.semantics import ALIGNED, Semantics

MAX_EPOCHS: Final = 10_000
MAX_LIMIT: Final = 1 << 31  # samples
LIBRARY_ONLY_SHIPPED: Final = ("vgg16", "resnet50", "densenet121")  # library mode builds what the library ships


class RecipePart(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Optimizer(RecipePart):
    """`epsilon`, `rho` and `initial_accumulator` may be left to the framework or to the semantics by None."""

    model_config = ConfigDict(allow_inf_nan=False)

    name: Literal["sgd", "adam", "adamw", "rmsprop", "adagrad", "lion"] = "adam"
    beta1: float = Field(default=0.9, ge=0, lt=1)
    beta2: float = Field(default=0.999, ge=0, lt=1, description="of adam and adamw; lion's default is 0.99")
    epsilon: float | None = Field(default=None, ge=0, description="None: the framework's own, or semantics decide")
    momentum: float = Field(default=0.0, ge=0, lt=1, description="of sgd and rmsprop")
    weight_decay: float = Field(default=0.0, ge=0, description="on every parameter; semantics say how")
    nesterov: bool = Field(default=False, description="of sgd with momentum: the gradient is added once more")
    rho: float | None = Field(default=None, ge=0, lt=1, description="of rmsprop: share of the old mean square kept")
    centered: bool = Field(default=False, description="of rmsprop: the variance of gradients, not their mean square")
    initial_accumulator: float | None = Field(
        default=None, ge=0, description="of adagrad: what its sum of squares begins with"
    )

    @model_validator(mode="before")
    @classmethod
    def _lion_forgets_faster(cls, given: Any) -> Any:
        if isinstance(given, Mapping) and given.get("name") == "lion" and "beta2" not in given:
            return {**given, "beta2": 0.99}
        return given

    @model_validator(mode="after")
    def _settings_belong_to_it(self) -> Self:
        """A setting that the optimizer does not have would be ignored, and look as if it made no difference."""
        for setting, names in _OF_OPTIMIZERS.items():
            if self.name not in names and getattr(self, setting) != type(self).model_fields[setting].default:
                raise ValueError(f"{self.name} has no {setting}: it belongs to {' and '.join(names)}")
        if self.name in ("adamw", "adagrad", "lion") and self.momentum:
            raise ValueError(f"{self.name} has no momentum: it belongs to sgd and rmsprop")
        if self.name == "lion" and self.epsilon is not None:
            raise ValueError("lion has no epsilon: it divides by nothing")
        if self.nesterov and not self.momentum:
            raise ValueError("nesterov needs a momentum above 0")
        if self.name == "adamw" and not self.weight_decay:
            raise ValueError("adamw needs a weight_decay: frameworks have different defaults (torch 0.01, Keras 0.004)")
        if self.name == "lion" and not self.beta1:
            raise ValueError("lion needs a beta1 above 0, which Keras insists on")
        return self

    @model_serializer(mode="wrap")
    def _as_before(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Recipes that use nothing of what came later are written as they were before, and so keep their keys."""
        written: dict[str, Any] = handler(self)
        return {name: value for name, value in written.items() if name not in _LATER or value != _LATER[name]}


# A setting of later optimizers -> those that have it.
_OF_OPTIMIZERS: Final[Mapping[str, tuple[str, ...]]] = {
    "nesterov": ("sgd",), "rho": ("rmsprop",), "centered": ("rmsprop",), "initial_accumulator": ("adagrad",),
}  # fmt: skip
_LATER: Final = {name: Optimizer.model_fields[name].default for name in _OF_OPTIMIZERS}
# What recipes and semantics can ask for beyond sgd, adam and cross-entropy; trainers declare which of it they know.
FEATURES: Final = frozenset(
    {
        "nesterov", "adamw", "rmsprop", "adagrad", "lion", "independent", "binary_cross_entropy", "mse",
        "label_smoothing", "sum", "cosine", "step", "warmup",
    }
)  # fmt: skip


class Schedule(RecipePart):
    """How the learning rate changes, told in epochs; semantics say whether at every step or once an epoch.

    A warm-up raises it in a line to the recipe's rate. Then "cosine" lowers it along half a cosine to `final` of it,
    and "step" multiplies it by `factor` after `every` so many epochs."""

    model_config = ConfigDict(allow_inf_nan=False)

    name: Literal["constant", "cosine", "step"] = "constant"
    warmup: int = Field(default=0, ge=0, le=MAX_EPOCHS, description="epochs")
    every: int | None = Field(default=None, ge=1, le=MAX_EPOCHS, description="epochs, of step")
    factor: float = Field(default=0.1, gt=0, le=1, description="of step")
    final: float = Field(default=0.0, ge=0, le=1, description="of cosine: share of the rate that is left at the end")
    epochs: int | None = Field(
        default=None, ge=1, le=MAX_EPOCHS, description="with the warm-up, until a cosine ends; None: the recipe's"
    )

    @property
    def varies(self) -> bool:
        return self.name != "constant" or bool(self.warmup)

    @model_validator(mode="after")
    def _settings_belong_to_it(self) -> Self:
        if (self.name == "step") != (self.every is not None):
            raise ValueError("every is needed by the schedule step, and belongs to no other")
        if self.name != "step" and self.factor != type(self).model_fields["factor"].default:
            raise ValueError(f"the schedule {self.name} has no factor: it belongs to step")
        if self.name != "cosine" and (self.final or self.epochs is not None):
            raise ValueError(f"the schedule {self.name} has no final and no epochs: they belong to cosine")
        return self


class Recipe(RecipePart):
    """Everything that decides how a network is trained."""

    model_config = ConfigDict(allow_inf_nan=False)

    architecture: str = Field(min_length=1, max_length=60)
    # "library" builds what each library's user gets: torchvision's or keras.applications' own network for the large
    # architectures, each framework's own default layers for the small ones; "aligned" builds one definition with the
    # same semantics in each.
    mode: Literal["library", "aligned"] = "aligned"
    dataset: str = Field(default="fashion-mnist", max_length=4096, description="see data.py")
    train_limit: int | None = Field(default=None, ge=1, le=MAX_LIMIT)
    test_limit: int | None = Field(default=None, ge=1, le=MAX_LIMIT)
    loss: Literal["cross_entropy", "binary_cross_entropy", "mse"] = Field(
        default="cross_entropy",
        description="of the network's answers: binary_cross_entropy asks a yes or no of each class, mse wants a 1 for "
        "the true class and a 0 for the others",
    )
    label_smoothing: float = Field(default=0.0, ge=0, lt=1, description="of both cross-entropies")
    optimizer: Optimizer = Field(default_factory=Optimizer)
    learning_rate: float = Field(gt=0)
    schedule: Schedule = Field(default_factory=Schedule)
    batch_size: int = Field(ge=1, le=MAX_BATCH)
    epochs: int = Field(ge=1, le=MAX_EPOCHS)
    seed: int = Field(default=0, ge=0, lt=1 << 31)
    weights: Literal["own", "shared"] = "own"  # "shared" gives all sides the same initial file
    order: Literal["shared", "own"] = "shared"
    augmentation: Augmentation = "none"
    precision: Literal["float32", "tf32", "bfloat16", "float64"] = "float32"
    # Fixes single ones in either mode, not in a network that a library ships.
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
        smoothing = Semantics(smoothing="uniform") if self.label_smoothing else Semantics()
        rates = Semantics()
        if self.schedule.varies:
            rates = Semantics(schedule_unit="step", warmup_start=0.0, momentum_rate="current")
        return self.semantics.over(_aligned_update(self.optimizer)).over(smoothing).over(rates).over(ALIGNED)

    @property
    def features(self) -> frozenset[str]:
        """What a trainer must know beyond sgd, adam and cross-entropy."""
        switched = {
            "nesterov": self.optimizer.nesterov,
            "label_smoothing": self.label_smoothing,
            "warmup": self.schedule.warmup,
        }
        asked = {
            self.optimizer.name,
            self.loss,
            self.schedule.name,
            *(name for name, wanted in switched.items() if wanted),
        }
        return FEATURES & asked

    @model_serializer(mode="wrap")
    def _as_before(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Recipes that use nothing of what came later are written as they were before, and so keep their keys."""
        written: dict[str, Any] = handler(self)
        later = {"label_smoothing": self.label_smoothing, "schedule": self.schedule != Schedule()}
        return {name: value for name, value in written.items() if later.get(name, True)}

    @model_validator(mode="after")
    def _schedule_fits(self) -> Self:
        if self.schedule.warmup and self.schedule.warmup >= (self.schedule.epochs or self.epochs):
            raise ValueError("the schedule's warmup takes all epochs: it must end before them")
        return self

    @model_validator(mode="after")
    def _smoothing_needs_an_entropy(self) -> Self:
        if self.label_smoothing and self.loss == "mse":
            raise ValueError("mse has no label_smoothing: it belongs to the cross-entropies")
        return self

    @model_validator(mode="after")
    def _shared_needs_one_definition(self) -> Self:
        if self.shipped and self.weights == "shared":
            raise ValueError("weights cannot be shared between networks as the libraries ship them: use mode: aligned")
        if self.shipped and self.semantics != Semantics():
            raise ValueError("a network as its library ships it has its own semantics: use mode: aligned")
        return self


def _aligned_update(optimizer: Optimizer) -> Semantics:
    """What "aligned" fixes of an update, as far as the optimizer has it: the others keep their keys."""
    values: dict[str, Any] = {}
    if optimizer.weight_decay:
        values["weight_decay"] = "decoupled" if optimizer.name in ("adamw", "lion") else "coupled"
    if optimizer.name in ("rmsprop", "adagrad"):
        values |= {"root_rule": "outside", "root_epsilon": 1e-8}
    if optimizer.name == "rmsprop":
        values["rmsprop_rho"] = 0.9
    if optimizer.name == "adagrad":
        values["adagrad_start"] = 0.0
    return Semantics(**values)
