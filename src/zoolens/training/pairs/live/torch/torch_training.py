"""Training of a user's torch.nn.Module with their own optimizer, loss, schedule, clipping and precision."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, ClassVar, Final

import numpy as np

from zoolens.base.errors import ModelError, first_line
from zoolens.training.pairs.data.batch import TrainingBatch
from zoolens.training.pairs.live.live_training import Capture, Losses, TrainableNetwork
from zoolens.training.pairs.live.seeding import seed_generators
from zoolens.training.pairs.live.torch.captured_update import as_array, captured_update
from zoolens.training.pairs.networks.framework import Array, LiveNetwork
from zoolens.training.pairs.networks.torch_framework import TorchNetwork, by_name
from zoolens.training.pairs.networks.training_objects import TrainingObjects

# Losses that take numbers in the shape of the answers, not the numbers of classes.
_OF_NUMBERS: Final = frozenset(
    {
        "BCELoss", "BCEWithLogitsLoss", "MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss",
    }
)  # fmt: skip
# Functions of torch.nn.functional, with the classes that compute the same and show their settings.
_CLASSES: Final = {
    "cross_entropy": "CrossEntropyLoss", "nll_loss": "NLLLoss", "binary_cross_entropy": "BCELoss",
    "binary_cross_entropy_with_logits": "BCEWithLogitsLoss", "mse_loss": "MSELoss", "l1_loss": "L1Loss",
    "smooth_l1_loss": "SmoothL1Loss", "huber_loss": "HuberLoss",
}  # fmt: skip


class TorchTraining(TrainableNetwork):
    framework: ClassVar[str] = "torch"

    def __init__(self, network: LiveNetwork, objects: TrainingObjects) -> None:
        assert isinstance(network, TorchNetwork)
        super().__init__(network, objects)
        self.live = network
        self.module = network.module
        objects.loss = _with_settings(objects.loss)
        self._numbers = _name(objects.loss) in _OF_NUMBERS
        self._in_evaluation: list[Any] | None = None
        if hasattr(objects.loss, "to"):  # it may hold weights of classes
            objects.loss.to(network.device)
        self.accumulation = 1  # number of steps whose mean gradient makes one update; a switch may change it
        self._gathered: list[list[Any]] = []
        self._check()
        optimized = {id(parameter) for parameter in self._optimized()}
        # Nobody sets their gradients back, which would grow from step to step, and count where gradients are clipped.
        self._not_optimized = [tensor for tensor in self.module.parameters() if id(tensor) not in optimized]
        self._unnamed_before = {name: tensor.clone() for name, tensor in self._unnamed().items()}
        self.remember()

    def _unnamed(self) -> dict[str, Any]:
        """What training changes and no assignment sets: counters of batch norms, buffers that no state_dict has, and
        what a loss learns or counts."""
        named, loss = self.live.named(), self.objects.loss
        buffers = {f"network/{name}": tensor for name, tensor in self.module.named_buffers() if name not in named}
        held = loss.state_dict() if hasattr(loss, "state_dict") else {}
        return buffers | {f"loss/{name}": tensor.detach() for name, tensor in held.items()}

    def _check(self) -> None:
        """Refuse what cannot be a training, before it begins."""
        import torch

        given = self.objects
        if not isinstance(given.optimizer, torch.optim.Optimizer) or not callable(given.loss):
            missing = "optimizer" if not isinstance(given.optimizer, torch.optim.Optimizer) else "loss"
            raise ModelError(
                f"The function of the torch network returned no {missing}, which training needs.",
                hint="Let it return (network, optimizer, loss), such as (net, torch.optim.Adam(net.parameters()), "
                "torch.nn.CrossEntropyLoss()).",
            )
        if isinstance(given.optimizer, torch.optim.LBFGS):
            raise ModelError(
                "LBFGS of torch computes the loss several times in a step, which a paired training does not do.",
                hint="Use an optimizer that takes one gradient for each step.",
            )
        if isinstance(given.scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
            raise ModelError(
                "ReduceLROnPlateau changes the learning rate by what a loop measures, and has no place in a paired "
                "training.",
                hint="Use a schedule that depends on the number of epochs or steps alone.",
            )
        known = {id(parameter) for parameter in self.module.parameters()}
        if not any(id(parameter) in known for parameter in self._optimized()):
            raise ModelError(
                "The torch optimizer has none of the network's parameters.",
                hint="Make it from network.parameters() of the network that is returned.",
            )

    def _optimized(self) -> list[Any]:
        return [parameter for group in self.objects.optimizer.param_groups for parameter in group["params"]]

    def remember(self) -> None:
        self._optimizer_before = [
            {key: copy.deepcopy(value) for key, value in group.items() if key != "params"}
            for group in self.objects.optimizer.param_groups
        ]
        self._scheduler_before = _state(self.objects.scheduler)

    def begin(self, seed: int) -> None:
        self.restore()
        for name, tensor in self._unnamed().items():
            if name in self._unnamed_before:  # a switch may have changed the loss
                tensor.copy_(self._unnamed_before[name])
        seed_generators(seed)

    def restore(self) -> None:
        optimizer, scheduler = self.objects.optimizer, self.objects.scheduler
        optimizer.state.clear()
        self._gathered.clear()
        for group, before in zip(optimizer.param_groups, self._optimizer_before, strict=True):
            group.update(copy.deepcopy(before))
        if scheduler is not None and self._scheduler_before is not None:
            scheduler.load_state_dict(copy.deepcopy(self._scheduler_before))

    @contextmanager
    def in_training_mode(self) -> Iterator[None]:
        """Training mode; outside of it the network is in evaluation mode, as everybody else expects it. Layers that the
        user's function left in evaluation mode stay in it."""
        self._to_training()
        try:
            yield
        finally:
            self.module.eval()

    def _to_training(self) -> None:
        self.module.train()
        for layer in self.live.evaluating:
            layer.eval()

    def steps(self, batches: Iterable[TrainingBatch]) -> Losses:
        import torch

        with self.in_training_mode():
            where = self._where()
            losses = [self._step(*self._placed(batch, where)) for batch in batches]
        return np.asarray(torch.stack(losses).double().cpu().numpy() if losses else [], np.float64)

    def _where(self) -> tuple[Any, Any]:
        """The device and the floating type of the parameters, which are looked up once for many steps."""
        return self.live.device, self.live.floating()

    def _placed(self, batch: TrainingBatch, where: tuple[Any, Any] | None = None) -> tuple[list[Any], Any]:
        where = where or self._where()
        return [self._tensor(array, where) for array in batch.inputs], self._target(batch.targets, where)

    def _tensor(self, array: Array, where: tuple[Any, Any]) -> Any:
        import torch

        device, floating = where
        array = np.ascontiguousarray(array)
        # a layer may work in place, so that what is read-only is copied
        own = array.flags.writeable
        tensor = torch.from_numpy(array).to(device) if own else torch.tensor(array, device=device)
        return tensor.to(floating) if tensor.is_floating_point() else tensor.long()

    def _target(self, targets: Array, where: tuple[Any, Any]) -> Any:
        if self._numbers and targets.dtype.kind in "iub":
            targets = targets.astype(np.float32)
        return self._tensor(targets, where)

    def _step(self, inputs: Sequence[Any], target: Any) -> Any:
        loss, _ = self._backward(inputs, target)
        self._update()
        return loss

    def _backward(self, inputs: Sequence[Any], target: Any) -> tuple[Any, Any]:
        given = self.objects
        given.optimizer.zero_grad(set_to_none=True)
        for tensor in self._not_optimized:
            tensor.grad = None
        with self._autocast():
            answer = self._answer(inputs)
            loss = self._loss(answer, target)
        if given.regularisation is not None:
            loss = loss + given.regularisation(self.module)
        loss.backward()
        return loss.detach(), answer

    def _answer(self, inputs: Sequence[Any]) -> Any:
        """What the loss is given. Heads that only training has would be left out silently."""
        answer = self.module(*inputs)
        if hasattr(answer, "shape"):
            return answer
        given = _tensors_in(answer)
        if len(given) > len(self._evaluated(inputs)):
            raise ModelError(
                f"The torch network answers {len(given)} tensors in training, of which the loss would be given the "
                "first alone.",
                hint="Build it without the heads that only training has (aux_logits=False), or add their losses in a "
                "module of your own around it.",
            )
        return given[0]

    def _evaluated(self, inputs: Sequence[Any]) -> list[Any]:
        """The tensors of an answer in evaluation mode; asked for once, as it takes as long as a step."""
        import torch

        if self._in_evaluation is None:
            self.module.eval()
            with torch.no_grad():
                self._in_evaluation = _tensors_in(self.module(*(tensor[:1] for tensor in inputs)))
            self._to_training()
        return self._in_evaluation

    def _loss(self, answer: Any, target: Any) -> Any:
        if self._numbers and target.shape != answer.shape and target.numel() == answer.numel():
            target = target.reshape(answer.shape)
        loss = self.objects.loss(answer, target)
        if getattr(loss, "ndim", None) != 0:
            shape = tuple(getattr(loss, "shape", ())) or type(loss).__name__
            raise ModelError(
                f"The torch loss answers {shape}, not one number for a batch.",
                hint='Let it return the mean or the sum over the batch (reduction="mean").',
            )
        return loss

    def _autocast(self) -> AbstractContextManager[Any]:
        import torch

        if self.objects.precision != "bfloat16":
            return nullcontext()
        manager: AbstractContextManager[Any] = torch.autocast(str(self.live.device).partition(":")[0], torch.bfloat16)
        return manager

    def _update(self) -> None:
        if self.accumulation == 1 or self._gather():
            self._apply()
        self._advance("step")

    def _advance(self, unit: str) -> None:
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
        learned = self._optimized()
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

    def end_epoch(self) -> None:
        self._advance("epoch")

    def rates(self, epochs: Sequence[int]) -> tuple[float, ...] | None:
        """Finds the rates by letting the schedule go on without any step. One that changes more than the rate, or the
        rates of groups differently, is not known by it."""
        self.begin(0)
        every_rate: list[float] = []
        groups, others = _groups_rates(self.objects.optimizer), _constants(self.objects.optimizer)
        known = True
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of a schedule that goes on before the optimizer
            for steps in epochs:
                for _ in range(steps):
                    rates = _groups_rates(self.objects.optimizer)
                    known &= np.allclose(rates * groups[0], groups * rates[0], rtol=1e-5, atol=0)
                    known &= _constants(self.objects.optimizer) == others
                    every_rate.append(self._next_rate())
                self.end_epoch()
        self.begin(0)
        return tuple(every_rate) if known else None

    def _next_rate(self) -> float:
        rate = float(self.objects.optimizer.param_groups[0]["lr"])
        self._advance("step")
        return rate

    def captured_step(self, batch: TrainingBatch) -> Capture:
        activations: dict[str, Any] = {}
        hooks = [layer.register_forward_hook(_keeper(name, activations)) for name, layer in _leaves(self.module)]
        try:
            with self.in_training_mode():
                loss, answer = self._backward(*self._placed(batch))
        finally:
            for hook in hooks:
                hook.remove()
        tensors = self.live.named()
        statistics = tensors.keys() - dict(self.module.named_parameters()).keys()
        computed = {**activations, "output/0": answer, "loss": loss}
        return captured_update(computed, tensors, statistics, self.objects.optimizer, self._update)

    def answers(self, inputs: Sequence[Array]) -> Array:
        import torch

        with torch.no_grad(), self._autocast():
            where = self._where()
            return as_array(_tensors_in(self.module(*(self._tensor(array, where) for array in inputs)))[0])

    def loss_of(self, answers: Array, targets: Array) -> float:
        import torch

        with torch.no_grad():
            where = self._where()
            return float(self._loss(self._tensor(answers, where), self._target(targets, where)))


def _state(scheduler: Any) -> dict[str, Any] | None:
    return None if scheduler is None else copy.deepcopy(scheduler.state_dict())


def _constants(optimizer: Any) -> list[tuple[Any, Any]]:
    """What a schedule may change beside the learning rate."""
    return [(group.get("momentum"), group.get("betas")) for group in optimizer.param_groups]


def _groups_rates(optimizer: Any) -> Array:
    return np.array([float(group["lr"]) for group in optimizer.param_groups])


def _with_settings(loss: Any) -> Any:
    import torch

    name = _CLASSES.get(getattr(loss, "__name__", ""))
    own = name is not None and loss is getattr(torch.nn.functional, loss.__name__)
    return getattr(torch.nn, name)() if own and name is not None else loss


def _name(loss: Any) -> str:
    return str(getattr(loss, "__name__", type(loss).__name__))


def _tensors_in(answer: Any) -> list[Any]:
    """The tensors in what a network answers, in the order in which `port check` has them."""
    from zoolens.findings.graph.importers.torch.trace import tensors_in

    return list(tensors_in([by_name(answer)]))


def _leaves(module: Any) -> list[tuple[str, Any]]:
    return [(path, layer) for path, layer in module.named_modules() if next(layer.children(), None) is None]


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
