"""The moments that Keras' optimizers keep, under the names by which lockstep compares them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from zoolens.training.pairs.optimizers.optimizer_rules import keras_rule


def momentum_rate(optimizer: Any) -> Literal["current", "past"]:
    """What its momentum does where the learning rate changes: in Keras' own, each gradient keeps its rate."""
    return "current" if getattr(optimizer, "momentum_rate", "past") == "current" else "past"


# The names under which lockstep compares slots, by optimizer -> Keras' attributes for them.
_ADAM = {"first": "_momentums", "second": "_velocities"}
_SLOTS: Mapping[str, Mapping[str, str]] = {
    "sgd": {"first": "momentums"},
    "adam": _ADAM,
    "adamw": _ADAM,
    "rmsprop": {"first": "_momentums", "second": "_velocities", "average": "_average_gradients"},
    "adagrad": {"second": "_accumulators"},
    "lion": {"first": "_momentums"},
}


def slots(optimizer: Any, position: int) -> Mapping[str, tuple[Any, float | None]]:
    """The optimizer's variables for the model's learned one at `position`: moments, each with the factor that makes it
    one. Keras' velocity of SGD carries −(learning rate) in it, and the momentum of its RMSprop carries the rate; where
    a recipe's schedule changes that, they are told in units of the recipe's. None: at a rate of 0, and where another
    schedule has put the rates of several steps into one velocity, no factor does. Of a rule that is not known there are
    none."""
    rule = keras_rule(optimizer)
    if not rule.known:
        return {}
    name, base = rule.name, getattr(optimizer._learning_rate, "base", None)
    rate = base or (float(optimizer.learning_rate) if rule.schedule is None else 0.0)
    signs = {("sgd", "first"): -1, ("rmsprop", "first"): 1} if momentum_rate(optimizer) == "past" else {}
    factors = {key: sign / rate if rate else None for key, sign in signs.items()}
    return {
        slot: (variables[position], factors.get((name, slot), 1.0))
        for slot, attribute in _SLOTS[name].items()
        if (variables := getattr(optimizer, attribute, None))
    }
