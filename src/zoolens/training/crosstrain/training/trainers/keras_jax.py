"""Training on Keras' JAX backend: a compiled step on the CPU, a whole epoch as one program on an accelerator.

XLA runs the body of a loop on one core of a CPU, so that steps are dispatched one by one there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ConstraintError, ModelError
from zoolens.inventory.runtimes.jax.jax_cuda import Mover, graph_options
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

State = tuple[Any, Any, Any]  # learned, fixed (statistics and random states), the optimizer's
_MATMUL: Final = {"tf32": "tensorfloat32", "bfloat16": "bfloat16"}


class JaxLoop:
    """`model` answers logits, or a list that ends with them. `whole_epoch`: all full batches in one program; None: on
    accelerators."""

    def __init__(self, model: Any, optimizer: Any, job: Job, *, whole_epoch: bool | None = None) -> None:
        import jax

        if job.loop == "eager":
            raise ConstraintError(
                "The trainer jax has no eager loop: without compilation a single step takes seconds.",
                hint="Use the loop compiled.",
            )
        self._jax, self._model, self._optimizer = jax, model, optimizer
        self._job, self._decay, self._losses = job, coupled_decay(job), make_losses(job)
        self._whole_epoch = job.device != "cpu" if whole_epoch is None else whole_epoch
        how = {} if job.device == "cpu" else {"compiler_options": graph_options(jax)}
        self._step = jax.jit(self._train_slice, static_argnames="size", donate_argnums=0, **how)
        self._scan = jax.jit(self._train_all, static_argnames=("count", "size"), donate_argnums=0, **how)
        self._place = jax.numpy.asarray if job.device == "cpu" else Mover(jax).moved
        self._detailed = jax.jit(self._train, donate_argnums=0)
        self._answer = jax.jit(self._test, static_argnames="size")
        # copies, since the steps consume their state and the model must outlive a step that fails
        learned, fixed, slots = ([jax.numpy.copy(v.value) for v in group] for group in self._variables())
        self._state: State = (learned, fixed, slots)

    def epoch(self, batches: EpochBatches) -> NDArray[np.float64]:
        x, y = self._place(batches.x), self._jax.numpy.asarray(batches.y)
        size, samples = batches.batch_size, len(batches.y)
        losses, done = [], 0
        if self._whole_epoch:
            done = samples // size * size
            self._state, means = self._scan(self._state, x, y, count=samples // size, size=size)
            losses.append(means)
        state, step = self._state, self._step
        for start in range(done, samples, size):
            state, loss = step(state, x, y, start, size=min(size, samples - start))
            losses.append(loss)
        self._state = state
        return np.concatenate([np.atleast_1d(np.asarray(loss, np.float64)) for loss in self._jax.device_get(losses)])

    def detailed(self, x: NDArray[np.uint8], y: NDArray[np.int32]) -> Details:
        self._state, details = self._detailed(self._state, self._jax.numpy.asarray(x), self._jax.numpy.asarray(y))
        return Details(*details)

    def predict(self, x: NDArray[np.uint8]) -> tuple[NDArray[np.int32], bool]:
        """The last part is filled up, so that one program serves all; a network that tests looks at one image."""
        size = min(TEST_BATCH, len(x))
        filled = np.concatenate([x, np.zeros((-len(x) % size, *x.shape[1:]), x.dtype)])
        learned, fixed, _ = self._state
        images = self._jax.numpy.asarray(filled)
        parts = [self._answer(learned, fixed, images, start, size=size) for start in range(0, len(filled), size)]
        fetched = self._jax.device_get(parts)
        classes = np.concatenate([classes for classes, _ in fetched])[: len(x)]
        return classes, bool(np.concatenate([finite for _, finite in fetched])[: len(x)].all())

    def settle(self) -> None:
        for group, values in zip(self._variables(), self._state, strict=True):
            for variable, value in zip(group, values, strict=True):
                variable.assign(self._jax.numpy.copy(value))

    def _variables(self) -> tuple[Any, Any, Any]:
        return self._model.trainable_variables, self._model.non_trainable_variables, self._optimizer.variables

    def _train_all(self, state: State, x: Any, y: Any, *, count: int, size: int) -> tuple[State, Any]:
        def step(state: State, batch: tuple[Any, Any]) -> tuple[State, Any]:
            state, (mean, _, _) = self._train(state, *batch)
            return state, mean

        parts = tuple(a[: count * size].reshape(count, size, *a.shape[1:]) for a in (x, y))
        trained: tuple[State, Any] = self._jax.lax.scan(step, state, parts)
        return trained

    def _train_slice(self, state: State, x: Any, y: Any, start: Any, *, size: int) -> tuple[State, Any]:
        x, y = (self._jax.lax.dynamic_slice_in_dim(array, start, size) for array in (x, y))
        state, (mean, _, _) = self._train(state, x, y)
        return state, mean

    def _train(self, state: State, x: Any, y: Any) -> tuple[State, tuple[Any, list[Any], list[Any]]]:
        learned, fixed, slots = state

        def loss(learned: Any) -> tuple[Any, tuple[list[Any], Any]]:
            answers, after = self._model.stateless_call(learned, fixed, scaled(x), training=True)
            answers = as_list(answers)
            return self._losses(answers[-1], y).mean(), (answers, after)

        (mean, (answers, fixed)), gradients = self._jax.value_and_grad(loss, has_aux=True)(learned)
        gradients = scaled_gradients(self._job, gradients, y)
        added = decayed(gradients, learned, self._decay)
        learned, slots = self._optimizer.stateless_apply(slots, added, learned)
        return (learned, fixed, slots), (mean, answers, gradients)

    def _test(self, learned: Any, fixed: Any, images: Any, start: Any, *, size: int) -> tuple[Any, Any]:
        jnp = self._jax.numpy
        x = self._jax.lax.dynamic_slice_in_dim(images, start, size)
        answers, _ = self._model.stateless_call(learned, fixed, scaled(x), training=False)
        logits = as_list(answers)[-1]
        return jnp.argmax(logits, axis=-1).astype(jnp.int32), jnp.isfinite(logits).all(axis=-1)


@contextmanager
def jax_settings(job: Job) -> Iterator[None]:
    """Device and precision for one job."""
    import jax

    double, matmul = jax.config.jax_enable_x64, jax.config.jax_default_matmul_precision
    jax.config.update("jax_enable_x64", job.recipe.precision == "float64")
    jax.config.update("jax_default_matmul_precision", _MATMUL.get(job.recipe.precision, "float32"))
    try:
        with jax.default_device(_device(jax, job)), _kept_double(job):
            yield
    finally:
        jax.config.update("jax_enable_x64", double)
        jax.config.update("jax_default_matmul_precision", matmul)


@contextmanager
def _kept_double(job: Job) -> Iterator[None]:
    """Keeps float64. Beside TensorFlow, Keras turns float64 into float32 wherever two tensors meet, whatever JAX is
    told: its norms and optimizers would be computed in half of the precision that was asked for."""
    if job.recipe.precision != "float64":
        yield
        return
    try:
        from keras.src.backend.common import dtypes

        narrowed = dtypes.BIT64_TO_BIT32_DTYPE
    except (ImportError, AttributeError) as error:
        raise ModelError("This Keras has no float64 on JAX.", hint="Use torch or tensorflow for float64.") from error
    before = narrowed["float64"]
    narrowed["float64"] = "float64"
    try:
        yield
    finally:
        narrowed["float64"] = before


def _device(jax: Any, job: Job) -> Any:
    number = job.gpu
    try:
        return jax.devices("cpu")[0] if number is None else jax.devices("gpu")[number]
    except (RuntimeError, IndexError) as error:
        raise ConstraintError(
            f"JAX finds no device {job.device!r} here.", hint="Use the device cpu, or a build of JAX for it."
        ) from error


def set_jax_threads(threads: int | None) -> None:
    """Sets the threads of JAX, before it is used: XLA reads NPROC when it makes its pool, at the first operation, and
    never again."""
    if threads is None or os.environ.get("NPROC") == str(threads):
        return
    backends = sys.modules.get("jax._src.xla_bridge")
    if backends is not None and backends.backends_are_initialized():
        raise ConstraintError(
            f"JAX cannot change to {threads} threads after its first operation.",
            hint="Start another process for another number of threads.",
        )
    os.environ["NPROC"] = str(threads)
