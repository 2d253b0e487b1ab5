"""How settings of a live Keras model, its optimizer and its loss are changed.

An optimizer keeps variables for what it was built with, so that it is made anew from its configuration; so is a loss.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from zoolens.training.pairs.live.keras.keras_loss_switches import switched_loss
from zoolens.training.pairs.live.keras.keras_paddings import switch_padding
from zoolens.training.pairs.live.keras.keras_training import KerasTraining
from zoolens.training.pairs.live.live_training import NotSwitchable, Switch, one_for_each
from zoolens.training.pairs.optimizers.keras_rules import adagrad_outside, adam_outside, rmsprop, sgd_current
from zoolens.training.pairs.optimizers.keras_schedule import rate_table
from zoolens.training.pairs.optimizers.optimizer_rules import keras_rule

_CONFIGURED: Final = {
    "learning_rate": "learning_rate", "momentum": "momentum", "nesterov": "nesterov", "beta1": "beta_1",
    "beta2": "beta_2", "epsilon": "epsilon", "amsgrad": "amsgrad", "rho": "rho", "centered": "centered",
    "initial_accumulator": "initial_accumulator_value",
}  # fmt: skip
_CLASSES: Final = {
    "sgd": "SGD", "adam": "Adam", "adamw": "Adam", "rmsprop": "RMSprop", "adagrad": "Adagrad", "lion": "Lion",
}  # fmt: skip
_EXCLUDED: Final = ("_exclude_from_weight_decay", "_exclude_from_weight_decay_pattern")


class _Wanted:
    """The optimizer as the user made it, and what is to be other."""

    def __init__(self, optimizer: Any) -> None:
        self.original = optimizer
        self.rule: str | None = None
        self.config: dict[str, Any] = {}
        self.place: str | None = None
        self.momentum_rate = "past"
        self.kind: str | None = None
        self.rates: list[float] | None = None


def _wanted(training: KerasTraining) -> _Wanted:
    kept: _Wanted = training.__dict__.setdefault("wanted_optimizer", _Wanted(training.optimizer))
    return kept


def _rebuild(training: KerasTraining) -> None:
    wanted = _wanted(training)
    config = {**_given_config(wanted), **wanted.config}
    scheduled = isinstance(config["learning_rate"], Mapping)
    if scheduled:  # an object of a class of the user's cannot be made from its configuration
        config["learning_rate"] = float(wanted.original.learning_rate)
    try:
        optimizer = _class(wanted).from_config(config)
    except NotSwitchable:
        raise
    except Exception as error:
        name = type(wanted.original).__name__
        raise NotSwitchable(f"{name} of Keras cannot be made anew from its configuration: {error}") from error
    for attribute in _EXCLUDED:
        if hasattr(wanted.original, attribute):
            setattr(optimizer, attribute, getattr(wanted.original, attribute))
    if wanted.kind == "coupled" and optimizer.weight_decay:
        _couple(optimizer)
    if scheduled:
        optimizer._learning_rate = wanted.original._learning_rate
    if wanted.rates is not None:
        optimizer._learning_rate = rate_table(np.array(wanted.rates))
    optimizer.build(training.model.trainable_variables)
    _compile(training, optimizer, training.model.loss)


def _compile(training: KerasTraining, optimizer: Any, loss: Any) -> None:
    model = training.model
    weights = getattr(getattr(model, "_compile_loss", None), "_user_loss_weights", None)
    model.compile(
        optimizer=optimizer,
        loss=loss,
        loss_weights=weights,
        run_eagerly=model.run_eagerly,
        jit_compile=model.jit_compile,
    )
    training.objects.optimizer, training.objects.loss = optimizer, loss


def _given_config(wanted: _Wanted) -> dict[str, Any]:
    """The configuration of the user's optimizer; of another rule its own, with all that rules have in common."""
    given: dict[str, Any] = wanted.original.get_config()
    if wanted.rule is None:
        return given
    own = _kind(wanted)().get_config()
    constants = set(_CONFIGURED.values()) - {"learning_rate"}
    return {key: value if key in constants or key == "name" else given.get(key, value) for key, value in own.items()}


def _kind(wanted: _Wanted) -> Any:
    import keras

    if wanted.rule is not None:
        return getattr(keras.optimizers, _CLASSES[wanted.rule])
    kind = type(wanted.original)  # on the torch backend a class of that backend, which the public one makes
    return next((public for public in kind.__mro__ if getattr(keras.optimizers, kind.__name__, None) is public), kind)


def _rule(training: KerasTraining, value: Any) -> None:
    """Another optimizer in the place of the user's, with the constants that Keras gives it; its learning rate, weight
    decay, clipping and accumulation stay."""
    wanted = _wanted(training)
    if value not in _CLASSES and value != keras_rule(wanted.original).name:
        raise NotSwitchable(f"Keras has no rule {value} that could take the place of another.")
    wanted.rule = None if value == keras_rule(wanted.original).name else str(value)
    wanted.place, wanted.momentum_rate = None, "past"
    for key in set(_CONFIGURED.values()) - {"learning_rate"}:
        wanted.config.pop(key, None)
    _rebuild(training)


def _class(wanted: _Wanted) -> Any:
    import keras

    kind = _kind(wanted)
    outside, current = wanted.place == "outside", wanted.momentum_rate == "current"
    if not outside and not current:
        return kind
    if kind is keras.optimizers.RMSprop:
        return rmsprop(keras, "outside" if outside else "under", wanted.momentum_rate)
    if current and kind is not keras.optimizers.SGD:
        raise NotSwitchable(f"{kind.__name__} of Keras has no momentum that could leave the learning rate out.")
    if current:
        return sgd_current(keras)
    made = {
        keras.optimizers.Adam: lambda: adam_outside(keras),
        keras.optimizers.AdamW: lambda: adam_outside(keras),
        keras.optimizers.Adagrad: lambda: adagrad_outside(keras),
    }
    if kind not in made:
        raise NotSwitchable(f"{kind.__name__} of Keras has no epsilon that could stand elsewhere.")
    return made[kind]()


def _couple(optimizer: Any) -> None:
    """Add the decay to the gradient, behind the clipping, instead of taking it from the value."""
    import keras

    decay, update, uses = optimizer.weight_decay, optimizer._backend_update_step, optimizer._use_weight_decay
    optimizer.weight_decay = None

    def decayed(gradient: Any, variable: Any) -> Any:
        if not uses(variable):
            return gradient
        return gradient + keras.ops.cast(decay, variable.dtype) * keras.ops.convert_to_tensor(variable)

    def update_all(gradients: Any, variables: Any, learning_rate: Any) -> None:
        update([decayed(*pair) for pair in zip(gradients, variables, strict=True)], variables, learning_rate)

    object.__setattr__(optimizer, "_backend_update_step", update_all)


def _constant(name: str) -> Switch:
    def change(training: KerasTraining, value: Any) -> None:
        wanted = _wanted(training)
        if _CONFIGURED[name] not in _given_config(wanted):
            raise NotSwitchable(f"{_kind(wanted).__name__} of Keras has no {name}.")
        if name == "learning_rate" and isinstance(wanted.original.get_config()["learning_rate"], Mapping):
            raise NotSwitchable("The learning rate of Keras is a schedule, whose rates can be switched, not its scale.")
        wanted.config[_CONFIGURED[name]] = value if isinstance(value, bool) else float(value)  # Keras takes no integers
        _rebuild(training)

    return change


def _weight_decay(training: KerasTraining, value: float) -> None:
    _wanted(training).config["weight_decay"] = value or None
    _rebuild(training)


def _decay_kind(training: KerasTraining, value: Any) -> None:
    if value == "none":  # its size is 0 then, and has a setting of its own
        return
    if value not in ("coupled", "decoupled"):
        raise NotSwitchable(f"Keras knows no weight decay that is {value}.")
    _wanted(training).kind = value
    _rebuild(training)


def _epsilon_place(training: KerasTraining, value: Any) -> None:
    if value not in ("outside", "inside", "under"):
        raise NotSwitchable(f"Keras has no rule whose epsilon is {value}.")
    _rebuild_with(training, "place", value)


def _momentum_rate(training: KerasTraining, value: Any) -> None:
    if value not in ("current", "past"):
        raise NotSwitchable("The other side has no momentum.")
    _rebuild_with(training, "momentum_rate", value)


def _rebuild_with(training: KerasTraining, attribute: str, value: str) -> None:
    wanted = _wanted(training)
    before = getattr(wanted, attribute)
    setattr(wanted, attribute, value)
    try:
        _rebuild(training)
    except NotSwitchable:
        setattr(wanted, attribute, before)
        raise


def _clip(attribute: str) -> Switch:
    """Keras takes one way of clipping only: the others of its optimizer end."""

    def change(training: KerasTraining, value: Any) -> None:
        config = _wanted(training).config
        if value == "none":
            config[attribute] = None
        else:
            config |= {"clipnorm": None, "global_clipnorm": None, "clipvalue": None, attribute: value}
        _rebuild(training)

    return change


def _accumulation(training: KerasTraining, value: int) -> None:
    _wanted(training).config["gradient_accumulation_steps"] = value if value > 1 else None
    _rebuild(training)


def _rates(training: KerasTraining, values: Sequence[float]) -> None:
    """The learning rate of each step; the last one stays."""
    wanted = _wanted(training)
    wanted.rates = list(values)
    wanted.config["learning_rate"] = max(wanted.rates)
    _rebuild(training)


def _loss(name: str) -> Switch:
    def change(training: KerasTraining, value: Any) -> None:
        _compile(training, training.optimizer, switched_loss(training.model.loss, name, value))

    return change


def _regularisation(training: KerasTraining, value: Any) -> None:
    """Switches to no regularisers, to those that the layers had, or to penalties of tensors that the other side has."""
    kept: list[tuple[Any, str, Any]] = training.__dict__.setdefault("kept_regularisers", [])
    rows = value if isinstance(value, tuple) else ()
    if value != "none" and not rows and not kept:
        raise NotSwitchable("The regularisation of the other side is no object that a Keras layer could be given.")
    for owner, attribute, regulariser in kept:
        setattr(owner, attribute, regulariser)
    kept.clear()
    if value != "none" and not rows:
        return
    owners: list[tuple[Any, str]] = [(variable, "regularizer") for variable in training.model.trainable_variables]
    owners += [(layer, "activity_regularizer") for layer in training.model._flatten_layers()]
    for owner, attribute in [*owners, (training.objects, "regularisation")]:
        kept.append((owner, attribute, getattr(owner, attribute, None)))
        if kept[-1][2] is not None:
            setattr(owner, attribute, None)
    named = training.live.named()
    for name, l1, l2 in rows:
        named[name].regularizer = training.keras.regularizers.L1L2(l1, l2)


def _precision(training: KerasTraining, value: Any) -> None:
    import keras

    kept = {str(variable.dtype) for variable in training.model.trainable_variables}
    if kept != {"float32"} or value not in ("float32", "bfloat16", "float16"):
        raise NotSwitchable(f"The Keras model has weights of {', '.join(sorted(kept))}, and would need others.")
    policy = keras.DTypePolicy("float32" if value == "float32" else f"mixed_{value}")
    for layer in training.model._flatten_layers():
        layer.dtype_policy = policy


def _norms(training: KerasTraining) -> list[Any]:
    import keras

    kind = keras.layers.BatchNormalization
    return [layer for layer in training.model._flatten_layers() if isinstance(layer, kind)]


def _of_norms(attribute: str) -> Switch:
    def change(training: KerasTraining, value: Any) -> None:
        if isinstance(value, str):
            raise NotSwitchable(f"A batch norm of Keras cannot keep {value}.")
        layers = _norms(training)
        given = one_for_each(value, layers)
        if any(isinstance(wanted, str) for wanted in given):
            raise NotSwitchable("A batch norm of Keras has a momentum, and cannot keep the mean of all batches.")
        for layer, wanted in zip(layers, given, strict=True):
            setattr(layer, attribute, wanted)

    return change


def _norm_divisor(training: KerasTraining, value: Any) -> None:
    """Keras' moving variance takes in one that divides by n; what a step adds is made larger by n/(n − 1)."""
    for layer in _norms(training):
        vars(layer).pop("call", None)
        if value == "n - 1":
            object.__setattr__(layer, "call", _counting_less_one(layer))


def _counting_less_one(layer: Any) -> Callable[..., Any]:
    import inspect

    import keras

    ops, call = keras.ops, type(layer).call
    takes_mask = "mask" in inspect.signature(call).parameters

    def counted(inputs: Any, training: Any = None, mask: Any = None) -> Any:
        old = ops.multiply(layer.moving_variance, layer.momentum)  # now, for the call changes the variable
        answer = call(layer, inputs, training=training, **({"mask": mask} if takes_mask else {}))
        if training and layer.trainable:
            channels = inputs.shape[layer.axis]
            count = ops.cast(ops.size(inputs), old.dtype) / channels
            grown = ops.subtract(layer.moving_variance, old) * count / (count - 1)
            layer.moving_variance.assign(old + grown)
        return answer

    return counted


def _dropouts(training: KerasTraining) -> list[Any]:
    """The layers that had a rate when the first was switched; one whose rate is 0 now is still among them."""
    with_rates: list[Any] = [
        layer
        for layer in training.model._flatten_layers()
        if "Dropout" in type(layer).__name__ and getattr(layer, "rate", None)
    ]
    kept: list[Any] = training.__dict__.setdefault("switched_dropouts", with_rates)
    return kept


def _dropout(training: KerasTraining, value: Any) -> None:
    layers = _dropouts(training)
    for layer, rate in zip(layers, one_for_each(value, layers), strict=True):
        layer.rate = rate


SWITCHES: Final[Mapping[str, Switch]] = {
    **{f"optimizer.{name}": _constant(name) for name in _CONFIGURED},
    "optimizer.rule": _rule,
    "optimizer.weight_decay": _weight_decay,
    "optimizer.decay_kind": _decay_kind,
    "optimizer.epsilon_place": _epsilon_place,
    "optimizer.momentum_rate": _momentum_rate,
    "optimizer.accumulation": _accumulation,
    "schedule.rates": _rates,
    "loss.reduction": _loss("reduction"),
    "loss.smoothing": _loss("label_smoothing"),
    "loss.from_logits": _loss("from_logits"),
    "regularisation": _regularisation,
    "clip.norm": _clip("global_clipnorm"),
    "clip.tensor_norm": _clip("clipnorm"),
    "clip.value": _clip("clipvalue"),
    "padding": switch_padding,
    "precision": _precision,
    "norm.kept": _of_norms("momentum"),
    "norm.epsilon": _of_norms("epsilon"),
    "norm.divisor": _norm_divisor,
    "dropout.rate": _dropout,
}
