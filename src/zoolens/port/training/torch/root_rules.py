"""RMSprop and Adagrad of torch with epsilon under the root, as Keras has it, put on a live optimizer."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from zoolens.port.training.base import NotSwitchable


def place_epsilon(optimizer: Any, place: str) -> None:
    """`place`: "outside", as torch has it, or "under" the root. The optimizer stays the same object."""
    import torch

    own = vars(optimizer).get("own_class", type(optimizer))
    made = {torch.optim.RMSprop: _rmsprop, torch.optim.Adagrad: _adagrad}
    if place not in ("outside", "under") or (place == "under" and own not in made):
        raise NotSwitchable(f"{own.__name__} of torch cannot have its epsilon {place} the root.")
    optimizer.own_class = own
    optimizer.__class__ = made[own]() if place == "under" else own
    optimizer._patch_step_function()  # so that its hooks are called


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

    class UnderRMSprop(torch.optim.RMSprop):  # type: ignore[misc]
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
                direction = gradient / (squares + group["eps"]).sqrt()
                if group["momentum"] > 0:
                    first = _slot(state, "momentum_buffer", parameter)
                    direction = first.mul_(group["momentum"]).add_(direction)
                parameter.sub_(group["lr"] * direction)

    return UnderRMSprop


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
