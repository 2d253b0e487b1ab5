"""What of a JAX function, its optimizer and its loss decides about training: measured, since functions show nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zoolens.training.pairs.live.differences import MOMENTUM_RATE
from zoolens.training.pairs.live.jax.jax_training import JaxTraining
from zoolens.training.pairs.live.live_training import SETTINGS, Setting
from zoolens.training.pairs.live.shared_settings import together, varied_words
from zoolens.training.pairs.optimizers.rule_fit import FittedOptimizer
from zoolens.training.pairs.optimizers.update_rules import CONSTANTS

SCHEDULE = "a function of the step"


def settings(training: JaxTraining) -> dict[str, Setting]:
    """Reads the settings by the names of `live_training.SETTINGS`."""
    regularisation = training.objects.regularisation
    return {
        **_optimizer(training),
        "optimizer.trained": training.trained_numbers(),
        **_loss(training),
        "regularisation": "none" if regularisation is None else function_name(regularisation),
        "precision": training.live.dtype(),
        **_layers(training),
        "jax.statistics": training.statistics,
    }


def _layers(training: JaxTraining) -> dict[str, Setting]:
    """Reads the layers of a module of flax.nnx or Equinox, whose norms divide by n; the layers of a function show
    nothing."""
    if training.mode is None:
        return {"jax.layers": None}
    settings: dict[str, Setting] = {}
    norms = training.mode.norms()
    if norms:
        settings["norm.kept"], settings["norm.epsilon"] = (together(several) for several in zip(*norms, strict=True))
        settings["norm.divisor"] = "n"
    rates = training.mode.dropout()
    return settings | ({"dropout.rate": tuple(rates)} if rates else {})


def _optimizer(training: JaxTraining) -> dict[str, Setting]:
    measured = training.measured_optimizer()
    if measured.fit is None:
        parts = ("optimizer.", "schedule.", "clip.")
        unknown: dict[str, Setting] = dict.fromkeys(name for name in SETTINGS if name.startswith(parts))
        return unknown | {"optimizer.untrained": 0, "jax.optimizer": measured.why}
    fit = measured.fit
    told = rule_settings(fit, training.trained_sizes())
    decays = [rule.weight_decay for rule in fit.rules]
    tensors = tuple(zip(training.trained_names(), fit.shares, decays, strict=True))
    return {
        **told,
        **({"optimizer.tensors": tensors} if "optimizer.varied" in told else {}),
        "optimizer.learning_rate": measured.rate(training.count),
        "optimizer.untrained": sum(not share for share in fit.shares),
        "schedule.name": SCHEDULE if measured.scheduled else "none",
        **({"schedule.unit": "step"} if measured.scheduled else {}),
    }


def rule_settings(fit: FittedOptimizer, sizes: Sequence[int]) -> dict[str, Setting]:
    """Returns the settings of the first tensor's rule with the largest weight decay, since a tensor that is spared may
    come first, and which constants other tensors have differently. `sizes`: numbers of each tensor."""
    rule = fit.rules[0]
    settings: dict[str, Setting] = {"optimizer.rule": rule.name, "optimizer.learning_rate": rule.learning_rate}
    settings |= {f"optimizer.{name}": getattr(rule, name) for name in CONSTANTS[rule.name]}
    if rule.momentum:
        settings[MOMENTUM_RATE] = rule.momentum_rate
    if "epsilon" in CONSTANTS[rule.name]:
        settings["optimizer.epsilon_place"] = rule.epsilon_place
    decayed = max(fit.rules, key=lambda tensor_rule: tensor_rule.weight_decay)
    settings["optimizer.weight_decay"] = decayed.weight_decay
    settings["optimizer.decay_kind"] = decayed.decay_kind if decayed.weight_decay else "none"
    settings["optimizer.accumulation"] = fit.accumulation
    varied = varied_words(
        {
            "rule" if name == "name" else name: [
                # a tensor without a decay has no kind of it
                (getattr(tensor_rule if name != "decay_kind" or tensor_rule.weight_decay else decayed, name), size)
                for tensor_rule, size in zip(fit.rules, sizes, strict=True)
            ]
            for name in vars(rule)
        }
    )
    if varied:
        settings["optimizer.varied"] = varied
    for name in ("norm", "tensor_norm", "value"):
        size = getattr(fit.clipping, name)
        settings[f"clip.{name}"] = "none" if size is None else size
    return settings


def _loss(training: JaxTraining) -> dict[str, Setting]:
    fit = training.measured_loss()
    if fit is not None:
        return fit.settings()
    name = function_name(training.objects.loss)
    return {"loss.name": name, "loss.reduction": None, "loss.smoothing": None, "loss.from_logits": None}


def function_name(function: Any) -> str:
    """The name of a function, or the class of what can be called like one."""
    return str(getattr(function, "__name__", type(function).__name__))
