"""A momentum of torch's SGD that keeps the learning rate of each gradient's own step, as that of Keras does.

Gradient and weight decay are multiplied by the rate before they enter the buffer, which then moves the parameters as it
is.
"""

from __future__ import annotations

from typing import Any


def scale_gradients(optimizer: Any) -> None:
    """Before a step."""
    for group in optimizer.param_groups:
        rate = group["lr"]
        group["kept_rate"], group["coupled_decay"] = rate, group["weight_decay"]
        group["lr"], group["weight_decay"] = 1.0, rate * group["weight_decay"]
        for parameter in group["params"]:
            if parameter.grad is not None:
                parameter.grad.mul_(rate)


def restore_rates(optimizer: Any) -> None:
    """After the step; the gradients are not needed any more."""
    for group in optimizer.param_groups:
        group["lr"], group["weight_decay"] = group.pop("kept_rate"), group.pop("coupled_decay")
