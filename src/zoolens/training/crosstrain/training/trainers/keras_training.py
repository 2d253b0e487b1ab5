"""One job on a Keras model: built, given its first values, trained, tested after every epoch."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ModelError
from zoolens.training.crosstrain.training.architectures import build
from zoolens.training.crosstrain.training.initial import initial_weights
from zoolens.training.crosstrain.training.job import Epoch, Job, Outcome, Status
from zoolens.training.crosstrain.training.network import Network
from zoolens.training.crosstrain.training.schedule import learning_rates, schedule_semantics
from zoolens.training.crosstrain.training.trainers.keras_building import HABITS, Built, build_model, shipped_model
from zoolens.training.crosstrain.training.trainers.keras_capture import CapturingLoop
from zoolens.training.crosstrain.training.trainers.keras_layout import load, tensors
from zoolens.training.crosstrain.training.trainers.keras_loops import Loop, coupled_decay
from zoolens.training.crosstrain.training.trainers.keras_optimizers import make_optimizer, optimizer_semantics
from zoolens.training.crosstrain.training.trainers.keras_semantics import resolved
from zoolens.training.crosstrain.training.trainers.trainer import Trained, Weights
from zoolens.training.pairs.data.epoch_order import batches, steps
from zoolens.training.pairs.data.train_data import TrainData
from zoolens.training.pairs.optimizers.keras_schedule import HABITS as SCHEDULE_HABITS
from zoolens.training.pairs.optimizers.keras_slots import momentum_rate
from zoolens.training.pairs.semantics import Semantics

MakeLoop = Callable[[Any, Any, Job], Loop]
_POLICIES: Final = {"bfloat16": "mixed_bfloat16", "float64": "float64"}
_NO_ROOM: Final = ("RESOURCE_EXHAUSTED", "out of memory", "OOM when allocating")


@dataclass
class TrainingState:
    """What is known so far, whatever happens next."""

    status: Status = "finished"
    message: str = ""
    epochs: list[Epoch] = field(default_factory=list)
    steps: int = 0
    predictions: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    weights: Weights | None = None
    parameters: int | None = None
    semantics: Semantics = field(default_factory=Semantics)


def train(
    job: Job,
    data: TrainData,
    weights: Weights | None,
    report: Callable[[Epoch], None],
    make_loop: MakeLoop,
    versions: Mapping[str, str],
) -> Trained:
    _check(job)
    began = time.perf_counter()
    state = TrainingState()
    with _keras_settings(job):
        try:
            _train(job, data, weights, report, make_loop, state)
        except Exception as error:
            if not _is_out_of_memory(error):
                raise
            state.status, state.message = "out-of-memory", f"The memory of {job.device} is not enough."
    outcome = Outcome(
        framework=job.framework,
        versions=dict(versions),
        status=state.status,
        message=state.message,
        epochs=tuple(state.epochs),
        steps=state.steps,
        parameters=state.parameters,
        semantics=state.semantics,
        seconds=time.perf_counter() - began,
    )
    return Trained(outcome, state.predictions, state.weights)


def _check(job: Job) -> None:
    if job.capture and job.recipe.shipped:
        raise ModelError(
            "A network as its library ships it has no layers in common with another framework's.",
            hint="Use mode: aligned to compare layer by layer.",
        )
    if job.recipe.precision == "tf32" and job.device == "cpu":
        raise ModelError("A CPU has no TF32.", hint="Use precision: float32, or a GPU.")


def _train(
    job: Job,
    data: TrainData,
    weights: Weights | None,
    report: Callable[[Epoch], None],
    make_loop: MakeLoop,
    state: TrainingState,
) -> None:
    built = _built(job, data, weights)
    model = built.probe if job.capture else built.model
    planned = schedule_semantics(job.recipe, job.semantics, SCHEDULE_HABITS)
    rates = None
    if job.recipe.schedule.varies:
        rates = learning_rates(job.recipe, planned, steps(job.recipe, len(data.train_y)))
    optimizer = make_optimizer(job.recipe, planned.over(job.semantics), rates)
    optimizer.build(model.trainable_variables)
    update = optimizer_semantics(optimizer, job.recipe, coupled_decay(job))
    if planned.momentum_rate is not None:
        planned = planned.model_copy(update={"momentum_rate": momentum_rate(optimizer)})
    state.semantics = resolved(built).over(update).over(job.loss_semantics).over(planned)
    state.parameters = sum(int(np.prod(variable.shape)) for variable in model.trainable_variables)
    loop = make_loop(model, optimizer, job)
    if job.capture:
        loop = CapturingLoop(loop, built, model.trainable_variables, optimizer, job)
    _epochs(job, data, loop, report, state)
    if job.keep_weights:
        loop.settle()
        state.weights = {tensor.name: tensor.ours(np.asarray(tensor.variable.value)) for tensor in tensors(built)}


def _epochs(job: Job, data: TrainData, loop: Loop, report: Callable[[Epoch], None], state: TrainingState) -> None:
    for number in range(1, job.recipe.epochs + 1):
        began = time.perf_counter()
        epoch_batches = batches(data, job.recipe, number, salt=job.framework)
        means = loop.epoch(epoch_batches)
        seconds = time.perf_counter() - began
        state.predictions, finite = loop.predict(data.test_x)
        _judge(means, finite, state)
        sizes = np.array([len(epoch_batches.y[part]) for part in epoch_batches.slices()])
        epoch = Epoch(
            number=number,
            loss=float(np.average(means, weights=sizes[: len(means)])) if np.isfinite(means).all() else None,
            correct=int((state.predictions == data.test_y).sum()),
            total=len(data.test_y),
            seconds=seconds,
        )
        state.epochs.append(epoch)
        report(epoch)
        if state.status != "finished" or len(means) < len(sizes):
            return


def _judge(means: NDArray[np.float64], finite: bool, state: TrainingState) -> None:
    """Count the steps, and say where numbers left the range, if they did."""
    bad = np.flatnonzero(~np.isfinite(means))
    if len(bad):
        state.message = f"The loss of step {state.steps + int(bad[0]) + 1} is not finite."
    state.steps += len(means)
    if not len(bad) and not finite:
        state.message = f"The answers to test samples are not finite after step {state.steps}."
    if state.message:
        state.status = "non-finite"


def _built(job: Job, data: TrainData, weights: Weights | None) -> Built:
    """The model with its first values."""
    height, width, channels = data.train_x.shape[1:]
    shape = (channels, height, width)
    if job.recipe.shipped:
        built = shipped_model(job.recipe.architecture, shape, data.classes)
        load(built, weights or {})
        return built
    network = build(job.recipe.architecture, job.semantics.over(HABITS), shape, data.classes)
    built = build_model(network, blank=weights is not None or job.semantics.init is not None)
    load(built, _own_values(job, network) if weights is None else weights)
    return built


def _own_values(job: Job, network: Network) -> Weights:
    """Kernels and biases whose rule the semantics give; the others stay as Keras' layers made them."""
    rules = {".kernel": job.semantics.init, ".bias": job.semantics.bias_init}
    parts = tuple(part for part, rule in rules.items() if rule is not None)
    made = initial_weights(network, job.semantics, job.recipe.seed, salt=job.framework)
    return {name: values for name, values in made.items() if name.endswith(parts)}


@contextmanager
def _keras_settings(job: Job) -> Iterator[None]:
    """Precision and layout are global in Keras: set for one job, and put back with everything it made dropped."""
    import keras

    kept = keras.config.floatx(), keras.config.dtype_policy(), keras.config.image_data_format()
    keras.config.set_floatx("float64" if job.recipe.precision == "float64" else "float32")
    keras.config.set_dtype_policy(_POLICIES.get(job.recipe.precision, "float32"))
    keras.config.set_image_data_format("channels_last")
    _seed(keras, job.recipe.seed)
    try:
        yield
    finally:
        keras.utils.clear_session()
        keras.config.set_floatx(kept[0])
        keras.config.set_dtype_policy(kept[1])
        keras.config.set_image_data_format(kept[2])


def _seed(keras: Any, seed: int) -> None:
    """Seeds the generators. On JAX, Keras draws its seeds from Python's generator; its own function would import
    TensorFlow beside it."""
    if keras.config.backend() == "tensorflow":
        keras.utils.set_random_seed(seed)
    else:
        random.seed(seed)


def _is_out_of_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or any(words in str(error) for words in _NO_ROOM)
