"""What frameworks decide silently. Each may be fixed for both sides or for one: `explain` switches them one by one."""

from __future__ import annotations

import math
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

Init = Literal[
    "glorot_uniform", "kaiming_normal", "kaiming_normal_in", "kaiming_uniform", "lecun_uniform", "torch_uniform"
]


class Semantics(BaseModel):
    """What frameworks decide silently. What is None is left to the framework, which is what people do and where the
    frameworks part.

    A trainer reports what it resolved every None to, read from the live objects.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    norm_momentum: float | None = Field(default=None, ge=0, le=1, description="share of the old statistics kept")
    norm_epsilon: float | None = Field(default=None, gt=0)
    init: Init | None = Field(
        default=None,
        description="of kernels; kaiming_normal takes the fan out, kaiming_normal_in the fan in, torch_uniform is what "
        "torch's layers do: ±1/√(fan in)",
    )
    bias_init: Literal["zeros", "uniform"] | None = Field(default=None, description="uniform: ±1/√(fan in)")
    conv_bias: bool | None = Field(default=None, description="of convolutions before a norm")
    dropout: float | None = Field(default=None, ge=0, lt=1)
    stride: Literal["1x1", "3x3"] | None = Field(default=None, description="of a bottleneck: which layer has it")
    padding: Literal["symmetric", "same"] | None = Field(
        default=None, description="of strided layers: same pads bottom and right"
    )
    adam_rule: Literal["outside", "inside"] | None = Field(
        default=None,
        description="outside adds epsilon to the corrected root (torch), inside to the uncorrected one (TensorFlow, "
        "Keras), which makes it act larger in the first steps",
    )
    adam_epsilon: float | None = Field(default=None, ge=0, description="where the recipe's optimizer gives none")
    weight_decay: Literal["coupled", "decoupled", "independent"] | None = Field(
        default=None,
        description="coupled adds it to the gradient (torch), decoupled takes rate·decay·value from the value at every "
        "step (Keras, AdamW of both), independent takes decay·value, whatever the learning rate, and only a "
        "schedule's share of it (as the authors of AdamW write it); only where the recipe has a weight decay",
    )
    root_rule: Literal["outside", "under"] | None = Field(
        default=None,
        description="of RMSprop and Adagrad: epsilon is added to the root (outside: torch), or under it (Keras), where "
        "1e-7 acts like 3e-4 beside the root",
    )
    root_epsilon: float | None = Field(
        default=None, ge=0, description="of RMSprop and Adagrad, where the recipe's optimizer gives none"
    )
    rmsprop_rho: float | None = Field(
        default=None, ge=0, lt=1, description="of RMSprop: share of the old mean square that a step keeps"
    )
    adagrad_start: float | None = Field(
        default=None, ge=0, description="of Adagrad: what the sum of squared gradients begins with"
    )

    smoothing: Literal["uniform", "others"] | None = Field(
        default=None,
        description="where the recipe smooths labels: uniform spreads it over all classes (torch, Keras), others over "
        "the wrong ones alone; of a binary loss, the classes are yes and no",
    )
    reduction: Literal["mean", "sum"] | None = Field(
        default=None,
        description="of the samples' losses in a batch, for the gradient; what is reported is always the mean. None is "
        "the mean, which is what the frameworks' losses do",
    )

    schedule_unit: Literal["step", "epoch"] | None = Field(
        default=None,
        description="where the recipe's schedule changes the rate: at every step (Keras' schedules), or once an epoch "
        "(torch's schedulers as they are mostly used)",
    )
    warmup_start: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="share of the rate with which a warm-up begins: 1/3 in torch's LinearLR, mostly 0 in Keras",
    )
    momentum_rate: Literal["current", "past"] | None = Field(
        default=None,
        description="where the rate changes and there is momentum: all of it moves at the current rate (torch), or "
        "each gradient at the rate of its own step (Keras)",
    )

    @model_serializer(mode="wrap")
    def _as_before(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Trainings are written as they were before a semantic had a name, where it is None, and so keep their keys."""
        written: dict[str, Any] = handler(self)
        return {name: value for name, value in written.items() if name in _FIRST or value is not None}

    def over(self, other: Semantics) -> Semantics:
        """These where they are set, the other's elsewhere."""
        mine = {key: value for key, value in self.model_dump().items() if value is not None}
        return Semantics(**{**other.model_dump(), **mine})

    def value(self, name: str) -> Any:
        """Returns the value of a semantic; where nobody names a reduction, it is the mean."""
        own = getattr(self, name)
        return "mean" if own is None and name == "reduction" else own

    def differing(self, other: Semantics) -> tuple[str, ...]:
        """Names of what both sides have and have differently."""
        pairs = ((name, self.value(name), other.value(name)) for name in type(self).model_fields)
        return tuple(name for name, ours, theirs in pairs if None not in (ours, theirs) and not _same(ours, theirs))


# Semantics that are written also where they are None: they were there when the first trainings were filed.
_FIRST: Final = frozenset(
    {
        "norm_momentum", "norm_epsilon", "init", "bias_init", "conv_bias", "dropout", "stride", "padding", "adam_rule",
        "adam_epsilon",
    }
)  # fmt: skip


def _same(value: Any, other: Any) -> bool:
    """Equal, up to the rounding of 1 − (1 − x)."""
    if isinstance(value, float) and isinstance(other, float):
        return math.isclose(value, other, rel_tol=1e-9, abs_tol=1e-12)
    return bool(value == other)


# What the layers of most frameworks have where nobody says otherwise, as far as it decides which tensors there are.
USUAL: Final = Semantics(conv_bias=True, dropout=0.0, stride="3x3", padding="symmetric")
# What "aligned" fixes unless the recipe says otherwise.
ALIGNED: Final = Semantics(
    norm_momentum=0.9,
    norm_epsilon=1e-5,
    init="kaiming_uniform",
    bias_init="zeros",
    conv_bias=False,
    dropout=0.0,
    stride="3x3",
    padding="symmetric",
    adam_rule="outside",
    adam_epsilon=1e-8,
)
