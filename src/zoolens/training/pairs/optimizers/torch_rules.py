"""Update rules that torch.optim does not have: those of TensorFlow and Keras, and Lion.

They are written with operations on whole lists of tensors, and count their steps in a tensor, so that a step can be
compiled or recorded in a CUDA graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from zoolens.training.pairs.semantics import Semantics


@dataclass(frozen=True)
class Decay:
    """`decoupled` takes rate·size·value from the value before a step; otherwise the gradient gets size·value."""

    size: float = 0.0
    decoupled: bool = False


class OwnRule:
    """What all of them have: parameters, a learning rate, weight decay, and slots that begin with one value."""

    def __init__(self, parameters: list[Any], rate: float, decay: Decay, starts: dict[str, float]) -> None:
        import torch

        self._torch, self.parameters, self.decay = torch, parameters, decay
        # One group, as torch's optimizers have them, where a schedule sets the rate.
        self.param_groups: list[dict[str, Any]] = [{"params": parameters, "lr": rate}]
        self._starts, self.base_rate = starts, rate
        # By the name under which lockstep compares them, a tensor for each parameter.
        self.slots = {
            name: [torch.full_like(parameter, start) for parameter in parameters] for name, start in starts.items()
        }
        self.count = torch.zeros((), dtype=torch.float64, device=parameters[0].device)

    @property
    def semantics(self) -> Semantics:
        """What it does, without its weight decay."""
        raise NotImplementedError

    def update(self, gradients: Sequence[Any]) -> None:
        """Change slots and parameters; the gradients may have a weight decay in them."""
        raise NotImplementedError

    @property
    def rate(self) -> Any:
        return self.param_groups[0]["lr"]

    def zero_grad(self, set_to_none: bool = True) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    def reset(self) -> None:
        """Forget all steps."""
        self.count.zero_()
        for name, start in self._starts.items():
            for tensor in self.slots[name]:
                tensor.fill_(start)

    def step(self) -> None:
        torch, parameters, decay = self._torch, self.parameters, self.decay
        with torch.no_grad():
            gradients = [parameter.grad for parameter in parameters]
            if decay.size and decay.decoupled:
                torch._foreach_mul_(parameters, 1 - self.rate * decay.size)
            elif decay.size:
                gradients = torch._foreach_add(gradients, parameters, alpha=decay.size)
            self.count += 1
            self.update(gradients)

    def _average(self, slot: str, kept: float, values: Sequence[Any], others: Sequence[Any]) -> Any:
        """The slot keeps a share of what it has, and takes the products of two lists for the rest."""
        torch = self._torch
        torch._foreach_mul_(self.slots[slot], kept)
        torch._foreach_addcmul_(self.slots[slot], values, others, 1 - kept)
        return self.slots[slot]

    def _remember(self, directions: Sequence[Any], momentum: float, *, past: bool) -> Any:
        """The first slot, with these directions taken in: at the rate of this step, in units of the first one, where
        each keeps the rate at which it came."""
        torch, first = self._torch, self.slots["first"]
        torch._foreach_mul_(first, momentum)
        torch._foreach_add_(first, torch._foreach_mul(directions, self.rate / self.base_rate) if past else directions)
        return first

    def _move(self, directions: Sequence[Any], rate: Any) -> None:
        torch = self._torch
        moves = torch._foreach_mul(directions, rate)
        torch._foreach_sub_(self.parameters, moves)


class InsideAdam(OwnRule):
    """Adam with epsilon added to the root of the uncorrected second moment: lr·√(1−β₂ᵗ)/(1−β₁ᵗ) · m/(√v + ε)."""

    def __init__(
        self, parameters: list[Any], rate: float, decay: Decay, *, betas: tuple[float, float], epsilon: float
    ) -> None:
        super().__init__(parameters, rate, decay, {"first": 0.0, "second": 0.0})
        self.betas, self.epsilon = betas, epsilon

    @property
    def semantics(self) -> Semantics:
        return Semantics(adam_rule="inside", adam_epsilon=self.epsilon)

    def update(self, gradients: Sequence[Any]) -> None:
        torch = self._torch
        beta1, beta2 = self.betas
        first = self.slots["first"]
        torch._foreach_lerp_(first, gradients, 1 - beta1)
        roots = torch._foreach_sqrt(self._average("second", beta2, gradients, gradients))
        torch._foreach_add_(roots, self.epsilon)
        rate = self.rate * (1 - beta2**self.count).sqrt() / (1 - beta1**self.count)
        directions = torch._foreach_div(first, roots)
        self._move(directions, rate.to(directions[0].dtype))


@dataclass(frozen=True)
class RootConstants:
    """Constants of RMSprop and Adagrad."""

    rule: str  # "under" the root is where epsilon stands, or "outside"
    epsilon: float
    rho: float | None = None  # share of the old mean square that RMSprop keeps; None: Adagrad adds all squares up
    start: float = 0.0  # of the sum of squares
    centered: bool = False
    momentum: float = 0.0
    past: bool = False  # whether the momentum of a gradient keeps the learning rate of its step


class RootRule(OwnRule):
    """RMSprop and Adagrad: the gradient divided by the root of `second`, with epsilon under the root or beside it."""

    def __init__(self, parameters: list[Any], rate: float, decay: Decay, given: RootConstants) -> None:
        more = {"average": 0.0} if given.centered else {}
        more |= {"first": 0.0} if given.momentum else {}
        super().__init__(parameters, rate, decay, {"second": given.start, **more})
        self.rule, self.epsilon, self.rho, self.start = given.rule, given.epsilon, given.rho, given.start
        self.momentum, self.past = given.momentum, given.past

    @property
    def semantics(self) -> Semantics:
        own = {"adagrad_start": self.start} if self.rho is None else {"rmsprop_rho": self.rho}
        return Semantics(root_rule=self.rule, root_epsilon=self.epsilon, **own)  # type: ignore[arg-type]

    def update(self, gradients: Sequence[Any]) -> None:
        torch = self._torch
        squares = self._squares(gradients)
        if "average" in self.slots and self.rho is not None:
            torch._foreach_lerp_(self.slots["average"], gradients, 1 - self.rho)
            squares = torch._foreach_addcmul(squares, self.slots["average"], self.slots["average"], -1)
        if self.rule == "under":
            roots = torch._foreach_sqrt(torch._foreach_add(squares, self.epsilon))
        else:
            roots = torch._foreach_add(torch._foreach_sqrt(squares), self.epsilon)
        directions = torch._foreach_div(gradients, roots)
        if self.momentum:
            directions = self._remember(directions, self.momentum, past=self.past)
        self._move(directions, self.base_rate if self.past and self.momentum else self.rate)

    def _squares(self, gradients: Sequence[Any]) -> Any:
        if self.rho is not None:
            return self._average("second", self.rho, gradients, gradients)
        self._torch._foreach_addcmul_(self.slots["second"], gradients, gradients, 1)
        return self.slots["second"]


class PastSGD(OwnRule):
    """SGD with momentum in which each gradient keeps the learning rate of its own step: Keras' velocity."""

    past = True

    def __init__(
        self, parameters: list[Any], rate: float, decay: Decay, *, momentum: float, nesterov: bool = False
    ) -> None:
        super().__init__(parameters, rate, decay, {"first": 0.0})
        self.momentum, self.nesterov = momentum, nesterov

    @property
    def semantics(self) -> Semantics:
        return Semantics()

    def update(self, gradients: Sequence[Any]) -> None:
        torch = self._torch
        first = self._remember(gradients, self.momentum, past=True)
        if self.nesterov:
            self._move(gradients, self.rate)
            first = torch._foreach_mul(first, self.momentum)
        self._move(first, self.base_rate)


class Lion(OwnRule):
    """The sign of a mix of momentum and gradient, at the learning rate; the momentum then takes the gradient in."""

    def __init__(self, parameters: list[Any], rate: float, decay: Decay, *, betas: tuple[float, float]) -> None:
        super().__init__(parameters, rate, decay, {"first": 0.0})
        self.betas = betas

    @property
    def semantics(self) -> Semantics:
        return Semantics()

    def update(self, gradients: Sequence[Any]) -> None:
        torch = self._torch
        beta1, beta2 = self.betas
        first = self.slots["first"]
        self._move(torch._foreach_sign(torch._foreach_lerp(first, gradients, 1 - beta1)), self.rate)
        torch._foreach_lerp_(first, gradients, 1 - beta2)


def decoupled(base: Any) -> Any:
    """An optimizer of torch with the weight decay of Keras: rate·decay·value is taken from the value before a step."""
    import torch

    class Decoupled(base):  # type: ignore[misc]
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

    Decoupled.__name__ = f"Decoupled{base.__name__}"
    return Decoupled
