"""A loss of Keras with one setting changed, made anew from its configuration."""

from __future__ import annotations

from typing import Any, Final

from zoolens.training.pairs.live.live_training import NotSwitchable

# Losses that a model may be compiled with by their names, which have the settings of the class's defaults.
_NAMED: Final = {
    "sparse_categorical_crossentropy": "SparseCategoricalCrossentropy",
    "categorical_crossentropy": "CategoricalCrossentropy",
    "binary_crossentropy": "BinaryCrossentropy",
    "mse": "MeanSquaredError",
    "mean_squared_error": "MeanSquaredError",
}
_REDUCTIONS: Final = {"mean": "sum_over_batch_size", "sum": "sum"}


def switched_loss(loss: Any, name: str, value: Any) -> Any:
    """`name`: reduction, from_logits or label_smoothing. NotSwitchable: the loss has no such setting."""
    import keras

    if isinstance(loss, str) and loss in _NAMED:
        loss = getattr(keras.losses, _NAMED[loss])()
    if not isinstance(loss, keras.losses.Loss):
        raise NotSwitchable(f"The Keras loss is a function, {_name(loss)}, whose settings cannot be changed.")
    config = loss_config(loss)
    if name == "label_smoothing" and isinstance(loss, keras.losses.SparseCategoricalCrossentropy):
        return _smoothed(keras, loss, config, value)
    wanted = _REDUCTIONS.get(value) if name == "reduction" else value
    if name not in config or wanted is None:
        raise NotSwitchable(f"{type(loss).__name__} of Keras has no {name} {value}.")
    try:
        made = type(loss).from_config({**config, name: wanted})
    except Exception as error:
        raise NotSwitchable(f"{type(loss).__name__} of Keras cannot be made anew: {error}") from error
    return _of_answers(keras, made) if name == "from_logits" and value else made


def loss_config(loss: Any) -> dict[str, Any]:
    """The configuration of a loss of Keras, with what some of them leave out of it, as Huber's its delta."""
    return {**getattr(loss, "_fn_kwargs", {}), **loss.get_config()}


def _of_answers(keras: Any, loss: Any) -> Any:
    """The loss of what it is given. Keras' own looks behind a softmax, and takes its input for scores instead."""

    class OfAnswers(type(loss)):  # type: ignore[misc]
        def __call__(self, targets: Any, answers: Any, sample_weight: Any = None) -> Any:
            return loss(targets, keras.ops.multiply(answers, 1), sample_weight)

    OfAnswers.__name__ = type(loss).__name__
    return OfAnswers.from_config(loss_config(loss))


def _smoothed(keras: Any, loss: Any, config: dict[str, Any], value: float) -> Any:
    """Keras smooths the labels of its other cross-entropy, which takes them as one of each class."""
    if not value:
        return loss
    full = keras.losses.CategoricalCrossentropy(
        from_logits=config["from_logits"], label_smoothing=value, reduction=config["reduction"]
    )

    class Smoothed(keras.losses.Loss):  # type: ignore[misc]
        def __call__(self, targets: Any, answers: Any, sample_weight: Any = None) -> Any:
            labels = keras.ops.reshape(targets, (-1,))
            return full(keras.ops.one_hot(labels, answers.shape[-1]), answers, sample_weight)

        def get_config(self) -> dict[str, Any]:
            raise NotImplementedError

    return Smoothed(reduction=config["reduction"])


def _name(loss: Any) -> str:
    return str(getattr(loss, "__name__", type(loss).__name__))


def loss_name(keras: Any, loss: Any) -> str:
    """The class of Keras' that a loss is or stands for: "mse" is MeanSquaredError. Of a function, its own name."""
    resolved = keras.losses.get(loss) if isinstance(loss, str) else loss
    if isinstance(resolved, keras.losses.Loss):
        return type(resolved).__name__
    name = _name(resolved)
    if not str(getattr(resolved, "__module__", "")).startswith("keras."):
        return name
    return "".join(part.capitalize() for part in name.split("_"))
