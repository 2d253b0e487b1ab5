"""Optimizers: torch's own, and Adam as TensorFlow and Keras define it, which torch does not have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from zoolens.crosstrain.recipe import Recipe
from zoolens.crosstrain.semantics import Semantics


def make_optimizer(parameters: Iterable[Any], recipe: Recipe, semantics: Semantics, *, captured: bool = False) -> Any:
    """`captured`: its steps are recorded in a CUDA graph, and so must count on the device."""
    import torch

    told = recipe.optimizer
    parameters = list(parameters)
    if told.name == "sgd":
        return torch.optim.SGD(
            parameters, lr=recipe.learning_rate, momentum=told.momentum, weight_decay=told.weight_decay
        )
    epsilon = told.epsilon if told.epsilon is not None else semantics.adam_epsilon
    betas = (told.beta1, told.beta2)
    if semantics.adam_rule == "inside":
        epsilon = torch.optim.Adam([torch.zeros(())]).defaults["eps"] if epsilon is None else epsilon
        return InsideAdam(parameters, recipe.learning_rate, betas, epsilon, told.weight_decay)
    settings: dict[str, Any] = {} if epsilon is None else {"eps": epsilon}
    if captured:
        settings |= {"capturable": True, "fused": True}
    return torch.optim.Adam(
        parameters, lr=recipe.learning_rate, betas=betas, weight_decay=told.weight_decay, **settings
    )


class InsideAdam:
    """Adam with epsilon added to the root of the uncorrected second moment: lr·√(1−β₂ᵗ)/(1−β₁ᵗ) · m/(√v + ε).

    The step is counted in a tensor, so that the step can be compiled or captured.
    """

    def __init__(
        self, parameters: list[Any], rate: float, betas: tuple[float, float], epsilon: float, decay: float
    ) -> None:
        import torch

        self._torch = torch
        self.parameters, self.rate, self.betas, self.epsilon, self.decay = parameters, rate, betas, epsilon, decay
        self.first = [torch.zeros_like(parameter) for parameter in parameters]
        self.second = [torch.zeros_like(parameter) for parameter in parameters]
        self.count = torch.zeros((), dtype=torch.float64, device=parameters[0].device)

    def zero_grad(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    def step(self) -> None:
        torch = self._torch
        (beta1, beta2), parameters = self.betas, self.parameters
        with torch.no_grad():
            gradients = [parameter.grad for parameter in parameters]
            if self.decay:
                gradients = torch._foreach_add(gradients, parameters, alpha=self.decay)
            self.count += 1
            torch._foreach_lerp_(self.first, gradients, 1 - beta1)
            torch._foreach_mul_(self.second, beta2)
            torch._foreach_addcmul_(self.second, gradients, gradients, 1 - beta2)
            roots = torch._foreach_sqrt(self.second)
            torch._foreach_add_(roots, self.epsilon)
            rate = self.rate * (1 - beta2**self.count).sqrt() / (1 - beta1**self.count)
            updates = torch._foreach_div(self.first, roots)
            torch._foreach_mul_(updates, rate.to(updates[0].dtype))
            torch._foreach_sub_(parameters, updates)


def slots(optimizer: Any, tensors: Mapping[str, Any]) -> dict[str, Any]:
    """first/TENSOR and second/TENSOR, as far as the optimizer keeps them: the raw moments."""
    if isinstance(optimizer, InsideAdam):
        states = {
            id(parameter): (first, second)
            for parameter, first, second in zip(optimizer.parameters, optimizer.first, optimizer.second, strict=True)
        }
    else:
        states = {
            id(parameter): (state.get("exp_avg", state.get("momentum_buffer")), state.get("exp_avg_sq"))
            for parameter, state in optimizer.state.items()
        }
    found: dict[str, Any] = {}
    for name, tensor in tensors.items():
        for slot, value in zip(("first", "second"), states.get(id(tensor), (None, None)), strict=True):
            if value is not None:
                found[f"{slot}/{name}"] = value
    return found


def state_tensors(optimizer: Any) -> list[Any]:
    """Everything a step changes beside the parameters."""
    if isinstance(optimizer, InsideAdam):
        return [*optimizer.first, *optimizer.second, optimizer.count]
    return [value for state in optimizer.state.values() for value in state.values() if hasattr(value, "zero_")]


def adam_semantics(optimizer: Any) -> Semantics:
    """Read from the optimizer itself."""
    if isinstance(optimizer, InsideAdam):
        return Semantics(adam_rule="inside", adam_epsilon=optimizer.epsilon)
    if "eps" not in optimizer.defaults:
        return Semantics()
    return Semantics(adam_rule="outside", adam_epsilon=optimizer.defaults["eps"])
