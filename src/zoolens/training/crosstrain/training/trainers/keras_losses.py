"""Losses of recipes in Keras: its own functions, for every sample of a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from zoolens.training.crosstrain.training.job import Job

Losses = Callable[[Any, Any], Any]  # logits and labels to the loss of every sample


def make_losses(job: Job) -> Losses:
    """Makes losses from logits, in single precision where the network computes in half. What Keras does not have,
    smoothing over the other classes alone, is done to the targets."""
    import keras

    ops, own = keras.ops, keras.losses
    recipe, smoothing = job.recipe, job.recipe.label_smoothing
    others = job.semantics.smoothing == "others"

    def targets(logits: Any, labels: Any) -> Any:
        classes = logits.shape[-1]
        hot = ops.one_hot(labels, classes, dtype=logits.dtype)
        if not (smoothing and others):
            return hot
        low = smoothing / ((classes if recipe.loss == "cross_entropy" else 2) - 1)
        return hot * (1 - smoothing) + (1 - hot) * low

    def losses(logits: Any, labels: Any) -> Any:
        logits = ops.cast(logits, keras.config.floatx())
        if recipe.loss == "cross_entropy" and not smoothing:
            return ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)
        wanted = targets(logits, labels)
        if recipe.loss == "mse":
            return own.mean_squared_error(wanted, logits)
        compute = own.categorical_crossentropy if recipe.loss == "cross_entropy" else own.binary_crossentropy
        return compute(wanted, logits, from_logits=True, label_smoothing=0.0 if others else smoothing)

    return losses


def scaled_gradients(job: Job, gradients: Sequence[Any], labels: Any) -> list[Any]:
    """Turns the gradients of the mean loss of these samples into those that the job asks for: of the mean, or of the
    sum."""
    import keras

    if job.semantics.reduction != "sum":
        return list(gradients)
    samples = keras.ops.cast(keras.ops.shape(labels)[0], keras.config.floatx())
    return [gradient * samples for gradient in gradients]
