"""How settings of a JAX side's optimizer and loss are changed: functions that do what was measured take their place.

An optimizer or a loss whose rule no measurement told stays as it is, and the refusal says what was seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from zoolens.training.pairs.live.jax.jax_rules import RuleOptimizer
from zoolens.training.pairs.live.jax.jax_settings import function_name
from zoolens.training.pairs.live.jax.jax_training import JaxTraining
from zoolens.training.pairs.live.live_training import NotSwitchable, Switch
from zoolens.training.pairs.live.loss_fit import CROSS_ENTROPY, TWICE, FittedLoss
from zoolens.training.pairs.optimizers.rule_fit import FittedOptimizer
from zoolens.training.pairs.optimizers.update_rules import CONSTANTS, UpdateRule

_CROSS_ENTROPIES: Final = (
    CROSS_ENTROPY, "CrossEntropyLoss", "SparseCategoricalCrossentropy", "CategoricalCrossentropy",
)  # fmt: skip


def _stand_in(training: JaxTraining) -> RuleOptimizer:
    """An optimizer that does what the present one does, as far as it was measured."""
    optimizer = training.objects.optimizer
    if isinstance(optimizer, RuleOptimizer):
        return optimizer
    measured = training.measured_optimizer()
    if measured.fit is None:
        raise NotSwitchable(f"The optimizer is a pair of functions whose rule is not known: {measured.why}.")
    schedule = (optimizer, measured.fit.rules[0]) if measured.scheduled else None
    return RuleOptimizer(measured.fit, measured.fit.rates[: None if schedule else 1], schedule)


def _with_fit(training: JaxTraining, change: Callable[[FittedOptimizer], FittedOptimizer]) -> None:
    stand_in = _stand_in(training)
    if stand_in.fit.accumulation > 1:
        raise NotSwitchable("The optimizer accumulates gradients, which its stand-in does not do.")
    training.objects.optimizer = replace(stand_in, fit=change(stand_in.fit))


def _constant(name: str) -> Switch:
    """A constant of the measured rule, for all tensors."""

    def change(training: JaxTraining, value: Any) -> None:
        rule = _stand_in(training).fit.rules[0]
        if name not in CONSTANTS[rule.name] and value:
            raise NotSwitchable(f"The rule of the optimizer was measured as {rule.name}, which has no {name}.")
        changes = {name: value}
        _with_fit(training, lambda fit: replace(fit, rules=tuple(replace(fitted, **changes) for fitted in fit.rules)))

    return change


def _weight_decay(training: JaxTraining, value: float) -> None:
    """Tensors keep their proportions, so that one that is spared stays so."""
    rules = _stand_in(training).fit.rules
    own: list[float] = training.__dict__.setdefault("own_decays", [rule.weight_decay for rule in rules])
    decays = [value * (decay / max(own) if max(own) else 1.0) for decay in own]
    kinds: dict[str, Any] = {"none": "coupled"}  # the kind is a setting of its own
    changed = tuple(
        replace(rule, weight_decay=decay, decay_kind=kinds.get(rule.decay_kind, rule.decay_kind))
        for rule, decay in zip(rules, decays, strict=True)
    )
    _with_fit(training, lambda fit: replace(fit, rules=changed))


def _rule(training: JaxTraining, value: Any) -> None:
    """Another rule for all tensors, without any constants yet; learning rate, weight decay and clipping stay."""
    name: Any = "adam" if value == "adamw" else value
    if name not in CONSTANTS:
        raise NotSwitchable(f"A rule {value} is not done for JAX.")

    def changed(rule: UpdateRule) -> UpdateRule:
        return UpdateRule(name, rule.learning_rate, weight_decay=rule.weight_decay, decay_kind=rule.decay_kind)

    _with_fit(training, lambda fit: replace(fit, rules=tuple(changed(fitted) for fitted in fit.rules)))


def _momentum_rate(training: JaxTraining, value: Any) -> None:
    if value not in ("current", "past"):
        raise NotSwitchable("The other side has no momentum.")
    _with_fit(training, lambda fit: replace(fit, rules=tuple(replace(rule, momentum_rate=value) for rule in fit.rules)))


def _dampening(training: JaxTraining, value: Any) -> None:
    if value:
        raise NotSwitchable("A dampening of the momentum is not done for JAX.")


def _decay_kind(training: JaxTraining, value: Any) -> None:
    if value == "none":  # its size is 0 then, and has a setting of its own
        return
    if value not in ("coupled", "decoupled"):
        raise NotSwitchable(f"A weight decay that is {value} is not done for JAX.")
    _with_fit(training, lambda fit: replace(fit, rules=tuple(replace(rule, decay_kind=value) for rule in fit.rules)))


def _epsilon_place(training: JaxTraining, value: Any) -> None:
    rule = _stand_in(training).fit.rules[0]
    places = {"adam": ("outside", "inside", "under"), "rmsprop": ("outside", "under"), "adagrad": ("outside", "under")}
    if value not in places.get(rule.name, ()):
        raise NotSwitchable(f"The rule of the optimizer was measured as {rule.name}, without an epsilon {value}.")
    _with_fit(
        training, lambda fit: replace(fit, rules=tuple(replace(fitted, epsilon_place=value) for fitted in fit.rules))
    )


def _learning_rate(training: JaxTraining, value: float) -> None:
    """A schedule keeps its proportions."""
    stand_in = _stand_in(training)
    now = training.measured_optimizer().rate(training.count)
    if not now:
        raise NotSwitchable("The learning rate is 0 now, so that a schedule on it has no scale.")
    _with_fit(training, lambda fit: fit)
    training.objects.optimizer = replace(stand_in, factor=stand_in.factor * value / now)


def _rates(training: JaxTraining, values: Sequence[float]) -> None:
    """The learning rate of each step; the last one stays."""
    _with_fit(training, lambda fit: fit)
    training.objects.optimizer = replace(_stand_in(training), rates=tuple(values), schedule=None, factor=1.0)


def _accumulation(training: JaxTraining, value: Any) -> None:
    stand_in = _stand_in(training)
    if value not in (1, stand_in.fit.accumulation):
        raise NotSwitchable("Gradients are not accumulated by the stand-in of a JAX optimizer.")
    training.objects.optimizer = replace(stand_in, fit=replace(stand_in.fit, accumulation=value))


def _clip(name: str) -> Switch:
    def change(training: JaxTraining, value: Any) -> None:
        changes = {name: None if value == "none" else value}
        _with_fit(training, lambda fit: replace(fit, clipping=replace(fit.clipping, **changes)))

    return change


@dataclass(frozen=True)
class MeasuredLoss:
    """A loss that computes what was measured."""

    fit: FittedLoss

    def __call__(self, answer: Any, target: Any) -> Any:
        import jax.numpy as jnp

        return self.fit.value(answer, target, jnp)


def _with_loss(training: JaxTraining, **changes: Any) -> None:
    fit = training.measured_loss()
    if fit is None:
        name = function_name(training.objects.loss)
        raise NotSwitchable(f"The loss {name} is a function of its own, which no known kind of loss predicts.")
    training.objects.loss = MeasuredLoss(replace(fit, **changes))


def _reduction(training: JaxTraining, value: Any) -> None:
    if value not in ("mean", "sum"):
        raise NotSwitchable(f"A reduction that is {value} is not done for JAX.")
    _with_loss(training, reduction=value, factor=1.0)


def _smoothing(training: JaxTraining, value: Any) -> None:
    _with_loss(training, smoothing=value)


def _from_logits(training: JaxTraining, value: Any) -> None:
    _with_loss(training, takes="scores" if value else "probabilities")


def _loss_name(training: JaxTraining, value: Any) -> None:
    fit = training.measured_loss()
    if fit is None or fit.settings()["loss.name"] != TWICE or value not in _CROSS_ENTROPIES:
        raise NotSwitchable("One kind of loss is not made another one.")
    _with_loss(training, takes="scores")


def _regularisation(training: JaxTraining, value: Any) -> None:
    kept: list[Any] = training.__dict__.setdefault("kept_regularisation", [training.objects.regularisation])
    if value != "none" and kept[0] is None:
        raise NotSwitchable("The regularisation is the user's own function, which the JAX side does not have.")
    training.objects.regularisation = None if value == "none" else kept[0]


def _dropout(training: JaxTraining, value: Any) -> None:
    mode = training.mode
    count = 0 if mode is None else len(mode.dropout())
    if mode is None or not count:
        raise NotSwitchable("The layers of a JAX function, of which dropout is one, cannot be changed.")
    rates = list(value) if isinstance(value, tuple) else [value] * count
    if len(rates) != count:
        raise NotSwitchable(f"There are {count} such layers, and values for {len(rates)}.")
    mode.set_dropout(rates)


_CONSTANTS: Final = ("momentum", "nesterov", "beta1", "beta2", "epsilon", "rho", "initial_accumulator")
SWITCHES: Final[Mapping[str, Switch]] = {
    **{f"optimizer.{name}": _constant(name) for name in _CONSTANTS},
    "optimizer.rule": _rule,
    "optimizer.momentum_rate": _momentum_rate,
    "optimizer.dampening": _dampening,
    "optimizer.learning_rate": _learning_rate,
    "optimizer.weight_decay": _weight_decay,
    "optimizer.decay_kind": _decay_kind,
    "optimizer.epsilon_place": _epsilon_place,
    "optimizer.accumulation": _accumulation,
    "schedule.rates": _rates,
    "loss.name": _loss_name,
    "loss.reduction": _reduction,
    "loss.smoothing": _smoothing,
    "loss.from_logits": _from_logits,
    "regularisation": _regularisation,
    "dropout.rate": _dropout,
    "clip.norm": _clip("norm"),
    "clip.tensor_norm": _clip("tensor_norm"),
    "clip.value": _clip("value"),
}
