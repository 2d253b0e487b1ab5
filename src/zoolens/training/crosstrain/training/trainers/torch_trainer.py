"""PyTorch, natively: its own layers and optimizers, in a loop as a torch user writes it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ConstraintError, MissingDependency, ModelError
from zoolens.inventory.frameworks.placeholder_modules import TORCH_ALONE, without_torch_compiler
from zoolens.training.crosstrain.training.architectures import build
from zoolens.training.crosstrain.training.initial import initial_weights
from zoolens.training.crosstrain.training.job import Epoch, Job, LoopKind, Outcome, Status
from zoolens.training.crosstrain.training.network import Network
from zoolens.training.crosstrain.training.recipe import FEATURES
from zoolens.training.crosstrain.training.schedule import learning_rates, schedule_semantics
from zoolens.training.crosstrain.training.side_recipe import SideRecipe
from zoolens.training.crosstrain.training.trainers.torch_building import (
    as_arrays,
    build_module,
    build_shipped,
    install,
    named_tensors,
)
from zoolens.training.crosstrain.training.trainers.torch_capture import CaptureLoop
from zoolens.training.crosstrain.training.trainers.torch_loops import (
    Loop,
    Machine,
    arithmetic,
    explained_compilation,
    make_loop,
)
from zoolens.training.crosstrain.training.trainers.torch_losses import make_loss
from zoolens.training.crosstrain.training.trainers.torch_optimizers import (
    make_optimizer,
    momentum_rate,
    optimizer_semantics,
)
from zoolens.training.crosstrain.training.trainers.torch_schedule import RateTable, habits
from zoolens.training.crosstrain.training.trainers.torch_semantics import read_semantics
from zoolens.training.crosstrain.training.trainers.trainer import Trained, Trainer, Weights
from zoolens.training.pairs.data.epoch_order import EpochBatches, batches, steps
from zoolens.training.pairs.data.train_data import TrainData
from zoolens.training.pairs.semantics import USUAL, Semantics

_CHECKED: Final = 256  # steps between two looks at the losses, for which the device is waited for
_TESTED: Final = 500  # test samples at a time
Report = Callable[[Epoch], None]


class Torch(Trainer):
    name: ClassVar = "torch"
    summary: ClassVar = "PyTorch, eager or compiled"
    distributions: ClassVar = ("torch", "torchvision")
    extra: ClassVar = "torch"
    variables: ClassVar[Mapping[str, str]] = {TORCH_ALONE: "1"}
    default_place: ClassVar = 1
    common_networks: ClassVar = True
    captures: ClassVar = True
    knows: ClassVar = FEATURES
    reference_precision: ClassVar = "float64"
    inspector: ClassVar = "zoolens.training.crosstrain.training.live.live_torch:TORCH"

    @classmethod
    def usual_loop(cls, device: str) -> LoopKind:
        """torch.compile takes longer on a CPU than the small networks train."""
        return "eager" if device == "cpu" else "compiled"

    def train(self, job: Job, data: TrainData, weights: Weights | None, report: Report) -> Trained:
        try:
            import torch
        except ImportError as error:
            raise MissingDependency("The trainer torch", "torch", self.extra) from error
        _check(torch, job)
        training = Training(job, data, report)
        device, recipe = job.device, job.recipe
        with (
            arithmetic(torch, recipe.precision, device, job.threads),
            without_torch_compiler() if job.loop == "eager" else nullcontext(),
            explained_compilation(torch, job.loop, device),
        ):
            try:
                training.run(weights)
            except (MemoryError, RuntimeError) as error:
                if not _is_out_of_memory(torch, error):
                    raise
                training.status, training.message = "out-of-memory", f"The memory of {device} is not enough."
        return training.trained(self.versions())

    def live_model(self, side: SideRecipe, weights: Weights) -> Any:
        """A torch.nn.Module in evaluation mode; it takes images with channels first."""
        from zoolens.training.crosstrain.training.live.torch_models import torch_model

        return torch_model(side, weights)

    def answers(self, side: SideRecipe, weights: Weights, images: NDArray[np.uint8]) -> NDArray[np.int32]:
        module = self.live_model(side, weights)
        import torch

        dtype = torch.float64 if side.recipe.precision == "float64" else torch.float32
        with torch.inference_mode():
            parts = (images[start : start + _TESTED] for start in range(0, len(images), _TESTED))
            batches = (torch.from_numpy(part.transpose(0, 3, 1, 2).copy()).to(dtype) / 255 for part in parts)
            classes = [module(batch).argmax(1).numpy() for batch in batches]
        return np.concatenate(classes).astype(np.int32)


class Training:
    """One job as it goes: what is known when it ends, however it ends."""

    def __init__(self, job: Job, data: TrainData, report: Report) -> None:
        self._job, self._data, self._report = job, data, report
        self._began = time.perf_counter()
        self._machine: Machine | None = None
        self._network: Network | None = None
        self._semantics = Semantics()
        self._epochs: list[Epoch] = []
        self._steps = 0
        self._predictions = np.empty(0, np.int32)
        self.status: Status = "finished"
        self.message = ""

    def run(self, weights: Weights | None) -> None:
        job, count = self._job, len(self._data.train_y)
        self._machine = machine = self._built(weights)
        batch = min(job.recipe.batch_size, count)
        loop = self._capturing(machine) if job.capture else make_loop(machine, job.loop, batch, count)
        test = machine.place(self._data.test_x, self._data.test_y)
        orders = self._orders()
        for number in range(1, job.recipe.epochs + 1):
            started = time.perf_counter()
            loss, complete = self._epoch(loop, next(orders))
            seconds = time.perf_counter() - started
            correct = self._test(machine, *test)
            total = len(self._predictions)
            self._epochs.append(Epoch(number=number, loss=loss, correct=correct, total=total, seconds=seconds))
            self._report(self._epochs[-1])
            if not complete or self.status != "finished":
                break

    def trained(self, versions: dict[str, str]) -> Trained:
        machine, weights = self._machine, None
        if machine is not None and self._job.keep_weights and self.status != "out-of-memory":
            weights = as_arrays(named_tensors(machine.module, self._network))
        outcome = Outcome(
            framework=self._job.framework,
            versions=versions,
            status=self.status,
            message=self.message,
            epochs=tuple(self._epochs),
            steps=self._steps,
            parameters=sum(parameter.numel() for parameter in machine.module.parameters()) if machine else None,
            semantics=self._semantics,
            seconds=time.perf_counter() - self._began,
        )
        return Trained(outcome, self._predictions, weights)

    def _built(self, weights: Weights | None) -> Machine:
        import torch

        job, recipe = self._job, self._job.recipe
        torch.manual_seed(recipe.seed)
        module = self._module(weights)
        self._semantics = read_semantics(module)
        module = module.to(job.device, torch.float64 if recipe.precision == "float64" else torch.float32)
        captured = job.loop == "compiled" and job.device != "cpu"
        if job.device != "cpu":
            module = module.to(memory_format=torch.channels_last)
        planned = schedule_semantics(recipe, job.semantics, habits())
        optimizer = make_optimizer(module.parameters(), recipe, planned.over(job.semantics), captured=captured)
        if planned.momentum_rate is not None:
            planned = planned.model_copy(update={"momentum_rate": momentum_rate(optimizer)})
        update = optimizer_semantics(optimizer, recipe)
        self._semantics = self._semantics.over(update).over(job.loss_semantics).over(planned)
        rates = None
        if recipe.schedule.varies:
            each = learning_rates(recipe, planned, steps(recipe, len(self._data.train_y)))
            rates = RateTable(optimizer, each, on_device=job.loop == "compiled" and not job.capture)
        loss, summed = make_loss(recipe, job.semantics), job.semantics.reduction == "sum"
        return Machine(module.train(), optimizer, job.device, recipe.precision, loss, summed=summed, rates=rates)

    def _module(self, weights: Weights | None) -> Any:
        """Builds the module with the given weights, else with torch's own, changed as the semantics say."""
        job, recipe = self._job, self._job.recipe
        height, width, channels = self._data.train_x.shape[1:]
        if recipe.shipped:
            return build_shipped(recipe.architecture, (channels, height, width), self._data.classes)
        semantics = job.semantics
        network = build(recipe.architecture, semantics.over(USUAL), (channels, height, width), self._data.classes)
        module = build_module(network)
        self._network = network
        if weights is not None:
            install(module, network, weights)
        else:
            drawn = initial_weights(network, semantics, recipe.seed, salt=job.framework)
            ours = [
                part for part, rule in ((".kernel", semantics.init), (".bias", semantics.bias_init)) if rule is not None
            ]
            chosen = {name: array for name, array in drawn.items() if name.endswith(tuple(ours))}
            install(module, network, chosen, all_of_them=False)
        return module

    def _capturing(self, machine: Machine) -> Loop:
        if self._network is None:
            raise _no_common_layers()
        return CaptureLoop(machine, self._network, self._job.capture, Path(self._job.output))

    def _orders(self) -> Iterator[EpochBatches]:
        """The epochs' samples; beside a GPU, the next epoch's are put in order while it works on this one's."""
        job = self._job
        numbers = range(1, job.recipe.epochs + 1)
        order = partial(batches, self._data, job.recipe, salt=job.framework)
        if job.device == "cpu":
            yield from map(order, numbers)
            return
        with ThreadPoolExecutor(1) as thread:
            coming = thread.submit(order, 1)
            for number in numbers:
                now = coming.result()
                if number < job.recipe.epochs:
                    coming = thread.submit(order, number + 1)
                yield now

    def _epoch(self, loop: Loop, epoch: EpochBatches) -> tuple[float | None, bool]:
        """The mean loss over its samples, None where it is not finite, and whether every step was taken."""
        loop.load(epoch.x, epoch.y)
        parts = list(epoch.slices())
        total, seen = 0.0, 0
        for start in range(0, len(parts), _CHECKED):
            some = parts[start : start + _CHECKED]
            losses: NDArray[np.float64] = loop.steps(some).double().cpu().numpy()
            self._steps += len(losses)
            if not np.isfinite(losses).all():
                first = self._steps - len(losses) + int(np.argmin(np.isfinite(losses))) + 1
                self.status, self.message = "non-finite", f"The loss of step {first} is not finite."
                return None, False
            sizes = [len(epoch.y[part]) for part in some[: len(losses)]]
            total, seen = total + float(losses @ sizes), seen + sum(sizes)
            if len(losses) < len(some):
                return total / seen, False
        return total / seen, True

    def _test(self, machine: Machine, images: Any, labels: Any) -> int:
        """How many are right; the answers are kept."""
        torch = machine.torch
        machine.module.eval()
        answers, finite = [], []
        with torch.inference_mode():
            for start in range(0, len(labels), _TESTED):
                logits = machine.answer(machine.module, images[start : start + _TESTED])
                answers.append(logits.argmax(1))
                finite.append(logits.isfinite().all())
            self._predictions = torch.cat(answers).cpu().numpy().astype(np.int32)
            if self.status == "finished" and not bool(torch.stack(finite).all()):
                self.status = "non-finite"
                self.message = f"The answers to test samples are not finite after step {self._steps}."
        machine.module.train()
        return int((self._predictions == self._data.test_y).sum())


def _check(torch: Any, job: Job) -> None:
    if job.capture and job.recipe.shipped:
        raise _no_common_layers()  # before such a network is built, which may take seconds
    if job.gpu is not None and job.gpu >= torch.cuda.device_count():
        raise ConstraintError(f"This torch finds no device {job.device!r}.", hint="Train on the device cpu.")


def _no_common_layers() -> ModelError:
    return ModelError(
        "A network as its library ships it has no layers in common with another framework's.",
        hint="Use mode: aligned to compare layer by layer.",
    )


def _is_out_of_memory(torch: Any, error: BaseException) -> bool:
    messages = ("can't allocate memory", "not enough memory")  # torch's words on x86-64 and on ARM
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or any(words in str(error) for words in messages)
