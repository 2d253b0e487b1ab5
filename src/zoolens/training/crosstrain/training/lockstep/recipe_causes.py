"""Which semantic makes a side part from the reference: named where one that differs touches the quantity, proved by a
reference with that semantic switched."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from zoolens.base.numerics.deviation import deviation
from zoolens.training.crosstrain.training.lockstep.course import Course, LockstepRun
from zoolens.training.crosstrain.training.lockstep.floors import floors
from zoolens.training.crosstrain.training.lockstep.quantities import QuantityRow
from zoolens.training.crosstrain.training.network import Network
from zoolens.training.pairs.lockstep.quantities import Key, key_of
from zoolens.training.pairs.semantics import Semantics

# A setting of a layer -> the semantic that decides it.
_DECIDED: Final = {
    "stride": "stride", "padding": "padding", "epsilon": "norm_epsilon", "momentum": "norm_momentum",
    "rate": "dropout",
}  # fmt: skip
# Kind of quantity -> the settings of its own layer that show in it before anything else.
_TOUCHED: Final[Mapping[str, tuple[str, ...]]] = {
    "activation": ("stride", "padding", "epsilon", "rate"),
    "statistic": ("momentum",),
}
_ROOT: Final = ("root_rule", "root_epsilon", "rmsprop_rho", "adagrad_start")
_RATES: Final = ("schedule_unit", "warmup_start", "momentum_rate")
# Kind of quantity that an update makes -> the semantics that show in it.
_UPDATED: Final[Mapping[str, tuple[str, ...]]] = {
    "first": ("weight_decay", *_ROOT, *_RATES),
    "second": ("weight_decay", "rmsprop_rho", "adagrad_start"),
    "average": ("weight_decay", "rmsprop_rho"),
    "tensor": ("adam_rule", "adam_epsilon", "weight_decay", *_ROOT, *_RATES),
}
# Kind of quantity that the loss makes -> the semantics that show in it, whatever the layer.
_LOST: Final[Mapping[str, tuple[str, ...]]] = {"loss": ("smoothing",), "gradient": ("smoothing", "reduction")}
_CORRECTION: Final = 1e-4  # relative: four digits of 1 − 0.999 are lost in float32, and a root halves that
_SILENT: Final = ("init", "bias_init", "norm_momentum")  # change nothing that a later step is computed from


@dataclass(frozen=True)
class LockstepCause:
    """`semantics`: those that could do it; none: unexplained, or no semantic. `confirmed`: with the side's values of
    them, the reference computes what the side did, but for rounding; or the definition shows it."""

    sentence: str
    semantics: tuple[str, ...] = ()
    confirmed: bool = False


def find_cause(
    course: Course,
    reference: LockstepRun,
    side: LockstepRun,
    label: str,
    row: QuantityRow,
    keys: Sequence[Key] | None = None,
) -> LockstepCause:
    """`keys`: the quantities whose floors the comparison needs, which are measured together; None: that of the row."""
    precision = course.recipe.precision
    if precision in ("tf32", "bfloat16") and all(side.why in ("value", "not finite") for side in row.sides):
        return LockstepCause(f"the recipe computes in {precision}, and the floor is that of float32")
    suspects = _suspects(course, reference.semantics, side.semantics, row)
    if not suspects:
        counted = _counts_otherwise(course, reference, side, row)
        explanation = (
            f"{label} keeps the variance that divides by n, {course.reference.name} the one that divides by n − 1"
        )
        return (
            LockstepCause(explanation, confirmed=True) if counted else LockstepCause(_unexplained(reference, side, row))
        )
    if row.kind == "definition":
        return LockstepCause(_differ(reference, side, suspects, label), suspects, confirmed=True)
    for tried in dict.fromkeys([*((name,) for name in suspects), suspects]):
        if _agrees(course, reference, side, tried, row, keys or [(row.kind, row.name)]):
            sentence = f"{_differ(reference, side, tried, label)}; with that, the reference agrees"
            return LockstepCause(sentence, tried, confirmed=True)
    sentence = f"unexplained: {_differ(reference, side, suspects, label)}, but with that the reference still differs"
    return LockstepCause(sentence, suspects)


def _unexplained(reference: LockstepRun, side: LockstepRun, row: QuantityRow) -> str:
    text = "unexplained: no semantic that touches it differs"
    exact, computed, key = reference.at(row.step), side.at(row.step), key_of(row.kind, row.name)
    if exact is None or computed is None or row.kind != "tensor" or side.semantics.adam_rule != "inside":
        return text
    if deviation(computed[key], exact[key]).error < _CORRECTION:
        return f"{text}; Keras' Adam computes 1 − β₂^t in single precision, which may be it in the first steps"
    return text


def _suspects(course: Course, reference: Semantics, side: Semantics, row: QuantityRow) -> tuple[str, ...]:
    """Returns the semantics that show in this quantity first; after the first step also what may have grown unseen."""
    differing = reference.differing(side)
    if row.kind == "definition":
        touching = {"conv_bias"} if row.name.endswith(".bias") else {"dropout"}
    elif row.kind in _UPDATED:
        touching = set(_UPDATED[row.kind])
    elif row.kind in _LOST:
        touching = set(_LOST[row.kind])
    else:
        layers = _layer(course.network(reference), row.layer), _layer(course.network(side), row.layer)
        settings = _TOUCHED.get(row.kind, ())
        touching = {_DECIDED[setting] for setting in settings if layers[0].get(setting) != layers[1].get(setting)}
    direct = tuple(name for name in differing if name in touching)
    if direct or row.step == 1 or row.kind == "definition":
        return direct
    return tuple(name for name in differing if name not in _SILENT)


def _layer(network: Network, name: str) -> Mapping[str, Any]:
    return next((layer.settings for layer in network.layers if layer.name == name), {})


def _agrees(
    course: Course,
    reference: LockstepRun,
    side: LockstepRun,
    tried: tuple[str, ...],
    row: QuantityRow,
    keys: Sequence[Key],
) -> bool:
    """Within a floor of its own: other semantics amplify rounding otherwise."""
    switched = reference.semantics.model_copy(update={name: getattr(side.semantics, name) for name in tried})
    alone = replace(course, steps=(row.step,))
    exact = alone.run_reference(switched)
    floor = floors(alone, exact, keys)[row.step][row.kind, row.name]
    expected, computed, key = exact.at(row.step), side.at(row.step), key_of(row.kind, row.name)
    return bool(expected and computed and deviation(computed[key], expected[key]).error <= floor < 1)


def _counts_otherwise(course: Course, reference: LockstepRun, side: LockstepRun, row: QuantityRow) -> bool:
    """Whether a norm's variance is what the reference's would be, had it divided by n: no semantic, yet a difference.
    All batches are taken to be full."""
    momentum = reference.semantics.norm_momentum
    exact, computed = reference.at(row.step), side.at(row.step)
    if not row.name.endswith(".variance") or momentum is None or exact is None or computed is None:
        return False
    shape = next(layer.shape for layer in reference.network.layers if layer.name == row.layer)
    count = min(course.recipe.batch_size, course.samples) * math.prod(shape[1:])
    key, faded = key_of(row.kind, row.name), 1 - momentum**row.step  # the first variance was 1
    expected = (exact[key] + faded) * (count - 1) / count - faded
    return deviation(computed[key], expected).error <= row.floor


def _differ(reference: LockstepRun, side: LockstepRun, names: tuple[str, ...], label: str) -> str:
    values = {name: (reference.semantics.value(name), side.semantics.value(name)) for name in names}
    return " and ".join(
        f"{name} is {ours} in the reference and {own} in {label}" for name, (ours, own) in values.items()
    )
