"""What two sides' live objects have differently, and what must be switched so that one side has it as the other.

Most settings are one value that a side is given. Some are more: an optimizer's rule comes with its constants, and a
padding belongs to layers that have other names on each side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from math import isclose
from typing import Any, Final

from zoolens.training.pairs.live.live_training import Setting

RULE: Final = "optimizer.rule"
RATE: Final = "optimizer.learning_rate"
RATES: Final = "schedule.rates"
DROPOUT: Final = "dropout.rate"
MOMENTUM_RATE: Final = "optimizer.momentum_rate"
# Constants that mean something only together with their rule.
_OF_RULE: Final = tuple(
    f"optimizer.{name}"
    for name in (
        "momentum", "momentum_rate", "dampening", "nesterov", "beta1", "beta2", "epsilon", "epsilon_place", "amsgrad",
        "rho", "centered", "initial_accumulator",
    )
)  # fmt: skip
_HIDDEN: Final = (
    "jax.",
    "regularisation.",
    "optimizer.tensors",
)  # what says more of another setting, and is none of its own
# What cannot be read of a side, by the beginning of its names, where another setting says None: an optimizer whose rule
# is not known, a loss that is a function, a network that is a function and shows no layers.
_UNREADABLE: Final = (
    (("optimizer.", "constraint"), "optimizer.decay_kind"),
    (("loss.",), "loss.reduction"),
    (("norm.", "dropout.", "embedding."), "jax.layers"),
)
_SCHEDULES: Final = ("schedule.name", "schedule.unit", RATE)  # names and parts of what the rates of all steps say
_ONE_THING: Final[Mapping[str, tuple[frozenset[Setting], ...]]] = {
    "optimizer.rule": (frozenset({"adam", "adamw"}),),
    "loss.name": (
        frozenset({"CrossEntropyLoss", "SparseCategoricalCrossentropy", "CategoricalCrossentropy", "cross-entropy"}),
        frozenset({"BCEWithLogitsLoss", "BCELoss", "BinaryCrossentropy", "binary cross-entropy"}),
        frozenset({"MSELoss", "MeanSquaredError", "squared error"}),
        frozenset({"L1Loss", "MeanAbsoluteError", "absolute error"}),
        frozenset({"HuberLoss", "Huber"}),
    ),
}

Switches = tuple[tuple[str, Setting], ...]  # names of settings with the values to give them, in order


@dataclass(frozen=True)
class SettingDifference:
    """A setting of both sides' live objects that is not the same. None: it cannot be known. `on`: where one value does
    not do, what to switch on side 0 and on side 1 so that it is as side 0 and as side 1 has it."""

    name: str
    a: Setting
    b: Setting
    on: tuple[tuple[Switches, Switches], tuple[Switches, Switches]] | None = field(default=None, repr=False)

    def known(self, of: int) -> bool:
        """Whether the value of side `of` can be read."""
        return (self.a, self.b)[of] is not None

    def switches(self, side: int, of: int) -> Switches:
        """What gives side `side` the setting as side `of` has it."""
        return self.on[side][of] if self.on is not None else ((self.name, (self.a, self.b)[of]),)

    def as_data(self) -> dict[str, Any]:
        """For JSON: what is said of it, not how it is switched."""
        return {"name": self.name, "a": self.a, "b": self.b}


def is_hidden(name: str) -> bool:
    """Whether a name says more of another setting, and is none of its own."""
    return name.startswith(_HIDDEN)


def in_order(names: Mapping[str, Any]) -> list[str]:
    """Names of settings in the order in which they are switched: an optimizer before what it is given."""
    return sorted(names, key=lambda name: (name != RULE, name != RATE, name))


def differences(a: Mapping[str, Setting], b: Mapping[str, Setting]) -> tuple[SettingDifference, ...]:
    """What the two have differently, and what one of them cannot tell."""
    hidden = [name for name in (*a, *b) if name.startswith(_HIDDEN)] + _said_by_rates(a, b)
    names = dict.fromkeys(name for name in (*a, *b) if name not in hidden)
    both = [SettingDifference(name, a.get(name, _absent(name, a)), b.get(name, _absent(name, b))) for name in names]
    differing = [difference for difference in both if not alike(difference) and not _renamed(difference)]
    return tuple(_with_whole_rule(differing, a, b))


def _said_by_rates(a: Mapping[str, Setting], b: Mapping[str, Setting]) -> list[str]:
    """Names the settings that say nothing more where the rates of all steps are known: the schedules and the first
    rate."""
    return list(_SCHEDULES) if a.get(RATES) is not None and b.get(RATES) is not None else []


def _with_whole_rule(
    differing: list[SettingDifference], a: Mapping[str, Setting], b: Mapping[str, Setting]
) -> list[SettingDifference]:
    """Where the rules differ, their constants are one setting with them, and so is the learning rate, which fits one
    rule and not another. A rule that is not known has no constants that could be given to the other side."""
    if RULE not in (difference.name for difference in differing):
        return differing
    with_rate = a.get(RATES) is None and b.get(RATES) is None
    parts = {*_OF_RULE, *((RATE,) if with_rate else ())}
    given = _of_rule(a, parts), _of_rule(b, parts)
    known = [settings.get("optimizer.decay_kind") is not None for settings in (a, b)]
    words = [_rule_words(switches) if sure else None for switches, sure in zip(given, known, strict=True)]
    named = [
        settings.get(RULE) if rule_words is None else rule_words
        for settings, rule_words in zip((a, b), words, strict=True)
    ]
    whole = SettingDifference(RULE, named[0], named[1], (given, given))
    kept = [
        difference
        for difference in differing
        if difference.name != RULE and (difference.name not in parts or not all(known))
    ]
    return [whole, *kept]


def _of_rule(settings: Mapping[str, Setting], parts: set[str]) -> Switches:
    """The rule and its constants; those that are off are so in every optimizer that is made."""
    constants = [
        (name, settings[name])
        for name in in_order(settings)
        if name in parts and settings[name] is not None and not same_setting(settings[name], _absent(name, {}))
    ]
    return ((RULE, settings.get(RULE)), *constants)


def _rule_words(switches: Switches) -> str:
    (_, rule), *constants = switches
    details = ", ".join(f"{name.partition('.')[2].replace('_', ' ')} {_said(value)}" for name, value in constants)
    return f"{rule} ({details})" if details else str(rule)


def _said(value: Setting) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _renamed(difference: SettingDifference) -> bool:
    """Whether two names mean one thing, whose settings have names of their own: Adam and AdamW, or torch's and Keras'
    classes of one loss."""
    return any({difference.a, difference.b} <= names for names in _ONE_THING.get(difference.name, ()))


def _absent(name: str, settings: Mapping[str, Setting]) -> Setting:
    """What a setting is where the side has no such thing; None where its objects are functions that show nothing."""
    if any(name.startswith(prefixes) and settings.get(sign, "none") is None for prefixes, sign in _UNREADABLE):
        return None
    flags = ("optimizer.nesterov", "optimizer.amsgrad", "optimizer.centered", "optimizer.maximize")
    numbers = (
        "optimizer.momentum", "optimizer.dampening", "optimizer.weight_decay", "optimizer.rate_decay", "loss.smoothing",
        "norm.frozen",
    )  # fmt: skip
    if name == "optimizer.accumulation":
        return 1
    return False if name in flags else 0.0 if name in numbers else "none"


def same_setting(a: Setting, b: Setting) -> bool:
    """Equal, up to the rounding of float32, in which some frameworks keep their constants."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(same_setting(x, y) for x, y in zip(a, b, strict=True))
    if _is_number(a) and _is_number(b):
        return isclose(float(a), float(b), rel_tol=1e-6, abs_tol=1e-12)  # type: ignore[arg-type]
    return a == b


def alike(difference: SettingDifference) -> bool:
    """Whether both values are one, up to rounding. A layer that drops nothing is no dropout."""
    if difference.name == DROPOUT and None not in (difference.a, difference.b):
        a, b = (
            tuple(filter(None, value)) if isinstance(value, tuple) else () for value in (difference.a, difference.b)
        )
        return same_setting(a, b)
    if difference.name == RATES and isinstance(difference.a, tuple) and isinstance(difference.b, tuple):
        return len(difference.a) == len(difference.b) == equal_rates(difference.a, difference.b)
    return same_setting(difference.a, difference.b)


def equal_rates(a: tuple[float, ...], b: tuple[float, ...]) -> int:
    """How many of the first rates are equal up to the rounding of float32, in which frameworks compute schedules: near
    its end a cosine is a small difference of large numbers."""
    rounding = 1e-6 * max(map(abs, (*a, *b)), default=0.0)
    pairs = takewhile(lambda both: abs(both[0] - both[1]) <= rounding, zip(a, b, strict=False))
    return sum(1 for _ in pairs)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
