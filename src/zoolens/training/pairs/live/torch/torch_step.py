"""One training step of torch, of a user's objects and of those that a recipe makes, and all that it computed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from zoolens.base.errors import ModelError, first_line
from zoolens.training.pairs.live.live_training import Capture
from zoolens.training.pairs.networks.framework import Array
from zoolens.training.pairs.networks.training_objects import TrainingObjects
from zoolens.training.pairs.optimizers.torch_slots import slots


class TorchStep:
    """Forward pass, loss, regularisation, gradient, clipping, optimizer and schedule, as a user's own loop has them."""

    def __init__(self, module: Any, objects: TrainingObjects) -> None:
        self.module, self.objects = module, objects
        # What answers the inputs; another than the module only while a recipe's layers are watched.
        self.forward: Callable[..., Any] = module
        # The number of steps whose mean gradient makes one update; a switch may change it.
        self.accumulation = 1
        self._gathered: list[list[Any]] = []
        optimized = {id(parameter) for parameter in self.optimized()}
        # Nobody sets their gradients back, which would grow from step to step, and count where gradients are clipped.
        self._not_optimized = [tensor for tensor in module.parameters() if id(tensor) not in optimized]

    def optimized(self) -> list[Any]:
        """The parameters that the optimizer has."""
        return [parameter for group in self.objects.optimizer.param_groups for parameter in group["params"]]

    def step(self, inputs: Sequence[Any], target: Any) -> Any:
        """One update; the loss before it, which is not waited for."""
        loss, _ = self.backward(inputs, target)
        self.update()
        return loss

    def backward(self, inputs: Sequence[Any], target: Any) -> tuple[Any, Any]:
        """New gradients; the loss and the answer."""
        given = self.objects
        given.optimizer.zero_grad(set_to_none=True)
        for tensor in self._not_optimized:
            tensor.grad = None
        with self.autocast():
            answer = self.answer(inputs)
            loss = self.loss(answer, target)
        if given.regularisation is not None:
            loss = loss + given.regularisation(self.module)
        self.descended(loss, target).backward()
        return loss.detach(), answer

    def answer(self, inputs: Sequence[Any]) -> Any:
        """What the loss is given."""
        return self.forward(*inputs)

    def loss(self, answer: Any, target: Any) -> Any:
        return self.objects.loss(answer, target)

    def descended(self, loss: Any, target: Any) -> Any:
        """The loss whose gradient is taken, from the one that is reported."""
        return loss

    def autocast(self) -> AbstractContextManager[Any]:
        import torch

        if self.objects.precision != "bfloat16":
            return nullcontext()
        kind = next(self.module.parameters()).device.type
        manager: AbstractContextManager[Any] = torch.autocast(kind, torch.bfloat16)
        return manager

    def update(self) -> None:
        """Change the parameters by their gradients, and let a schedule that counts steps go on."""
        if self.accumulation == 1 or self._gather():
            self._apply()
        self.advance("step")

    def advance(self, unit: str) -> None:
        """Let a schedule that counts in this unit go on by one."""
        scheduler = self.objects.scheduler
        if scheduler is None or self.objects.scheduler_unit != unit:
            return
        try:
            scheduler.step()
        except ValueError as error:  # of OneCycleLR
            raise ModelError(
                f"The schedule {type(scheduler).__name__} ends before the training: {first_line(error).rstrip('.')}.",
                hint="Make it for as many steps or epochs as the training has.",
            ) from error

    def _gather(self) -> bool:
        """Keep the gradients until there are enough; whether the parameters have their mean now."""
        learned = self.optimized()
        self._gathered.append([parameter.grad for parameter in learned])
        if len(self._gathered) < self.accumulation:
            return False
        for parameter, *grads in zip(learned, *self._gathered, strict=True):
            known = [grad for grad in grads if grad is not None]
            parameter.grad = sum(known) / self.accumulation if known else None
        self._gathered.clear()
        return True

    def _apply(self) -> None:
        import torch

        given = self.objects
        if given.clip_value is not None:
            torch.nn.utils.clip_grad_value_(self.module.parameters(), given.clip_value)
        if given.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(self.module.parameters(), given.clip_norm)
        given.optimizer.step()

    def captured(
        self, inputs: Sequence[Any], target: Any, tensors: Mapping[str, Any], statistics: Collection[str]
    ) -> Capture:
        """One step like the others, and all that it computed. `tensors`: live ones by name; `statistics`: the names of
        those that are not learned."""
        with self.watched() as activations:
            loss, answer = self.backward(inputs, target)
        learned = {name: tensor for name, tensor in tensors.items() if name not in statistics}
        gradients = {f"gradient/{name}": tensor.grad for name, tensor in learned.items() if tensor.grad is not None}
        # Copied before the update: an optimizer may change gradients in place.
        computed = {**activations, "output/0": answer, "loss": loss, **gradients}
        before = {name: as_array(tensor) for name, tensor in computed.items()}
        self.update()
        after = {f"{'tensor' if name in learned else 'statistic'}/{name}": tensor for name, tensor in tensors.items()}
        made = {**slots(self.objects.optimizer, learned), **after}
        return before | {name: as_array(tensor) for name, tensor in made.items()}

    @contextmanager
    def watched(self) -> Iterator[dict[str, Any]]:
        """Keep what each layer without layers of its own answers, by its path in the module."""
        activations: dict[str, Any] = {}
        layers = [(path, layer) for path, layer in self.module.named_modules() if next(layer.children(), None) is None]
        hooks = [layer.register_forward_hook(_keeper(path, activations)) for path, layer in layers]
        try:
            yield activations
        finally:
            for hook in hooks:
                hook.remove()


def as_array(tensor: Any) -> Array:
    """A copy in float32, or float64 where the tensor has it: numpy has no bfloat16."""
    import torch

    given = tensor.detach()
    wide = given if given.dtype in (torch.float64, torch.float32) else given.float()
    array: Array = wide.cpu().numpy().copy()
    return array


def _keeper(name: str, into: dict[str, Any]) -> Callable[..., None]:
    """A hook that keeps what a layer answers; the second call of a shared layer is "NAME#2"."""

    def keep(_: Any, __: Any, answer: Any) -> None:
        if not hasattr(answer, "shape"):
            return
        key, count = f"activation/{name}", 2
        while key in into:
            key, count = f"activation/{name}#{count}", count + 1
        into[key] = answer.detach().clone()  # the next layer may write into its input

    return keep
