"""The live side that a recipe makes in Keras, on any backend."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ModelError
from zoolens.training.crosstrain.training.initial import own_weights
from zoolens.training.crosstrain.training.job import Job
from zoolens.training.crosstrain.training.schedule import learning_rates, schedule_semantics
from zoolens.training.crosstrain.training.side_recipe import SideRecipe
from zoolens.training.crosstrain.training.trainers.keras_backend import import_keras
from zoolens.training.crosstrain.training.trainers.keras_building import Built, recipe_model
from zoolens.training.crosstrain.training.trainers.keras_layout import activations, load, tensors
from zoolens.training.crosstrain.training.trainers.keras_loops import Loop, coupled_decay
from zoolens.training.crosstrain.training.trainers.keras_optimizers import make_optimizer, optimizer_semantics
from zoolens.training.crosstrain.training.trainers.keras_semantics import resolved
from zoolens.training.crosstrain.training.trainers.recipe_training import RecipeSide, RecipeTraining, Report
from zoolens.training.crosstrain.training.trainers.trainer import Trained, Weights
from zoolens.training.pairs.data.epoch_order import EpochBatches, steps
from zoolens.training.pairs.data.train_data import TrainData
from zoolens.training.pairs.live.keras.keras_step_capture import as_array, updated_state
from zoolens.training.pairs.live.live_training import Capture, Losses
from zoolens.training.pairs.optimizers.keras_schedule import HABITS as SCHEDULE_HABITS
from zoolens.training.pairs.optimizers.keras_slots import momentum_rate

MakeLoop = Callable[[Any, Any, Job], Loop]
_POLICIES: Final = {"bfloat16": "mixed_bfloat16", "float64": "float64"}
_NO_ROOM: Final = ("RESOURCE_EXHAUSTED", "out of memory", "OOM when allocating")


class KerasSide(RecipeSide):
    """`make_loop`: the backend's, from a model, its optimizer and the job."""

    _built: Built
    _model: Any
    _optimizer: Any
    _loop: Loop

    def __init__(self, job: Job, data: TrainData, make_loop: MakeLoop) -> None:
        super().__init__(job, data)
        self._make_loop = make_loop

    def build(self, weights: Weights | None) -> None:
        job = self.job
        blank = weights is not None or job.semantics.init is not None
        self._built, network = recipe_model(job.recipe, job.semantics, self.data.shape, self.data.classes, blank=blank)
        if weights is None and network is not None:
            weights = own_weights(network, job.semantics, job.recipe.seed, job.framework)
        load(self._built, weights or {})
        self._model = model = self._built.probe if job.capture else self._built.model
        planned = schedule_semantics(job.recipe, job.semantics, SCHEDULE_HABITS)
        rates = None
        if job.recipe.schedule.varies:
            rates = learning_rates(job.recipe, planned, steps(job.recipe, len(self.data.train_y)))
        self._optimizer = optimizer = make_optimizer(job.recipe, planned.over(job.semantics), rates)
        optimizer.build(model.trainable_variables)
        update = optimizer_semantics(optimizer, job.recipe, coupled_decay(job))
        if planned.momentum_rate is not None:
            planned = planned.model_copy(update={"momentum_rate": momentum_rate(optimizer)})
        self.semantics = resolved(self._built).over(update).over(job.loss_semantics).over(planned)
        self.parameters = sum(int(np.prod(variable.shape)) for variable in model.trainable_variables)
        self._loop = self._make_loop(model, optimizer, job)

    def losses(self, epoch: EpochBatches) -> Iterator[Losses]:
        yield self._loop.epoch(epoch)

    def captured_step(self, images: NDArray[np.uint8], labels: NDArray[np.int32], *, keep: bool) -> Capture:
        details = self._loop.detailed(images, labels)
        computed = {"loss": as_array(details.loss)}
        if not keep:
            return computed
        self._loop.settle()
        learned, live = self._model.trainable_variables, {tensor.name: tensor for tensor in tensors(self._built)}
        variables = {name: tensor.variable for name, tensor in live.items()}
        gradients = dict(zip(map(id, learned), details.gradients, strict=True))
        state = updated_state(variables, learned, self._optimizer) | {
            f"gradient/{name}": as_array(gradients[id(variable)])
            for name, variable in variables.items()
            if id(variable) in gradients
        }
        answers = activations(self._built, [as_array(answer) for answer in details.answers])
        computed |= {f"activation/{name}": values for name, values in answers.items()}
        return computed | {key: live[key.partition("/")[2]].ours(values) for key, values in state.items()}

    def predict(self) -> tuple[NDArray[np.int32], bool]:
        return self._loop.predict(self.data.test_x)

    def weights(self) -> Weights:
        self._loop.settle()
        return {tensor.name: tensor.ours(np.asarray(tensor.variable.value)) for tensor in tensors(self._built)}

    @staticmethod
    def is_out_of_memory(error: Exception) -> bool:
        return isinstance(error, MemoryError) or any(words in str(error) for words in _NO_ROOM)


def train(side: KerasSide, weights: Weights | None, report: Report, versions: Mapping[str, str]) -> Trained:
    with keras_settings(side.job):
        return RecipeTraining(side, report).train(weights, versions)


def live_model(side: SideRecipe, weights: Weights) -> Any:
    """Channels last. Keras chooses its backend when it is imported: it must be the side's, or not be chosen yet."""
    import_keras(side.framework, "A live Keras model")
    with _network_settings(side.recipe.precision):
        built, _ = recipe_model(side.recipe, side.semantics, side.shape, side.classes, blank=True)
    missing = sorted({tensor.name for tensor in tensors(built)} - weights.keys())
    if missing:
        raise ModelError(f"The weights have no {missing[0]!r}, which the network has.", hint="Are they another's?")
    load(built, weights)
    return built.model


@contextmanager
def keras_settings(job: Job) -> Iterator[None]:
    """Precision and layout are global in Keras: set for one job, and put back with everything it made dropped."""
    import keras

    before = keras.config.floatx()
    keras.config.set_floatx("float64" if job.recipe.precision == "float64" else "float32")
    with _network_settings(job.recipe.precision):
        _seed(keras, job.recipe.seed)
        try:
            yield
        finally:
            keras.utils.clear_session()
            keras.config.set_floatx(before)


@contextmanager
def _network_settings(precision: str) -> Iterator[None]:
    """What the layers of a network take over when they are made."""
    import keras

    kept = keras.config.dtype_policy(), keras.config.image_data_format()
    keras.config.set_dtype_policy(_POLICIES.get(precision, "float32"))
    keras.config.set_image_data_format("channels_last")
    try:
        yield
    finally:
        keras.config.set_dtype_policy(kept[0])
        keras.config.set_image_data_format(kept[1])


def _seed(keras: Any, seed: int) -> None:
    """Seeds the generators. On JAX, Keras draws its seeds from Python's generator; its own function would import
    TensorFlow beside it."""
    if keras.config.backend() == "tensorflow":
        keras.utils.set_random_seed(seed)
    else:
        random.seed(seed)
