"""Training on Keras' TensorFlow backend: one graph that takes all steps of an epoch, or eagerly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ConstraintError
from zoolens.training.crosstrain.training.job import Job
from zoolens.training.crosstrain.training.trainers.keras_loops import (
    TEST_BATCH,
    Details,
    as_list,
    coupled_decay,
    decayed,
    scaled,
)
from zoolens.training.crosstrain.training.trainers.keras_losses import make_losses, scaled_gradients
from zoolens.training.pairs.data.epoch_order import EpochBatches


class TensorFlowLoop:
    """`model` answers logits, or a list that ends with them."""

    def __init__(self, model: Any, optimizer: Any, job: Job) -> None:
        import tensorflow

        self._tf = tensorflow
        self._model, self._optimizer = model, optimizer
        self._job, self._decay, self._losses = job, coupled_decay(job), make_losses(job)
        # One replica has nothing to sum, and TensorFlow never forgets a graph in which gradients were "reduced".
        optimizer._all_reduce_sum_gradients = _as_it_is
        graph: Callable[..., Any] = _graph(tensorflow) if job.loop == "compiled" else _as_it_is
        self._steps, self._detailed, self._answer = graph(self._train_steps), graph(self._train), graph(self._test)

    def epoch(self, batches: EpochBatches) -> NDArray[np.float64]:
        tf = self._tf
        x, y = tf.constant(batches.x), tf.constant(batches.y)
        size = batches.batch_size
        whole, rest = divmod(len(batches.y), size)
        losses = [self._steps(x, y, tf.constant(whole), size)]
        if rest:
            losses.append(self._steps(x[-rest:], y[-rest:], tf.constant(1), rest))
        return np.concatenate(losses).astype(np.float64)

    def detailed(self, x: NDArray[np.uint8], y: NDArray[np.int32]) -> Details:
        return Details(*self._detailed(self._tf.constant(x), self._tf.constant(y)))

    def predict(self, x: NDArray[np.uint8]) -> tuple[NDArray[np.int32], bool]:
        images = self._tf.constant(x)
        parts = [self._answer(images[start : start + TEST_BATCH]) for start in range(0, len(x), TEST_BATCH)]
        return np.concatenate([np.asarray(classes) for classes, _ in parts]), all(bool(finite) for _, finite in parts)

    def settle(self) -> None:
        """The variables are the state."""

    def _train_steps(self, x: Any, y: Any, count: Any, size: int) -> Any:
        """`count` batches from the start of x and y, in a loop of TensorFlow's own; `size` is static, which makes some
        operations faster."""
        import keras

        tf = self._tf

        def step(number: Any, losses: Any) -> tuple[Any, Any]:
            start = number * size
            part = tf.slice(x, [start, 0, 0, 0], [size, *x.shape[1:]])
            mean, _, _ = self._train(part, tf.slice(y, [start], [size]))
            return number + 1, losses.write(number, mean)

        losses = tf.TensorArray(keras.config.floatx(), count)
        _, losses = tf.while_loop(
            lambda number, _: number < count, step, (tf.constant(0), losses), parallel_iterations=1
        )
        return losses.stack()

    def _train(self, x: Any, y: Any) -> tuple[Any, list[Any], list[Any]]:
        variables = self._model.trainable_variables
        values = [variable.value for variable in variables]
        with self._tf.GradientTape() as tape:
            answers = as_list(self._model(scaled(x), training=True))
            mean = self._tf.reduce_mean(self._losses(answers[-1], y))
        gradients = scaled_gradients(self._job, tape.gradient(mean, values), y)
        self._optimizer.apply(decayed(gradients, values, self._decay), variables)
        return mean, answers, gradients

    def _test(self, x: Any) -> tuple[Any, Any]:
        logits = as_list(self._model(scaled(x), training=False))[-1]
        finite = self._tf.reduce_all(self._tf.math.is_finite(logits))
        return self._tf.argmax(logits, axis=-1, output_type=self._tf.int32), finite


def _graph(tf: Any) -> Any:
    return tf.function(reduce_retracing=True, autograph=False)


def _as_it_is(given: Any) -> Any:
    return given


@contextmanager
def tensorflow_settings(job: Job) -> Iterator[None]:
    """Device, threads and the precision of matrix units for one job."""
    import tensorflow as tf

    _set_threads(tf, job.threads)
    logger, config = tf.get_logger(), tf.config.experimental
    kept = logger.level, config.tensor_float_32_execution_enabled()
    logger.setLevel("ERROR")  # it warns of new graphs, which every job must make
    config.enable_tensor_float_32_execution(job.recipe.precision == "tf32")
    try:
        with tf.device(_device(tf, job)):
            yield
    finally:
        logger.setLevel(kept[0])
        config.enable_tensor_float_32_execution(kept[1])


def _device(tf: Any, job: Job) -> str:
    number = job.gpu
    if number is None:
        return "/CPU:0"
    if number >= len(tf.config.list_logical_devices("GPU")):
        raise ConstraintError(
            f"TensorFlow finds no device {job.device!r} here.",
            hint="Use the device cpu, or a build of TensorFlow for it.",
        )
    return f"/GPU:{number}"


def _set_threads(tf: Any, threads: int | None) -> None:
    """TensorFlow fixes its pool at its first operation."""
    if threads is None or tf.config.threading.get_intra_op_parallelism_threads() == threads:
        return
    try:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
    except RuntimeError as error:
        raise ConstraintError(
            f"TensorFlow cannot change to {threads} threads after its first operation.",
            hint="Start another process for another number of threads.",
        ) from error
