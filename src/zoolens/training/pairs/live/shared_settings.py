"""The parts of settings that frameworks share: rules of optimizers, and facts of layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from zoolens.training.pairs.live.live_training import SETTINGS, Setting
from zoolens.training.pairs.optimizers.optimizer_rules import OptimizerRule
from zoolens.training.pairs.reading.side_facts import CUMULATIVE, SideFacts

_UNUSUAL: Final = ("maximize", "rate_decay")  # constants that are told only where they do something


def optimizer_settings(rule: OptimizerRule) -> dict[str, Setting]:
    """The rule and its constants; where the rule is not known, what its constants do is not known either."""
    settings: dict[str, Setting] = {"optimizer.rule": rule.name}
    for name, value in rule.constants.items():
        if f"optimizer.{name}" in SETTINGS and value is not None and name not in _UNUSUAL:
            settings[f"optimizer.{name}"] = rounded(value)
    settings["optimizer.accumulation"] = rule.constants.get("gradient_accumulation_steps") or 1
    settings["optimizer.weight_decay"] = rule.constants.get("weight_decay") or 0.0
    if rule.known:
        settings["optimizer.decay_kind"] = rule.semantics.weight_decay or "none"
        place = rule.semantics.adam_rule or rule.semantics.root_rule
        if place is not None:
            settings["optimizer.epsilon_place"] = place
    else:
        settings |= {"optimizer.decay_kind": None, "optimizer.epsilon_place": None}
    settings |= {f"optimizer.{name}": rounded(rule.constants[name]) for name in _UNUSUAL if rule.constants.get(name)}
    return settings


def varied_words(values: Mapping[str, Sequence[tuple[Any, int]]]) -> str:
    """For each constant that is not the same for all parameters, its values with how many numbers have each."""
    words = []
    for name, given in sorted(values.items()):
        counts: Counter[Any] = Counter()
        for value, numbers in given:
            counts[f"{value:.7g}" if isinstance(value, int | float) else str(value)] += numbers
        if len(counts) > 1:
            each = (f"{value} for {count:,} numbers" for value, count in sorted(counts.items(), reverse=True))
            words.append(f"{name.replace('_', ' ')} {', '.join(each)}")
    return "; ".join(words)


def constants_words(constants: Mapping[str, Any]) -> str:
    """Numbers that only some losses have, such as the delta of Huber's."""
    return ", ".join(f"{name} {value:g}" for name, value in sorted(constants.items()))


def rounded(value: Any) -> Any:
    """Keras keeps its learning rate in float32, which has seven digits."""
    return float(f"{value:.7g}") if isinstance(value, float) else value


def layer_settings(facts: SideFacts) -> dict[str, Setting]:
    """Reads the settings of batch norms and of dropouts: one value where all layers have the same, else one for
    each."""
    settings: dict[str, Setting] = {}
    if facts.norms:
        cumulative = all(norm.cumulative for norm in facts.norms)
        settings["norm.kept"] = CUMULATIVE if cumulative else together([norm.kept for norm in facts.norms])
        settings["norm.epsilon"] = together([norm.epsilon for norm in facts.norms])
        settings["norm.divisor"] = ", ".join(dict.fromkeys(norm.divisor for norm in facts.norms))
    rates = [layer.rate for layer in facts.layers if layer.op == "dropout" and layer.rate is not None]
    if rates:
        settings["dropout.rate"] = tuple(rates)
    return settings


def together(values: Sequence[Any]) -> Setting:
    """One value where all layers have the same, else one for each."""
    plain = tuple(value if isinstance(value, str) else float(value) for value in values)
    return plain[0] if len(set(plain)) == 1 else plain
