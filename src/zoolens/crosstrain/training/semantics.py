"""What frameworks decide silently. Each may be fixed for both sides or for one: `explain` switches them one by one."""

from __future__ import annotations

import math
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

Init = Literal[
    "glorot_uniform", "kaiming_normal", "kaiming_normal_in", "kaiming_uniform", "lecun_uniform", "torch_uniform"
]


class Semantics(BaseModel):
    """None is left to the framework, which is what people do and where the frameworks part.

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
    weight_decay: Literal["coupled", "decoupled"] | None = Field(
        default=None,
        description="coupled adds it to the gradient (torch), decoupled takes rate·decay·value from the value at every "
        "step (Keras); only where the recipe has a weight decay",
    )

    @model_serializer(mode="wrap")
    def _as_before(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Trainings without weight decay are written as they were before it had a name, and so keep their keys."""
        found: dict[str, Any] = handler(self)
        if found.get("weight_decay") is None:
            found.pop("weight_decay", None)
        return found

    def over(self, other: Semantics) -> Semantics:
        """These where they are set, the other's elsewhere."""
        mine = {key: value for key, value in self.model_dump().items() if value is not None}
        return Semantics(**{**other.model_dump(), **mine})

    def differing(self, other: Semantics) -> tuple[str, ...]:
        """Names of what both sides have and have differently."""
        pairs = ((name, getattr(self, name), getattr(other, name)) for name in type(self).model_fields)
        return tuple(name for name, ours, theirs in pairs if None not in (ours, theirs) and not _same(ours, theirs))


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
