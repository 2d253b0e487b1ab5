"""PyTorch, natively: its own layers and optimizers, in a loop as a torch user writes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ConstraintError, MissingDependency
from zoolens.inventory.frameworks.placeholder_modules import TORCH_ALONE, without_torch_compiler
from zoolens.training.crosstrain.training.architectures import is_statistic
from zoolens.training.crosstrain.training.initial import own_weights
from zoolens.training.crosstrain.training.job import Job, LoopKind
from zoolens.training.crosstrain.training.network import Network
from zoolens.training.crosstrain.training.recipe import FEATURES
from zoolens.training.crosstrain.training.schedule import learning_rates, schedule_semantics
from zoolens.training.crosstrain.training.side_recipe import SideRecipe
from zoolens.training.crosstrain.training.trainers.recipe_training import RecipeSide, RecipeTraining, Report
from zoolens.training.crosstrain.training.trainers.torch_building import (
    as_arrays,
    install,
    named_tensors,
    recipe_module,
)
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
from zoolens.training.pairs.data.epoch_order import EpochBatches, steps
from zoolens.training.pairs.data.train_data import TrainData
from zoolens.training.pairs.live.live_training import Capture, Losses
from zoolens.training.pairs.live.torch.torch_step import as_array
from zoolens.training.pairs.networks.training_objects import TrainingObjects

_CHECKED: Final = 256  # steps between two looks at the losses, for which the device is waited for
_TESTED: Final = 500  # test samples at a time


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
        if job.gpu is not None and job.gpu >= torch.cuda.device_count():
            raise ConstraintError(f"This torch finds no device {job.device!r}.", hint="Train on the device cpu.")
        training = RecipeTraining(TorchSide(job, data), report)
        with (
            arithmetic(torch, job.recipe.precision, job.device, job.threads),
            without_torch_compiler() if job.loop == "eager" else nullcontext(),
            explained_compilation(torch, job.loop, job.device),
        ):
            return training.train(weights, self.versions())

    def live_model(self, side: SideRecipe, weights: Weights) -> Any:
        """A torch.nn.Module in evaluation mode, on the CPU; it takes images with channels first."""
        try:
            import torch
        except ImportError as error:
            raise MissingDependency("A live torch model", "torch", "torch") from error
        module, network = recipe_module(side.recipe, side.semantics, side.shape, side.classes)
        module = module.to(torch.float64 if side.recipe.precision == "float64" else torch.float32)
        install(module, network, weights)
        return module.eval()

    def answers(self, side: SideRecipe, weights: Weights, images: NDArray[np.uint8]) -> NDArray[np.int32]:
        module = self.live_model(side, weights)
        import torch

        dtype = torch.float64 if side.recipe.precision == "float64" else torch.float32
        with torch.inference_mode():
            parts = (images[start : start + _TESTED] for start in range(0, len(images), _TESTED))
            batches = (torch.from_numpy(part.transpose(0, 3, 1, 2).copy()).to(dtype) / 255 for part in parts)
            classes = [module(batch).argmax(1).numpy() for batch in batches]
        return np.concatenate(classes).astype(np.int32)


class TorchSide(RecipeSide):
    _network: Network | None = None
    _machine: Machine
    _loop: Loop

    def build(self, weights: Weights | None) -> None:
        import torch

        job, recipe = self.job, self.job.recipe
        torch.manual_seed(recipe.seed)
        module = self._module(weights)
        self.semantics = read_semantics(module)
        module = module.to(job.device, torch.float64 if recipe.precision == "float64" else torch.float32)
        captured = job.loop == "compiled" and job.device != "cpu"
        if job.device != "cpu":
            module = module.to(memory_format=torch.channels_last)
        planned = schedule_semantics(recipe, job.semantics, habits())
        optimizer = make_optimizer(module.parameters(), recipe, planned.over(job.semantics), captured=captured)
        if planned.momentum_rate is not None:
            planned = planned.model_copy(update={"momentum_rate": momentum_rate(optimizer)})
        update = optimizer_semantics(optimizer, recipe)
        self.semantics = self.semantics.over(update).over(job.loss_semantics).over(planned)
        objects = TrainingObjects(module, optimizer, make_loss(recipe, job.semantics), scheduler_unit="step")
        objects.precision = "bfloat16" if recipe.precision == "bfloat16" else None
        count = len(self.data.train_y)
        if recipe.schedule.varies:
            each = learning_rates(recipe, planned, steps(recipe, count))
            objects.scheduler = RateTable(optimizer, each, on_device=job.loop == "compiled" and not job.capture)
        self._machine = Machine(module.train(), objects, job)
        self.parameters = sum(parameter.numel() for parameter in module.parameters())
        if not job.capture:  # a compiled step shows nothing of its inside
            self._loop = make_loop(self._machine, job.loop, min(recipe.batch_size, count), count)
        self._test = self._machine.place(self.data.test_x, self.data.test_y)

    def _module(self, weights: Weights | None) -> Any:
        """Builds the module with the given weights, else with torch's own, changed as the semantics say."""
        recipe, semantics = self.job.recipe, self.job.semantics
        module, self._network = recipe_module(recipe, semantics, self.data.shape, self.data.classes)
        if self._network is not None and weights is None:
            own = own_weights(self._network, semantics, recipe.seed, self.job.framework)
            install(module, self._network, own, all_of_them=False)
        elif self._network is not None:
            install(module, self._network, weights or {})
        return module

    def losses(self, epoch: EpochBatches) -> Iterator[Losses]:
        self._loop.load(epoch.x, epoch.y)
        parts = list(epoch.slices())
        for start in range(0, len(parts), _CHECKED):
            yield self._loop.steps(parts[start : start + _CHECKED]).double().cpu().numpy()

    def captured_step(self, images: NDArray[np.uint8], labels: NDArray[np.int32], *, keep: bool) -> Capture:
        placed, target = self._machine.place(images, labels)
        if not keep:
            return {"loss": as_array(self._machine.step((placed,), target))}
        tensors = named_tensors(self._machine.module, self._network)
        captured = self._machine.captured((placed,), target, tensors, set(filter(is_statistic, tensors)))
        del captured["output/0"]  # it is the activation of the last layer
        return captured

    def predict(self) -> tuple[NDArray[np.int32], bool]:
        torch, machine = self._machine.torch, self._machine
        images, _ = self._test
        machine.module.eval()
        answers, finite = [], []
        with torch.inference_mode(), machine.autocast():
            for start in range(0, len(images), _TESTED):
                logits = machine.answer((images[start : start + _TESTED],))
                answers.append(logits.argmax(1))
                finite.append(logits.isfinite().all())
            classes = torch.cat(answers).cpu().numpy().astype(np.int32)
            all_finite = bool(torch.stack(finite).all())
        machine.module.train()
        return classes, all_finite

    def weights(self) -> Weights:
        return as_arrays(named_tensors(self._machine.module, self._network))

    @staticmethod
    def is_out_of_memory(error: Exception) -> bool:
        import torch

        messages = ("can't allocate memory", "not enough memory")  # torch's words on x86-64 and on ARM
        kinds = MemoryError | torch.OutOfMemoryError
        return isinstance(error, kinds) or (
            isinstance(error, RuntimeError) and any(words in str(error) for words in messages)
        )
