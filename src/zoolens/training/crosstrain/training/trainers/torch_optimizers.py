"""Optimizers for recipes: torch's own where torch.optim has the rule, and otherwise those of `torch_rules`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from zoolens.training.crosstrain.training.recipe import Optimizer, Recipe
from zoolens.training.crosstrain.training.trainers.decay_kinds import decay_kind
from zoolens.training.pairs.optimizers.optimizer_rules import torch_rule
from zoolens.training.pairs.optimizers.torch_rules import (
    Decay,
    InsideAdam,
    Lion,
    OwnRule,
    PastSGD,
    RootConstants,
    RootRule,
    decoupled,
)
from zoolens.training.pairs.semantics import Semantics


def make_optimizer(parameters: Iterable[Any], recipe: Recipe, semantics: Semantics, *, captured: bool = False) -> Any:
    """torch's own where it has the rule. `captured`: its steps are recorded in a CUDA graph, and so must count on the
    device."""
    optimizer, rate = recipe.optimizer, recipe.learning_rate
    tensors = list(parameters)
    decay = _wanted_decay(recipe, semantics)
    make = {"sgd": _sgd, "rmsprop": _rmsprop, "adagrad": _adagrad, "lion": _lion}.get(optimizer.name, _adam)
    if optimizer.name == "sgd":
        captured = captured and recipe.schedule.varies
    return make(tensors, rate, decay, optimizer, semantics, captured)


def _wanted_decay(recipe: Recipe, semantics: Semantics) -> Decay:
    """torch's own decay is a part of the gradient, but for AdamW, and for Lion, which has no other."""
    size, kind = recipe.optimizer.weight_decay, semantics.weight_decay
    if kind == "independent":
        return Decay(size / recipe.learning_rate, decoupled=True)
    usual = recipe.optimizer.name in ("adamw", "lion")
    return Decay(size, decoupled=usual if kind is None else kind == "decoupled")


def _sgd(tensors: Any, rate: float, decay: Decay, wanted: Optimizer, semantics: Semantics, captured: bool) -> Any:
    import torch

    if wanted.momentum and semantics.momentum_rate == "past":
        return PastSGD(tensors, rate, decay, momentum=wanted.momentum, nesterov=wanted.nesterov)
    make = decoupled(torch.optim.SGD) if decay.decoupled else torch.optim.SGD
    settings: dict[str, Any] = {"fused": True} if captured else {}  # which alone takes its rate from the device
    return make(
        tensors, lr=rate, momentum=wanted.momentum, nesterov=wanted.nesterov, weight_decay=decay.size, **settings
    )


def _adam(tensors: Any, rate: float, decay: Decay, wanted: Optimizer, semantics: Semantics, captured: bool) -> Any:
    import torch

    epsilon = wanted.epsilon if wanted.epsilon is not None else semantics.adam_epsilon
    betas = (wanted.beta1, wanted.beta2)
    if semantics.adam_rule == "inside":
        epsilon = torch.optim.Adam([torch.zeros(())]).defaults["eps"] if epsilon is None else epsilon
        return InsideAdam(tensors, rate, decay, betas=betas, epsilon=epsilon)
    settings: dict[str, Any] = {} if epsilon is None else {"eps": epsilon}
    if captured:
        settings |= {"capturable": True, "fused": True}
    adam = torch.optim.AdamW if decay.decoupled else torch.optim.Adam
    return adam(tensors, lr=rate, betas=betas, weight_decay=decay.size, **settings)


def _rmsprop(tensors: Any, rate: float, decay: Decay, wanted: Optimizer, semantics: Semantics, captured: bool) -> Any:
    import torch

    usual = torch.optim.RMSprop([torch.zeros(())]).defaults
    epsilon = _first(wanted.epsilon, semantics.root_epsilon, usual["eps"])
    rho = _first(wanted.rho, semantics.rmsprop_rho, usual["alpha"])
    settings: dict[str, Any] = {"centered": wanted.centered, "momentum": wanted.momentum}
    past = bool(wanted.momentum) and semantics.momentum_rate == "past"
    if semantics.root_rule == "under" or past or captured:
        rule = semantics.root_rule or "outside"
        return RootRule(tensors, rate, decay, RootConstants(rule, epsilon, rho, past=past, **settings))
    make = decoupled(torch.optim.RMSprop) if decay.decoupled else torch.optim.RMSprop
    return make(tensors, lr=rate, alpha=rho, eps=epsilon, weight_decay=decay.size, **settings)


def _adagrad(tensors: Any, rate: float, decay: Decay, wanted: Optimizer, semantics: Semantics, captured: bool) -> Any:
    """torch's own asks the device for its count at every step, which no CUDA graph can hold."""
    import torch

    usual = torch.optim.Adagrad([torch.zeros(())]).defaults
    epsilon = _first(wanted.epsilon, semantics.root_epsilon, usual["eps"])
    start = _first(wanted.initial_accumulator, semantics.adagrad_start, usual["initial_accumulator_value"])
    if semantics.root_rule == "under" or captured:
        rule = semantics.root_rule or "outside"
        return RootRule(tensors, rate, decay, RootConstants(rule, epsilon, start=start))
    make = decoupled(torch.optim.Adagrad) if decay.decoupled else torch.optim.Adagrad
    return make(tensors, lr=rate, initial_accumulator_value=start, eps=epsilon, weight_decay=decay.size)


def _lion(tensors: Any, rate: float, decay: Decay, wanted: Optimizer, semantics: Semantics, captured: bool) -> Any:
    return Lion(tensors, rate, decay, betas=(wanted.beta1, wanted.beta2))


def _first(*values: float | None) -> float:
    """The first that is given."""
    return next(value for value in values if value is not None)


def reset_state(optimizer: Any) -> None:
    """Everything a step changes beside the parameters is as before the first one."""
    if isinstance(optimizer, OwnRule):
        optimizer.reset()
        return
    for state in optimizer.state.values():
        for value in state.values():
            if hasattr(value, "zero_"):
                value.zero_()


def momentum_rate(optimizer: Any) -> Literal["current", "past"]:
    """What its momentum does where the learning rate changes."""
    return "past" if getattr(optimizer, "past", False) else "current"


def optimizer_semantics(optimizer: Any, recipe: Recipe) -> Semantics:
    """Read from the optimizer itself. `recipe` tells a decay that was divided by the rate from one that was not."""
    if isinstance(optimizer, OwnRule):
        size, apart, semantics = optimizer.decay.size, optimizer.decay.decoupled, optimizer.semantics
    else:
        rule = torch_rule(optimizer)
        size, semantics = rule.constants["weight_decay"], rule.semantics
        apart = semantics.weight_decay == "decoupled"
    return Semantics(weight_decay=decay_kind(size, apart, recipe)).over(semantics)
