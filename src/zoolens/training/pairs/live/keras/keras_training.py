"""Training of a user's Keras model, compiled or with an optimizer and a loss beside it, on any backend."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Final

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.training.pairs.data.batch import TrainingBatch
from zoolens.training.pairs.live.keras.keras_loss_switches import loss_name
from zoolens.training.pairs.live.keras.keras_step_capture import captured
from zoolens.training.pairs.live.keras.keras_steps import steps_of
from zoolens.training.pairs.live.live_training import Capture, Losses, TrainableNetwork
from zoolens.training.pairs.live.seeding import seed_generators
from zoolens.training.pairs.live.shared_settings import rounded
from zoolens.training.pairs.networks.framework import Array, LiveNetwork, plain
from zoolens.training.pairs.networks.keras_framework import KerasNetwork
from zoolens.training.pairs.networks.training_objects import TrainingObjects

# Losses that take a row for each sample, with a 1 in the place of its class.
_OF_ROWS: Final = frozenset({"CategoricalCrossentropy", "CategoricalFocalCrossentropy", "CategoricalHinge"})
_OF_NUMBERS: Final = frozenset(
    {
        "BinaryCrossentropy", "BinaryFocalCrossentropy", "MeanSquaredError", "MeanAbsoluteError", "Huber", "LogCosh",
        "MeanAbsolutePercentageError", "MeanSquaredLogarithmicError", "Hinge", "SquaredHinge", "Poisson",
    }
)  # fmt: skip


class KerasTraining(TrainableNetwork):
    framework: ClassVar[str] = "keras"

    def __init__(self, network: LiveNetwork, objects: TrainingObjects) -> None:
        import keras

        assert isinstance(network, KerasNetwork)
        super().__init__(network, objects)
        self.keras, self.live = keras, network
        self.model = network.given
        self._check()
        self._compile()
        self.optimizer.build(self.model.trainable_variables)
        convert = keras.ops.convert_to_numpy
        self._random_before = [(variable, np.array(convert(variable.value))) for variable in self._random_states()]
        self.remember()

    @property
    def optimizer(self) -> Any:
        return self.model.optimizer

    def renew(self) -> None:
        """Trace the step anew: a graph keeps the constants that it was made with."""
        self._steps = steps_of(self.model)
        self._takes = loss_name(self.keras, self.model.loss)

    def _check(self) -> None:
        given = self.objects
        own = self.keras.Model.train_step
        if getattr(type(self.model), "train_step", own) is not own:
            raise ModelError(
                "The Keras model has a train_step of its own, which a paired training does not repeat.",
                hint="Use the model's compile(optimizer, loss) alone.",
            )
        for name, instead in _INSTEAD.items():
            if getattr(given, name) is not None:
                raise ModelError(f"{name} stands beside a Keras model.", hint=f"Use {instead}.")

    def _compile(self) -> None:
        """Keep what the model was compiled with; what stands beside it comes first."""
        given, model = self.objects, self.model
        compiled = bool(getattr(model, "compiled", False))
        optimizer = given.optimizer or (model.optimizer if compiled else None)
        loss = given.loss or (model.loss if compiled else None)
        if optimizer is None or loss is None:
            missing = "optimizer" if optimizer is None else "loss"
            raise ModelError(
                f"The function of the Keras model returned no {missing}, which training needs.",
                hint='Compile the model, as model.compile("adam", keras.losses.SparseCategoricalCrossentropy('
                "from_logits=True)), or return (model, optimizer, loss).",
            )
        if isinstance(loss, list | tuple | dict):
            raise ModelError("The Keras model has several losses.", hint="Compile it with one.")
        if given.optimizer is not None or given.loss is not None or not compiled:
            model.compile(optimizer=optimizer, loss=loss)
        given.optimizer, given.loss = model.optimizer, model.loss

    def remember(self) -> None:
        self.renew()
        convert = self.keras.ops.convert_to_numpy
        self._before = [np.array(convert(variable.value)) for variable in self.optimizer.variables]

    def _random_states(self) -> list[Any]:
        """The states of dropout's generators, which every step moves on."""
        return [variable for variable in self.model.non_trainable_variables if "int" in str(variable.dtype)]

    def restore(self) -> None:
        for variable, value in zip(self.optimizer.variables, self._before, strict=True):
            variable.assign(value)

    def begin(self, seed: int) -> None:
        self.restore()
        for variable, value in self._random_before:
            variable.assign(_drawing_under(value, seed))
        seed_generators(seed)

    def steps(self, batches: Iterable[TrainingBatch]) -> Losses:
        return self._steps.run((self.live.turned(batch.inputs), self._target(batch.targets)) for batch in batches)

    def _target(self, targets: Array) -> Array:
        if targets.dtype.kind not in "iub":
            return targets
        if self._takes in _OF_ROWS and targets.ndim == 1:
            classes = int(self.live.output_size())
            if len(targets) and int(targets.max()) >= classes:
                raise ModelError(f"The network has {classes} answers, and the data have a class {int(targets.max())}.")
            return np.eye(classes, dtype=np.float32)[targets]
        return targets.astype(np.float32) if self._takes in _OF_NUMBERS else targets

    def end_epoch(self) -> None:
        """Schedules of Keras count steps."""

    def rates(self, epochs: Sequence[int]) -> tuple[float, ...] | None:
        optimizer = getattr(self.optimizer, "inner_optimizer", self.optimizer)
        schedule, count = optimizer._learning_rate, sum(epochs)
        if not isinstance(schedule, self.keras.optimizers.schedules.LearningRateSchedule):
            return (rounded(float(optimizer.learning_rate)),) * count if not callable(schedule) else None
        return tuple(rounded(float(rate)) for rate in self._scheduled(schedule, count))

    def _scheduled(self, schedule: Any, count: int) -> list[float]:
        """The rates of all steps, at once where that gives the same: one by one they take milliseconds each."""
        rates, looked_at = self._at_once(schedule, count), sorted({0, count // 3, count - 1})
        alone = [float(schedule(step)) for step in looked_at]
        if rates and np.allclose([rates[step] for step in looked_at], alone, rtol=1e-5, atol=1e-6 * max(rates)):
            return rates
        return [float(schedule(step)) for step in range(count)]

    def _at_once(self, schedule: Any, count: int) -> list[float]:
        """Empty where the schedule cannot be asked for several steps, as one of the user's own that branches."""
        ops = self.keras.ops
        try:
            rates = ops.vectorized_map(lambda step: ops.cast(schedule(step), "float32"), ops.arange(count))
            return [float(rate) for rate in ops.convert_to_numpy(rates)]
        except Exception:  # whatever the backend raises
            return []

    def captured_step(self, batch: TrainingBatch) -> Capture:
        inputs, target = self.live.turned(batch.inputs), self._target(batch.targets)
        return captured(
            self.model,
            self.live.named(),
            self.optimizer,
            inputs,
            lambda: self._steps.compute(inputs, target),
            self._steps.update,
        )

    def answers(self, inputs: Sequence[Array]) -> Array:
        with self._averaged():
            answer = self.keras.tree.flatten(self._steps.answer(self.live.turned(inputs)))[0]
        return np.array(plain(self.keras.ops.convert_to_numpy(answer)))

    @contextmanager
    def _averaged(self) -> Iterator[None]:
        """The moving average of the weights where the optimizer keeps one, since `fit` ends with it."""
        inner = getattr(self.optimizer, "inner_optimizer", self.optimizer)
        if not getattr(inner, "use_ema", False) or not int(inner.iterations):
            yield
            return
        variables = self.model.trainable_variables
        own = [np.array(self.keras.ops.convert_to_numpy(variable.value)) for variable in variables]
        self.optimizer.finalize_variable_values(variables)
        try:
            yield
        finally:
            for variable, value in zip(variables, own, strict=True):
                variable.assign(value)

    def loss_of(self, answers: Array, targets: Array) -> float:
        loss = self.keras.losses.get(self.model.loss)
        given = self.keras.ops.convert_to_tensor
        return float(self.keras.ops.mean(loss(given(self._target(targets)), given(answers))))


def _drawing_under(state: Array, seed: int) -> Array:
    """The state of a generator of Keras, a seed and a counter, under another seed of the training."""
    if state.shape != (2,):
        return state
    return np.array([int(state[0]) + seed, state[1]]).astype(state.dtype)


# What a Keras model has instead of what stands beside a network of torch.
_INSTEAD: Final = {
    "scheduler": "a schedule as the optimizer's learning_rate",
    "clip_norm": "global_clipnorm of the optimizer",
    "clip_value": "clipvalue of the optimizer",
    "precision": "the model's dtype, as keras.config.set_dtype_policy sets it",
    "regularisation": "kernel_regularizer of the layers",
}
