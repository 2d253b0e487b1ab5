"""A lockstep of a port as lines for a terminal and as data for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from math import inf
from typing import Any, Final

from zoolens.graph.diff.phrases import plural
from zoolens.port.training.base import SETTINGS, Setting
from zoolens.port.training.causes import DepartureCause
from zoolens.port.training.departures import Departure
from zoolens.port.training.differences import RATES, SettingDifference, equal_rates
from zoolens.port.training.lockstep import MARGIN, Lockstep

_KINDS: Final = {
    "activation": "what the layer {name} answers",
    "output": "what the network answers",
    "statistic": "the statistic {name}",
    "loss": "the loss",
    "gradient": "the gradient of {name}",
    "first": "the optimizer's first moment of {name}",
    "second": "the optimizer's second moment of {name}",
    "average": "the optimizer's mean gradient of {name}",
    "tensor": "the tensor {name} after the update",
}
# What a setting is called in sentences; others are called by their names.
_NAMES: Final = {
    "optimizer.rule": "the optimizer",
    "optimizer.learning_rate": "the learning rate",
    "optimizer.momentum": "the momentum",
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
    "dropout.rate": "the rate of dropout",
}


def _layers(lockstep: Lockstep) -> str:
    if lockstep.layers:
        return f"answers of {plural(lockstep.layers, 'layer')} among them"
    return "but no answers of layers, which one of the sides does not show"


def lockstep_lines(lockstep: Lockstep) -> list[str]:
    """The verdict, each cause with its proof, and what a lockstep cannot see."""
    steps = ", ".join(map(str, lockstep.steps))
    lines = [
        f"Lockstep: the same first weights and batches; {lockstep.quantities:,} quantities compared "
        f"at {'steps' if len(lockstep.steps) > 1 else 'step'} {steps}, {_layers(lockstep)}."
    ]
    lines += (
        [f"  {lockstep.blind} of them tell nothing: rounding alone moves them by their size."] if lockstep.blind else []
    )
    if lockstep.lost is not None:
        lines.append(
            f"  The loss or a tensor of A is not finite at step {lockstep.lost}: from there on nothing is told."
        )
    if lockstep.without_dropout:
        lines.append("  Dropout was turned off on both sides, for each draws other numbers.")
    if lockstep.unlearned:
        lines.append(f"  Only one side learns {', '.join(lockstep.unlearned[:4])}{_more(lockstep.unlearned)}.")
    lines += _causes(lockstep)
    if lockstep.doubtful is not None:
        lines.append(
            f"Taken for rounding: {departure_words(lockstep.doubtful)}, and nothing explains it. Two frameworks may "
            "round a long sum otherwise by more than each does by itself; from there on all floors were "
            f"{MARGIN:g} times as wide."
        )
    suspected = {difference.name for cause in lockstep.causes for difference in cause.differences}
    unseen = [difference for difference in lockstep.unseen if difference.name not in suspected]
    if unseen:
        lines.append("Settings that differ and that no departure was traced to in these steps:")
        lines += [f"  {difference_words(difference)}" for difference in unseen if not _unknown(difference)]
        lines += _not_known(unseen)
    return lines


def _unknown(difference: SettingDifference) -> bool:
    return difference.a is None or difference.b is None


def _not_known(differences: Sequence[SettingDifference]) -> list[str]:
    """One line for each side with all that its live objects do not show."""
    lines = []
    for letter, side in (("A", 0), ("B", 1)):
        names = [
            setting_words(difference.name).rstrip(",")
            for difference in differences
            if (difference.a, difference.b)[side] is None
        ]
        if names:
            lines.append(f"  not known of {letter}, whose objects do not show it: {', '.join(names)}")
    return lines


def _causes(lockstep: Lockstep) -> list[str]:
    if lockstep.only_counted is not None:
        return [
            f"The weights agree after every compared step. On the way {departure_words(lockstep.only_counted)}: the "
            "two compute the same update in different places."
        ]
    if not lockstep.causes and not lockstep.tells:
        return ["Nothing can be told: rounding alone moves every tensor by its size in these steps."]
    if not lockstep.causes:
        return ["They train alike: nothing departs by more than rounding."]
    lines = []
    for number, cause in enumerate(lockstep.causes, 1):
        after = "" if number == 1 else "With that, "
        sentence = f"{after}{departure_words(cause.departure)}."
        lines += [f"{number}. {sentence[0].upper()}{sentence[1:]}", *(f"   {line}" for line in _cause(cause, lockstep))]
    if lockstep.causes[-1].proved:
        lines.append("With all of this as A has it, B trains like A: nothing else departs by more than rounding.")
    return lines


def departure_words(departure: Departure) -> str:
    """Which quantity departs, how far, and when."""
    what = _KINDS[departure.kind].format(name=departure.name)
    apart = departure.apart
    far = {"not finite": "is not finite on one side", "shape": "has another shape"}.get(apart.why)
    figures = f"is {apart.error:.1e} apart (floor {departure.floor:.1e})" if far is None else far
    return f"{what} {figures} at step {departure.step}"


def _cause(cause: DepartureCause, lockstep: Lockstep) -> list[str]:
    if cause.proved:
        reasons = " and ".join(difference_words(difference) for difference in cause.differences)
        return [f"Because {reasons}.", _proof(cause)]
    lines = ["Unexplained: no setting that could be switched on B makes it vanish or move later."]
    for difference in (difference for difference in cause.differences if not _unknown(difference)):
        why = cause.fixed.get(difference.name)
        tried = f" Not switched: {why}" if why else " Switched in B, it is not enough."
        lines.append(f"  It may be that {difference_words(difference)}.{tried}")
    lines += _not_known(cause.differences)
    if cause.departure.kind in ("activation", "output", "loss", "gradient"):
        lines += [f"  The networks differ: {text}." for text in lockstep.structure[:4]]
    return [*lines, *_ratio(cause.departure)]


def _proof(cause: DepartureCause) -> str:
    if cause.then is None:
        return "Proved: with A's value in B, it does not depart any more, nor does anything else."
    return f"Proved: with A's value in B, it does not depart any more; the next departure is at step {cause.then.step}."


def _ratio(departure: Departure) -> list[str]:
    if departure.ratio is None:
        return []
    what = "its change by the first step" if departure.kind == "tensor" else "it"
    return [f"  In B {what} is {departure.ratio:.6g} times what it is in A, in every element."]


def difference_words(difference: SettingDifference) -> str:
    """A setting that differs, in words; of rates those from the first on that differs."""
    if difference.name == RATES and isinstance(difference.a, tuple) and isinstance(difference.b, tuple):
        first = equal_rates(difference.a, difference.b)
        rates = _value(difference.a[first:]), _value(difference.b[first:])
        return f"the learning rate from step {first + 1} on is {rates[0]} in A and {rates[1]} in B"
    return f"{setting_words(difference.name)} is {_value(difference.a)} in A and {_value(difference.b)} in B"


def setting_words(name: str) -> str:
    """What a setting is called in sentences."""
    return _NAMES.get(name, name if name in SETTINGS else name.replace("_", " "))


def _value(value: Setting) -> str:
    if value is None:
        return "not known"
    if isinstance(value, tuple):
        return ", ".join(_value(part) for part in value[:6]) + (" …" if len(value) > 6 else "")
    return str(value) if isinstance(value, bool | str | int) else f"{value:.6g}"


def _more(names: Sequence[str]) -> str:
    return f" and {len(names) - 4} more" if len(names) > 4 else ""


def lockstep_data(lockstep: Lockstep) -> dict[str, Any]:
    """For JSON, which has no infinite numbers: they are None."""
    causes = [
        {**asdict(cause), "differences": [difference.as_data() for difference in cause.differences]}
        for cause in lockstep.causes
    ]
    unseen = [difference.as_data() for difference in lockstep.unseen]
    data: dict[str, Any] = _finite({**asdict(lockstep), "causes": causes, "unseen": unseen, "agree": lockstep.agree})
    return data


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if value == inf else value
