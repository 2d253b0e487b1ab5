"""Optimizers: torch's own, and Adam as TensorFlow and Keras define it, which torch does not have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from zoolens.crosstrain.training.recipe import Recipe
from zoolens.crosstrain.training.semantics import Semantics


def make_optimizer(parameters: Iterable[Any], recipe: Recipe, semantics: Semantics, *, captured: bool = False) -> Any:
    """`captured`: its steps are recorded in a CUDA graph, and so must count on the device."""
    import torch

    optimizer = recipe.optimizer
    parameters = list(parameters)
    decoupled = semantics.weight_decay == "decoupled"
    if optimizer.name == "sgd":
        make = decoupled_sgd() if decoupled else torch.optim.SGD
        return make(
            parameters, lr=recipe.learning_rate, momentum=optimizer.momentum, weight_decay=optimizer.weight_decay
        )
    epsilon = optimizer.epsilon if optimizer.epsilon is not None else semantics.adam_epsilon
    betas = (optimizer.beta1, optimizer.beta2)
    if semantics.adam_rule == "inside":
        epsilon = torch.optim.Adam([torch.zeros(())]).defaults["eps"] if epsilon is None else epsilon
        return InsideAdam(parameters, recipe.learning_rate, betas, epsilon, optimizer.weight_decay, decoupled=decoupled)
    settings: dict[str, Any] = {} if epsilon is None else {"eps": epsilon}
    if captured:
        settings |= {"capturable": True, "fused": True}
    adam = torch.optim.AdamW if decoupled else torch.optim.Adam
    return adam(parameters, lr=recipe.learning_rate, betas=betas, weight_decay=optimizer.weight_decay, **settings)


class InsideAdam:
    """Adam with epsilon added to the root of the uncorrected second moment: lr·√(1−β₂ᵗ)/(1−β₁ᵗ) · m/(√v + ε).

    The step is counted in a tensor, so that the step can be compiled or captured.
    """

    def __init__(
        self,
        parameters: list[Any],
        rate: float,
        betas: tuple[float, float],
        epsilon: float,
        decay: float,
        *,
        decoupled: bool = False,
    ) -> None:
        import torch

        self._torch = torch
        self.parameters, self.rate, self.betas, self.epsilon, self.decay = parameters, rate, betas, epsilon, decay
        self.decoupled = decoupled
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
            if self.decay and self.decoupled:
                torch._foreach_mul_(parameters, 1 - self.rate * self.decay)
            elif self.decay:
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


def decoupled_sgd() -> Any:
    import torch

    class DecoupledSGD(torch.optim.SGD):  # type: ignore[misc]
        """SGD with the weight decay of Keras: rate·decay·value is taken from the value before each step."""

        decoupled = True

        def step(self, closure: Any = None) -> Any:
            decays = [group["weight_decay"] for group in self.param_groups]
            try:
                with torch.no_grad():
                    for group in self.param_groups:
                        torch._foreach_mul_(group["params"], 1 - group["lr"] * group["weight_decay"])
                        group["weight_decay"] = 0.0
                return super().step(closure)
            finally:
                for group, decay in zip(self.param_groups, decays, strict=True):
                    group["weight_decay"] = decay

    return DecoupledSGD


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


def optimizer_semantics(optimizer: Any) -> Semantics:
    """Read from the optimizer itself."""
    if isinstance(optimizer, InsideAdam):
        decay = _decay(optimizer.decay, optimizer.decoupled)
        return Semantics(adam_rule="inside", adam_epsilon=optimizer.epsilon, weight_decay=decay)
    defaults = optimizer.defaults
    decoupled = bool(defaults.get("decoupled_weight_decay")) or getattr(optimizer, "decoupled", False)
    decay = _decay(defaults["weight_decay"], decoupled)
    if "eps" not in defaults:
        return Semantics(weight_decay=decay)
    return Semantics(adam_rule="outside", adam_epsilon=defaults["eps"], weight_decay=decay)


def _decay(size: float, decoupled: bool) -> Literal["coupled", "decoupled"] | None:
    return None if not size else "decoupled" if decoupled else "coupled"
