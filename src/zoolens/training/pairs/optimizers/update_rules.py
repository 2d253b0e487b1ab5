"""The update rules of optimizers as arithmetic of arrays, for numpy and for what computes like it (jax.numpy).

They predict what an optimizer does whose rule was measured, and stand in for it where one of its constants is to be
another one. The place of epsilon: "outside" is beside the root (in Adam, beside the corrected one), "inside" is beside
Adam's uncorrected root, and "under" is under the root.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

Name = Literal["sgd", "adam", "rmsprop", "adagrad", "lion"]
Slots = Mapping[str, Any]  # "first" and "second" moments of one tensor; the names are those of captured steps


@dataclass(frozen=True)
class UpdateRule:
    """The update rule of one tensor. Constants that the named rule does not have are not used. `momentum_rate`: "past"
    keeps the learning rate of each gradient's own step in the momentum, as Keras does."""

    name: Name
    learning_rate: float
    momentum: float = 0.0
    momentum_rate: Literal["current", "past"] = "current"
    nesterov: bool = False
    beta1: float = 0.0
    beta2: float = 0.0
    epsilon: float = 0.0
    epsilon_place: Literal["outside", "inside", "under"] = "outside"
    rho: float = 0.0
    initial_accumulator: float = 0.0
    weight_decay: float = 0.0
    decay_kind: Literal["none", "coupled", "decoupled"] = "none"


@dataclass(frozen=True)
class Clipping:
    """The largest norm of all gradients together, of each tensor's gradient, and the largest absolute value."""

    norm: float | None = None
    tensor_norm: float | None = None
    value: float | None = None


CONSTANTS: Final[Mapping[Name, tuple[str, ...]]] = {
    "sgd": ("momentum", "nesterov"),
    "adam": ("beta1", "beta2", "epsilon"),
    "rmsprop": ("rho", "epsilon", "momentum"),
    "adagrad": ("initial_accumulator", "epsilon"),
    "lion": ("beta1", "beta2"),
}  # beside the learning rate and the weight decay, which all have


def empty_slots(rule: UpdateRule, value: Any, xp: Any) -> Slots:
    """What an optimizer keeps of a tensor before its first step."""
    start = rule.initial_accumulator if rule.name == "adagrad" else 0.0
    return {"first": xp.zeros_like(value), "second": xp.full_like(value, start)}


def updated(
    rule: UpdateRule, gradient: Any, slots: Slots, value: Any, *, step: Any, rate: Any, xp: Any
) -> tuple[Any, Slots]:
    """What is added to a tensor at this step, which is counted from 1, and the slots after it."""
    decayed = rule.weight_decay if rule.decay_kind != "none" else 0.0
    if rule.decay_kind == "coupled":
        gradient = gradient + decayed * value
    direction, slots = _RULES[rule.name](rule, gradient, slots, step, rate, xp)
    past = bool(rule.momentum) and rule.momentum_rate == "past"
    move = direction if past else rate * direction
    if rule.decay_kind == "decoupled":
        move = move + rate * decayed * value
    return -move, slots


def clipped(clipping: Clipping, gradients: Sequence[Any], xp: Any) -> list[Any]:
    """The gradients of all tensors, after clipping."""
    after = list(gradients)
    if clipping.value is not None:
        after = [xp.clip(gradient, -clipping.value, clipping.value) for gradient in after]
    if clipping.tensor_norm is not None:
        after = [_shortened([gradient], clipping.tensor_norm, xp)[0] for gradient in after]
    return after if clipping.norm is None else _shortened(after, clipping.norm, xp)


def _shortened(gradients: Sequence[Any], most: float, xp: Any) -> list[Any]:
    norm = xp.sqrt(sum((gradient * gradient).sum() for gradient in gradients))
    factor = xp.where(norm > most, most / xp.where(norm > 0, norm, 1), 1.0)
    return [gradient * factor for gradient in gradients]


def _sgd(rule: UpdateRule, gradient: Any, slots: Slots, _step: Any, rate: Any, _xp: Any) -> tuple[Any, Slots]:
    if not rule.momentum:
        return gradient, slots
    if rule.momentum_rate == "past":
        gradient = rate * gradient
    first = rule.momentum * slots["first"] + gradient
    return (gradient + rule.momentum * first if rule.nesterov else first), {**slots, "first": first}


def _adam(rule: UpdateRule, gradient: Any, slots: Slots, step: Any, _rate: Any, xp: Any) -> tuple[Any, Slots]:
    first = rule.beta1 * slots["first"] + (1 - rule.beta1) * gradient
    second = rule.beta2 * slots["second"] + (1 - rule.beta2) * gradient * gradient
    corrected, correction = first / (1 - rule.beta1**step), 1 - rule.beta2**step
    if rule.epsilon_place == "inside":
        root = (xp.sqrt(second) + rule.epsilon) / correction**0.5
    else:
        root = _root(rule, second / correction, xp)
    return _divided(corrected, root, xp), {"first": first, "second": second}


def _rmsprop(rule: UpdateRule, gradient: Any, slots: Slots, _step: Any, rate: Any, xp: Any) -> tuple[Any, Slots]:
    second = rule.rho * slots["second"] + (1 - rule.rho) * gradient * gradient
    direction = _divided(gradient, _root(rule, second, xp), xp)
    if not rule.momentum:
        return direction, {**slots, "second": second}
    if rule.momentum_rate == "past":
        direction = rate * direction
    first = rule.momentum * slots["first"] + direction
    return first, {"first": first, "second": second}


def _adagrad(rule: UpdateRule, gradient: Any, slots: Slots, _step: Any, _rate: Any, xp: Any) -> tuple[Any, Slots]:
    second = slots["second"] + gradient * gradient
    return _divided(gradient, _root(rule, second, xp), xp), {**slots, "second": second}


def _lion(rule: UpdateRule, gradient: Any, slots: Slots, _step: Any, _rate: Any, xp: Any) -> tuple[Any, Slots]:
    direction = xp.sign(rule.beta1 * slots["first"] + (1 - rule.beta1) * gradient)
    return direction, {**slots, "first": rule.beta2 * slots["first"] + (1 - rule.beta2) * gradient}


def _root(rule: UpdateRule, square: Any, xp: Any) -> Any:
    return xp.sqrt(square + rule.epsilon) if rule.epsilon_place == "under" else xp.sqrt(square) + rule.epsilon


def _divided(number: Any, root: Any, xp: Any) -> Any:
    """A gradient that was 0 all along moves nothing, also without an epsilon."""
    return xp.where(root > 0, number / xp.where(root > 0, root, 1), 0.0)


_RULES: Final[Mapping[str, Callable[[UpdateRule, Any, Slots, Any, Any, Any], tuple[Any, Slots]]]] = {
    "sgd": _sgd, "adam": _adam, "rmsprop": _rmsprop, "adagrad": _adagrad, "lion": _lion,
}  # fmt: skip
