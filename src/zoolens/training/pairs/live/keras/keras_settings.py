"""What of a live Keras model, its optimizer and its loss decides about training."""

from __future__ import annotations

from collections import Counter
from math import prod
from typing import Any, Final

from zoolens.training.pairs.live.differences import MOMENTUM_RATE
from zoolens.training.pairs.live.keras.keras_loss_switches import loss_config, loss_name
from zoolens.training.pairs.live.keras.keras_training import KerasTraining
from zoolens.training.pairs.live.live_training import Setting
from zoolens.training.pairs.live.shared_settings import (
    constants_words,
    layer_settings,
    optimizer_settings,
    varied_words,
)
from zoolens.training.pairs.optimizers.keras_slots import momentum_rate
from zoolens.training.pairs.optimizers.optimizer_rules import keras_rule

_TOLD: Final = ("reduction", "label_smoothing", "from_logits", "axis")  # the axis of classes is the last in Keras


def settings(training: KerasTraining) -> dict[str, Setting]:
    """Reads the settings by the names of `live_training.SETTINGS`."""
    optimizer = getattr(training.optimizer, "inner_optimizer", training.optimizer)
    rule = keras_rule(optimizer)
    varied = _varied(training.model, optimizer) if rule.varied else ""
    added = _adding_layers(training)
    return {
        **optimizer_settings(rule),
        **({MOMENTUM_RATE: momentum_rate(optimizer)} if rule.known and rule.constants.get("momentum") else {}),
        **({"optimizer.varied": varied, "optimizer.tensors": _tensors(training, optimizer)} if varied else {}),
        **({"optimizer.average": float(optimizer.ema_momentum)} if getattr(optimizer, "use_ema", False) else {}),
        "optimizer.untrained": 0,
        "optimizer.trained": sum(prod(variable.shape) for variable in training.model.trainable_variables),
        "schedule.name": rule.schedule or "none",
        **({"schedule.unit": "step"} if rule.schedule else {}),
        **(_own_loss(training) or _loss(training.keras, training.model.loss)),
        **_loss_scale(training.model),
        "regularisation": _regularisation(training.model, added),
        "regularisation.penalties": None if added else _penalties(training),
        **_constraint(training.model),
        "clip.norm": _size(optimizer.global_clipnorm),
        "clip.tensor_norm": _size(optimizer.clipnorm),
        "clip.value": _size(optimizer.clipvalue),
        "precision": _precision(training.model),
        **layer_settings(training.live.facts()),
        **_frozen_norms(training),
    }


def _varied(model: Any, optimizer: Any) -> str:
    """Describes a weight decay that spares some variables."""
    size = float(optimizer.weight_decay)
    return varied_words(
        {
            "weight_decay": [
                (size if optimizer._use_weight_decay(variable) else 0.0, prod(variable.shape))
                for variable in model.trainable_variables
            ]
        }
    )


def _tensors(training: KerasTraining, optimizer: Any) -> Setting:
    rate, decay = float(optimizer.learning_rate), float(optimizer.weight_decay)
    return tuple(
        (name, rate, decay if optimizer._use_weight_decay(variable) else 0.0)
        for name, variable in training.live.named().items()
        if variable.trainable
    )


def _loss_scale(model: Any) -> dict[str, Setting]:
    """The loss_weights that the model was compiled with."""
    given = getattr(model._compile_loss, "_user_loss_weights", None)
    numbers = list(given.values()) if isinstance(given, dict) else given if isinstance(given, list) else [given]
    known = [float(number) for number in numbers if isinstance(number, int | float)]
    return {"loss.scale": known[0] if len(known) == 1 else tuple(known)} if known else {}


def _frozen_norms(training: KerasTraining) -> dict[str, Setting]:
    """A batch norm that is not trainable computes as in evaluation."""
    norm = training.keras.layers.BatchNormalization
    frozen = sum(isinstance(layer, norm) and not layer.trainable for layer in training.model._flatten_layers())
    return {"norm.frozen": frozen} if frozen else {}


def _loss(keras: Any, loss: Any) -> dict[str, Setting]:
    name = loss_name(keras, loss)
    loss = _made_from_name(keras, loss, name)
    if not isinstance(loss, keras.losses.Loss) or not type(loss).__module__.startswith("keras."):
        return {"loss.name": name, "loss.reduction": None, "loss.smoothing": None, "loss.from_logits": None}
    config = loss_config(loss)
    reduction = str(loss.reduction)
    settings: dict[str, Setting] = {
        "loss.name": name,
        "loss.reduction": "mean" if reduction == "sum_over_batch_size" else reduction,
    }
    if "Crossentropy" in name:
        settings["loss.smoothing"] = float(config.get("label_smoothing", 0.0))
        settings["loss.from_logits"] = bool(config.get("from_logits", False))
    if config.get("ignore_class") is not None:
        config["ignore_index"] = config.pop("ignore_class")
    numbers = {key: value for key, value in config.items() if key not in _TOLD and _is_number(value)}
    return settings | ({"loss.constants": constants_words(numbers)} if numbers else {})


def _made_from_name(keras: Any, loss: Any, name: str) -> Any:
    """A text or a function of Keras' own computes what the class of that name does with its defaults."""
    own = isinstance(loss, str) or str(getattr(loss, "__module__", "")).startswith("keras.")
    kind = getattr(keras.losses, name, None) if own and not isinstance(loss, keras.losses.Loss) else None
    return kind() if isinstance(kind, type) else loss


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _own_loss(training: KerasTraining) -> dict[str, Setting]:
    """A model whose class computes its loss itself may do anything with the one that it was compiled with."""
    if type(training.model).compute_loss is training.keras.Model.compute_loss:
        return {}
    unknown: dict[str, Setting] = dict.fromkeys(("loss.reduction", "loss.smoothing", "loss.from_logits"))
    return {"loss.name": f"compute_loss of {type(training.model).__name__}", **unknown}


def _adding_layers(training: KerasTraining) -> int:
    """The number of layers, the model among them, whose call adds a loss by `add_loss`."""
    training.live.run_once()
    layers = [layer for layer in training.model._flatten_layers() if layer._losses]
    return sum(getattr(layer, "activity_regularizer", None) is None for layer in layers)


def _regularisation(model: Any, added: int) -> str:
    """The regularisers of tensors, and whether layers add losses of their own; `added`: the number of those that do."""
    counter: Counter[str] = Counter()
    for variable in model.trainable_variables:
        regulariser = getattr(variable, "regularizer", None)
        if regulariser is not None:
            counter[_with_sizes(regulariser)] += 1
    words = _of_tensors(counter)
    active = sum(getattr(layer, "activity_regularizer", None) is not None for layer in model._flatten_layers())
    words += [f"of the answers of {active} layers"] if active else []
    words += [f"what {added} layer{'s' * (added > 1)} of the model's own add{'s' * (added == 1)}"] if added else []
    return ", ".join(words) or "none"


def _constraint(model: Any) -> dict[str, Setting]:
    """The constraints of tensors, which the optimizer puts in force after each of its steps."""
    counter: Counter[str] = Counter()
    for variable in model.trainable_variables:
        if (constraint := getattr(variable, "constraint", None)) is not None:
            counter[_with_sizes(constraint)] += 1
    words = _of_tensors(counter)
    return {"constraint": ", ".join(words)} if words else {}


def _with_sizes(given: Any) -> str:
    """The class of a regulariser or a constraint, with its numbers."""
    config = given.get_config() if hasattr(given, "get_config") else {}
    sizes = ", ".join(f"{key} {float(value):g}" for key, value in config.items() if isinstance(value, int | float))
    return f"{type(given).__name__} {sizes}".strip()


def _of_tensors(counter: Counter[str]) -> list[str]:
    return [f"{kind} of {count} tensor{'s' * (count > 1)}" for kind, count in counter.items()]


def _penalties(training: KerasTraining) -> Setting:
    """Reads the penalties of tensors whose regularisers are Keras' own L1 and L2; None where a layer has something
    else."""
    kinds = tuple(getattr(training.keras.regularizers, name) for name in ("L1", "L2", "L1L2"))
    if any(getattr(layer, "activity_regularizer", None) is not None for layer in training.model._flatten_layers()):
        return None
    rows = []
    for name, variable in training.live.named().items():
        regulariser = getattr(variable, "regularizer", None) if variable.trainable else None
        if regulariser is not None and type(regulariser) not in kinds:
            return None
        if regulariser is not None:
            rows.append((name, *(float(getattr(regulariser, size, 0.0)) for size in ("l1", "l2"))))
    return tuple(rows)


def _size(value: Any) -> Setting:
    return "none" if value is None else float(value)


def _precision(model: Any) -> str:
    types = {str(layer.compute_dtype) for layer in model._flatten_layers() if layer.weights}
    return ", ".join(sorted(types)) or "float32"
