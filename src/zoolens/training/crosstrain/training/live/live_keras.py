"""Live objects of Keras on one of its backends: keras.applications or our own definitions, optimizers, the loss.

Keras chooses its backend once, at import: this module chooses it, in a process of its own.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from importlib.metadata import version
from typing import Any, Final

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.findings.graph.importers.importer import Importer, Request
from zoolens.findings.graph.ir.model import Graph
from zoolens.training.crosstrain.training.diff import losses, optimizers, schedules
from zoolens.training.crosstrain.training.diff.recipe_layers import layer_facts
from zoolens.training.crosstrain.training.live.subject import SEED, Subject, subject_of
from zoolens.training.crosstrain.training.trainers.keras_backend import import_keras
from zoolens.training.pairs.reading.keras_reading import drawn_tensors, norm_facts
from zoolens.training.pairs.reading.probes import STRIDED_INPUT, padding_fact
from zoolens.training.pairs.reading.side_facts import (
    BehaviourFact,
    OptimizerFact,
    PaddingFact,
    SideFacts,
)

# Our name -> Keras'.
_CONSTANTS: Final = {
    "learning_rate": "learning_rate", "beta1": "beta_1", "beta2": "beta_2", "epsilon": "epsilon",
    "weight_decay": "weight_decay", "momentum": "momentum", "nesterov": "nesterov", "amsgrad": "amsgrad", "rho": "rho",
    "centered": "centered", "initial_accumulator": "initial_accumulator_value",
}  # fmt: skip
_FLAGS: Final = ("nesterov", "amsgrad", "centered")
_OPTIMIZERS: Final = {"adam": "Adam", "adamw": "AdamW", "sgd": "SGD", "rmsprop": "RMSprop", "adagrad": "Adagrad",
                      "lion": "Lion"}  # fmt: skip


def load(backend: str, request: Request) -> Graph:
    """The raw graph at the size where its structure shows, with everything else in facts["live"]."""
    keras = import_keras(backend, f"Inspecting Keras on {backend}")
    _compile_quickly(backend)
    from zoolens.findings.graph.importers.keras.keras_library import graph_of_keras_model

    wanted = subject_of(request)
    random.seed(SEED)  # Keras seeds its initialisers from it; its own set_random_seed imports TensorFlow on any backend
    network, model = _built(keras, wanted)
    graph = graph_of_keras_model(model, name=request.subject)
    last = keras.config.image_data_format() == "channels_last"
    facts = SideFacts(
        versions={"keras": str(keras.__version__), backend: version(backend)},
        network=network,
        layers=layer_facts(graph, channels_last=last),
        drawn=tuple(drawn_tensors(keras, model)),
        norms=tuple(norm_facts(keras, model)),
        optimizers=_optimizers(),
        loss=losses.measured("keras.losses.SparseCategoricalCrossentropy", _loss(keras)),
        behaviours=_behaviours(),
        padding=_padding(keras),
        channels="last" if last else "first",
    )
    if wanted.shipped:
        with keras.StatelessScope(initialize_variables=False):
            _, outlined = _built(keras, replace(wanted, input_shape=wanted.outline_shape))
        graph = graph_of_keras_model(outlined, name=request.subject)
    return replace(graph, facts={"live": facts.model_dump(mode="json")})


TENSORFLOW: Final = Importer(load=partial(load, "tensorflow"), distributions=("keras", "tensorflow"))
JAX: Final = Importer(load=partial(load, "jax"), distributions=("keras", "jax"))


def _compile_quickly(backend: str) -> None:
    """JAX compiles a program for every shape that is drawn, and each of them runs once."""
    if backend == "jax":
        import jax

        jax.config.update("jax_disable_most_optimizations", True)


def _built(keras: Any, wanted: Subject) -> tuple[str, Any]:
    if wanted.shipped:
        return _shipped(keras, wanted)
    from zoolens.training.crosstrain.training.trainers.keras_building import HABITS, build_model

    return "keras.layers with their defaults", build_model(wanted.network(HABITS), blank=False).model


def _shipped(keras: Any, wanted: Subject) -> tuple[str, Any]:
    """Builds the network as a user gets it by default: with the softmax that keras.applications puts at the end."""
    [name] = [var for var in vars(keras.applications) if var.lower() == wanted.architecture and var[0].isupper()]
    channels, *extents = wanted.input_shape
    try:
        model = getattr(keras.applications, name)(
            weights=None, input_shape=(*extents, channels), classes=wanted.classes
        )
    except ValueError as error:
        first = str(error).strip().split("\n")[0]
        raise ModelError(f"keras.applications cannot build {name}: {first}") from error
    return f"keras.applications.{name}", model


class _Stepper:
    """One optimizer of Keras over one number. A step is compiled when the first one is taken, since there may be a
    thousand of them."""

    def __init__(self, name: str, constants: Mapping[str, float]) -> None:
        import keras

        self._number = keras.Variable([0.0])
        make = getattr(keras.optimizers, _OPTIMIZERS[name])
        self._optimizer = make(**{_CONSTANTS[key]: value for key, value in constants.items()})
        self._optimizer.build([self._number])
        self._compiler = _jax_step if keras.backend.backend() == "jax" else _tensorflow_step
        self._step: Callable[[float, float], float] | None = None

    @property
    def defaults(self) -> Mapping[str, Any]:
        settings: Mapping[str, Any] = self._optimizer.get_config()
        return settings

    def step(self, value: float, gradient: float) -> float:
        if self._step is None:
            self._step = self._compiler(self._optimizer, self._number)
        return self._step(value, gradient)

    def set_rate(self, rate: float) -> None:
        self._optimizer.learning_rate = rate


def _tensorflow_step(optimizer: Any, number: Any) -> Callable[[float, float], float]:
    import tensorflow as tf

    def update(value: Any, gradient: Any) -> Any:
        number.assign(value)
        optimizer.apply([gradient], [number])
        return number.value

    single = tf.TensorSpec([1], tf.float32)
    compiled = tf.function(update).get_concrete_function(single, single)
    return lambda value, gradient: float(compiled(tf.constant([value]), tf.constant([gradient])).numpy()[0])


def _jax_step(optimizer: Any, number: Any) -> Callable[[float, float], float]:
    """The optimizer's variables are read before a step and written after it."""
    import jax

    update = jax.jit(lambda slots, gradient, value: optimizer.stateless_apply(slots, [gradient], [value]))

    def step(value: float, gradient: float) -> float:
        slots = [variable.value for variable in optimizer.variables]
        (moved,), slots = update(slots, np.array([gradient], np.float32), np.array([value], np.float32))
        for variable, slot in zip(optimizer.variables, slots, strict=True):
            variable.assign(slot)
        return float(moved[0])

    return step


@cache
def _optimizers() -> tuple[OptimizerFact, ...]:
    """They are the same whatever network they train."""
    import keras

    there = [name for name in optimizers.NAMES if hasattr(keras.optimizers, _OPTIMIZERS[name])]
    return tuple(optimizers.measured(name, _constants(name), _Stepper) for name in there)


def _constants(name: str) -> dict[str, float | bool]:
    """A weight decay of None is none; figures that Keras keeps in float32 are rounded to what was meant."""
    defaults = _Stepper(name, {}).defaults
    given = {ours: defaults[theirs] or 0.0 for ours, theirs in _CONSTANTS.items() if theirs in defaults}
    flags = {key: bool(value) for key, value in given.items() if key in _FLAGS}
    return {key: float(f"{value:.6g}") for key, value in given.items() if key not in flags} | flags


def _loss(keras: Any) -> losses.Loss:
    loss = keras.losses.SparseCategoricalCrossentropy()
    return lambda scores, labels: keras.ops.convert_to_numpy(loss(labels, scores))


@cache
def _behaviours() -> tuple[BehaviourFact, ...]:
    """They are the same whatever network is trained."""
    import keras

    own, smoothing = keras.losses, {"label_smoothing": losses.SMOOTHING}

    def of(loss: Any) -> losses.Loss:
        return lambda scores, targets: keras.ops.convert_to_numpy(loss(targets, scores))

    smoothed = of(own.CategoricalCrossentropy(from_logits=True, **smoothing))
    numbers = "label_smoothing" in inspect.signature(own.SparseCategoricalCrossentropy).parameters
    return (
        losses.smoothed(
            "keras.losses.CategoricalCrossentropy",
            lambda scores, labels: smoothed(scores, np.eye(scores.shape[1], dtype=np.float32)[labels]),
            takes_numbers=numbers,
        ),
        losses.binary(
            "keras.losses.BinaryCrossentropy", of(own.BinaryCrossentropy()), of(own.BinaryCrossentropy(**smoothing))
        ),
        losses.squared("keras.losses.MeanSquaredError", of(own.MeanSquaredError())),
        _schedules(keras),
    )


def _schedules(keras: Any) -> BehaviourFact:
    own = keras.optimizers.schedules
    cosine = own.CosineDecay(1.0, schedules.LENGTH)
    warm = own.CosineDecay(0.25, schedules.LENGTH, warmup_target=1.0, warmup_steps=schedules.LENGTH)
    given = float(warm(0)) == 0.25  # its initial_learning_rate, for which there is no default
    falling = own.PiecewiseConstantDecay([schedules.BOUNDARY], [1.0, 0.1])
    optimizer, number = keras.optimizers.SGD(cosine), keras.Variable([0.0])
    optimizer.build([number])
    for _ in range(2):
        optimizer.apply([keras.ops.zeros(1)], [number])
    return schedules.measured(
        "keras.optimizers.schedules (CosineDecay, PiecewiseConstantDecay)",
        cosine=[float(cosine(step)) for step in range(schedules.LENGTH + 6)],
        warmup="its initial_learning_rate, which has no default and is mostly 0" if given else "something else",
        falling=[float(falling(step)) for step in range(5)],
        by_itself=float(optimizer.learning_rate) != 1.0,
    )


def _padding(keras: Any) -> PaddingFact:
    layer = keras.layers.Conv2D(1, 3, strides=2, padding="same", use_bias=False, data_format="channels_last")
    layer.build((1, 4, 4, 1))
    kernel = keras.ops.convert_to_numpy(keras.ops.zeros((3, 3, 1, 1))).copy()
    kernel[0, 1] = 1
    layer.kernel.assign(kernel)
    answer = keras.ops.convert_to_numpy(layer(STRIDED_INPUT.reshape(1, 4, 4, 1)))[0, :, :, 0]
    return padding_fact(answer, "padding='same'")
