"""RMSprop and Adagrad of torch as Keras has them, put on a live optimizer: epsilon under the root, and a momentum that
keeps the learning rate of each gradient's own step.

`pairs/optimizers/torch_rules.py` has the same rules for recipes, over lists of tensors and with a count on the device,
as a CUDA graph needs them. Here the user's own object stays, with its groups of parameters, its schedule and its hooks.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from zoolens.training.pairs.live.live_training import NotSwitchable


def place_epsilon(optimizer: Any, place: str) -> None:
    """`place`: "outside", as torch has it, or "under" the root. The optimizer stays the same object."""
    if place not in ("outside", "under") or (place == "under" and _own_class(optimizer) not in _made()):
        raise NotSwitchable(f"{_own_class(optimizer).__name__} of torch cannot have its epsilon {place} the root.")
    _become(optimizer, under=place == "under", past=_changes(optimizer)["past"])


def keep_past_rates(optimizer: Any, *, past: bool) -> bool:
    """Let the momentum of an RMSprop keep the learning rates of its gradients, or not. False: it is no RMSprop."""
    if _own_class(optimizer).__name__ != "RMSprop":
        return False
    _become(optimizer, under=_changes(optimizer)["under"], past=past)
    return True


def _own_class(optimizer: Any) -> Any:
    return vars(optimizer).get("own_class", type(optimizer))


def _made() -> dict[Any, Any]:
    import torch

    return {torch.optim.RMSprop: _rmsprop, torch.optim.Adagrad: _adagrad}


def _changes(optimizer: Any) -> dict[str, bool]:
    kept: dict[str, bool] = vars(optimizer).get("own_changes", {"under": False, "past": False})
    return kept


def _become(optimizer: Any, **changes: bool) -> None:
    optimizer.own_class = own = _own_class(optimizer)
    optimizer.own_changes = changes
    optimizer.__class__ = _made()[own]() if any(changes.values()) else own
    optimizer._patch_step_function()  # so that its hooks are called
    if vars(optimizer).pop("step", None) is not None:  # a scheduler puts the step of the class before on the object
        optimizer.step = _counted(optimizer)


def _counted(optimizer: Any) -> Any:
    """The step of the present class, marked as schedulers mark it: they warn of any other."""

    def step(*given: Any, **named: Any) -> Any:
        optimizer._opt_called = True
        return type(optimizer).step(optimizer, *given, **named)

    step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
    return step


def _gradients(optimizer: Any) -> Iterator[tuple[Any, Any, Any, Any]]:
    """Each parameter with its gradient, which has a weight decay in it, its state, and the constants."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.grad is not None:
                gradient = parameter.grad
                if group["weight_decay"]:
                    gradient = gradient.add(parameter, alpha=group["weight_decay"])
                yield parameter, gradient, optimizer.state[parameter], group


@cache
def _rmsprop() -> Any:
    import torch

    class RMSpropOfKeras(torch.optim.RMSprop):  # type: ignore[misc]
        def step(self, closure: Any = None) -> None:
            with torch.no_grad():
                self._change()

        def _change(self) -> None:
            for parameter, gradient, state, group in _gradients(self):
                second = _slot(state, "square_avg", parameter)
                second.mul_(group["alpha"]).addcmul_(gradient, gradient, value=1 - group["alpha"])
                squares = second
                if group["centered"]:
                    average = _slot(state, "grad_avg", parameter).lerp_(gradient, 1 - group["alpha"])
                    squares = second - average.square()
                under, rate = self.own_changes["under"], group["lr"]
                root = (squares + group["eps"]).sqrt() if under else squares.sqrt().add_(group["eps"])
                before, after = (rate, 1.0) if self.own_changes["past"] and group["momentum"] else (1.0, rate)
                direction = before * gradient / root
                if group["momentum"] > 0:
                    first = _slot(state, "momentum_buffer", parameter)
                    direction = first.mul_(group["momentum"]).add_(direction)
                parameter.sub_(after * direction)

    return RMSpropOfKeras


@cache
def _adagrad() -> Any:
    import torch

    class UnderAdagrad(torch.optim.Adagrad):  # type: ignore[misc]
        def step(self, closure: Any = None) -> None:
            with torch.no_grad():
                self._change()

        def _change(self) -> None:
            for parameter, gradient, state, group in _gradients(self):
                total = _slot(state, "sum", parameter, self.defaults["initial_accumulator_value"])
                total.addcmul_(gradient, gradient)
                parameter.sub_(group["lr"] * gradient / (total + group["eps"]).sqrt())

    return UnderAdagrad


def _slot(state: Any, name: str, parameter: Any, start: float = 0.0) -> Any:
    import torch

    if name not in state:
        state[name] = torch.full_like(parameter, start)
    return state[name]
