"""Training of a user's torch.nn.Module with their own optimizer, loss, schedule, clipping and precision."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Final

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.training.pairs.data.batch import TrainingBatch
from zoolens.training.pairs.live.live_training import Capture, Losses, TrainableNetwork
from zoolens.training.pairs.live.seeding import seed_generators
from zoolens.training.pairs.live.torch.torch_step import TorchStep, as_array
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


class TorchTraining(TorchStep, TrainableNetwork):
    framework: ClassVar[str] = "torch"

    def __init__(self, network: LiveNetwork, objects: TrainingObjects) -> None:
        assert isinstance(network, TorchNetwork)
        TrainableNetwork.__init__(self, network, objects)
        _check(network.module, objects)
        TorchStep.__init__(self, network.module, objects)
        self.live = network
        objects.loss = _with_settings(objects.loss)
        self._numbers = _name(objects.loss) in _OF_NUMBERS
        self._in_evaluation: list[Any] | None = None
        if hasattr(objects.loss, "to"):  # it may hold weights of classes
            objects.loss.to(network.device)
        self._unnamed_before = {name: tensor.clone() for name, tensor in self._unnamed().items()}
        self.remember()

    def _unnamed(self) -> dict[str, Any]:
        """What training changes and no assignment sets: counters of batch norms, buffers that no state_dict has, and
        what a loss learns or counts."""
        named, loss = self.live.named(), self.objects.loss
        buffers = {f"network/{name}": tensor for name, tensor in self.module.named_buffers() if name not in named}
        held = loss.state_dict() if hasattr(loss, "state_dict") else {}
        return buffers | {f"loss/{name}": tensor.detach() for name, tensor in held.items()}

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
            losses = [self.step(*self._placed(batch, where)) for batch in batches]
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

    def answer(self, inputs: Sequence[Any]) -> Any:
        """What the loss is given. Heads that only training has would be left out silently."""
        answer = super().answer(inputs)
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

    def loss(self, answer: Any, target: Any) -> Any:
        if self._numbers and target.shape != answer.shape and target.numel() == answer.numel():
            target = target.reshape(answer.shape)
        loss = super().loss(answer, target)
        if getattr(loss, "ndim", None) != 0:
            shape = tuple(getattr(loss, "shape", ())) or type(loss).__name__
            raise ModelError(
                f"The torch loss answers {shape}, not one number for a batch.",
                hint='Let it return the mean or the sum over the batch (reduction="mean").',
            )
        return loss

    def end_epoch(self) -> None:
        self.advance("epoch")

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
        self.advance("step")
        return rate

    def captured_step(self, batch: TrainingBatch) -> Capture:
        tensors = self.live.named()
        statistics = tensors.keys() - dict(self.module.named_parameters()).keys()
        with self.in_training_mode():
            return self.captured(*self._placed(batch), tensors, statistics)

    def answers(self, inputs: Sequence[Array]) -> Array:
        import torch

        with torch.no_grad(), self.autocast():
            where = self._where()
            return as_array(_tensors_in(self.module(*(self._tensor(array, where) for array in inputs)))[0])

    def loss_of(self, answers: Array, targets: Array) -> float:
        import torch

        with torch.no_grad():
            where = self._where()
            return float(self.loss(self._tensor(answers, where), self._target(targets, where)))


def _check(module: Any, given: TrainingObjects) -> None:
    """Refuse what cannot be a training, before it begins."""
    import torch

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
    known = {id(parameter) for parameter in module.parameters()}
    if not any(id(parameter) in known for group in given.optimizer.param_groups for parameter in group["params"]):
        raise ModelError(
            "The torch optimizer has none of the network's parameters.",
            hint="Make it from network.parameters() of the network that is returned.",
        )


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
