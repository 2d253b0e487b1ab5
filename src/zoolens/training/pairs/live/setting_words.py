"""What settings of live objects, and differences between two of them, are called in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from zoolens.training.pairs.live.differences import RATES, RULE, SettingDifference, equal_rates
from zoolens.training.pairs.live.live_training import SETTINGS, Setting

# What a setting is called in sentences; others are called by their names.
_NAMES: Final = {
    "optimizer.rule": "the optimizer",
    "optimizer.learning_rate": "the learning rate",
    "optimizer.momentum": "the momentum",
    "optimizer.momentum_rate": "the learning rate in the momentum",
    "optimizer.dampening": "the dampening of the momentum",
    "optimizer.nesterov": "Nesterov's momentum",
    "optimizer.beta1": "Adam's beta1",
    "optimizer.beta2": "Adam's beta2",
    "optimizer.epsilon": "the optimizer's epsilon",
    "optimizer.epsilon_place": "the place of the optimizer's epsilon",
    "optimizer.accumulation": "the number of steps whose gradients are accumulated",
    "optimizer.weight_decay": "the weight decay",
    "optimizer.decay_kind": "the kind of weight decay",
    "optimizer.rho": "the share of the mean square that RMSprop keeps",
    "optimizer.varied": "what differs between groups of parameters",
    "optimizer.maximize": "whether the optimizer goes up the gradient",
    "optimizer.rate_decay": "the decay of Adagrad's learning rate",
    "optimizer.average": "the moving average of the weights",
    "optimizer.untrained": "the number of learned tensors that the optimizer does not have",
    "optimizer.trained": "the number of trained numbers",
    "schedule.name": "the schedule",
    "schedule.unit": "the unit of the schedule",
    "schedule.rates": "the learning rate of each step",
    "loss.name": "the loss",
    "loss.reduction": "the loss' reduction",
    "loss.smoothing": "the label smoothing",
    "loss.from_logits": "whether the loss takes scores, not probabilities,",
    "loss.weights": "the weighting of classes in the loss",
    "loss.positive_weight": "the weight of right answers in the loss",
    "loss.scale": "the factor of the loss",
    "loss.constants": "what else the loss has",
    "regularisation": "the regularisation",
    "constraint": "the constraint of tensors after a step",
    "clip.norm": "the clipping of all gradients together",
    "clip.tensor_norm": "the clipping of each tensor's gradient",
    "clip.value": "the clipping of a gradient's values",
    "padding": "the padding of windows",
    "norm.kept": "the share of the old statistics that a norm keeps",
    "norm.epsilon": "the norms' epsilon",
    "norm.divisor": "what the norms' running variance divides by",
    "norm.frozen": "the number of norms that stay as in evaluation",
    "embedding.padding": "the row of an embedding that is not trained",
    "recurrent.biases": "the number of learned biases that add up in a gate of a recurrent layer",
    "dropout.rate": "the rate of dropout",
}

# What a value is called in sentences, where its own name says too little.
_TOLD: Final[Mapping[tuple[str, Setting], str]] = {
    ("optimizer.momentum_rate", "current"): "that of the current step",
    ("optimizer.momentum_rate", "past"): "that of the step at which each gradient came",
}


def difference_words(difference: SettingDifference) -> str:
    """A setting that differs, in words; of rates those from the first on that differs."""
    if difference.name == RATES and isinstance(difference.a, tuple) and isinstance(difference.b, tuple):
        first = equal_rates(difference.a, difference.b)
        rates = value_words(difference.a[first:]), value_words(difference.b[first:])
        return f"the learning rate from step {first + 1} on is {rates[0]} in A and {rates[1]} in B"
    ours, theirs = (value_words(_TOLD.get((difference.name, value), value)) for value in (difference.a, difference.b))
    return f"{setting_words(difference.name)} is {ours} in A and {theirs} in B"


def setting_words(name: str) -> str:
    """What a setting is called in sentences."""
    return _NAMES.get(name, name if name in SETTINGS else name.replace("_", " "))


def value_words(value: Setting) -> str:
    if value is None:
        return "not known"
    if isinstance(value, tuple):
        return ", ".join(value_words(part) for part in value[:6]) + (" …" if len(value) > 6 else "")
    return str(value) if isinstance(value, bool | str | int) else f"{value:.6g}"


def unread_words(names: Sequence[str]) -> list[str]:
    """What settings are called that could not be read. An optimizer whose rule is not known is one thing."""
    if RULE not in names:
        return [setting_words(name).rstrip(",") for name in names]
    others = [name for name in names if not name.startswith(("optimizer.", "schedule.", "clip."))]
    return ["the optimizer with its constants, schedule and clipping", *unread_words(others)]
