"""The contract of a trainable network: one framework's own training step of what the user's function returned.

One file implements it for each framework. A step does what the user's own loop would do: one forward pass in training
mode, the user's loss and regularisation, the gradient, clipping, the user's optimizer and schedule. Tensors have the
names and shapes of `LiveNetwork.tensors`; how those of two sides belong together is the parameter map's to say.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ModelError
from zoolens.training.pairs.data.batch import TrainingBatch
from zoolens.training.pairs.networks.framework import Array, LiveNetwork
from zoolens.training.pairs.networks.training_objects import TrainingObjects

Losses = NDArray[np.float64]
Capture = dict[str, Array]  # "loss", or a kind of KINDS, a slash, and the name of a tensor or a layer
Setting = float | int | bool | str | tuple[Any, ...] | None
Switch = Callable[[Any, Any], None]  # of the trainable network, and the value

# What a captured step has. Activations are by the names of the layers in the graph that `check` aligns, in the order in
# which they were computed, images with their channels first; gradients are those of the loss, before they are clipped;
# "output/0" is the
# answer; "first" and "second" are the optimizer's slots; tensors, statistics and slots are those after the step.
KINDS: Final = ("activation", "output", "loss", "gradient", "first", "second", "tensor", "statistic")


class NotSwitchable(ModelError):
    """A setting that the live objects do not let us change; the message says why."""


def one_for_each(values: Any, layers: Sequence[Any]) -> list[Any]:
    """One value for each layer, from a tuple of so many values or from one for all; NotSwitchable where they differ in
    number."""
    given = list(values) if isinstance(values, tuple) else [values] * len(layers)
    if len(given) != len(layers):
        raise NotSwitchable(f"There are {len(layers)} such layers, and values for {len(given)}.")
    return given


class TrainableNetwork(ABC):
    """A live network with what trains it, in the process that called the user's function.

    Between its methods the network is in evaluation mode, as `LiveNetwork` has it. `settings` uses one vocabulary for
    all frameworks (`SETTINGS`). A name that is missing says that there is no such thing (SGD has no beta1); a value of
    None says that it cannot be known.
    """

    framework: ClassVar[str]
    switches: ClassVar[Mapping[str, Switch]]  # by the names of settings; see `switch`

    def __init__(self, network: LiveNetwork, objects: TrainingObjects) -> None:
        self.network, self.objects = network, objects

    @abstractmethod
    def begin(self, seed: int) -> None:
        """Begin a training: the optimizer's state and the schedule as they were when the function returned, random
        generators seeded. Tensors stay as they are: assign them before or after."""

    @abstractmethod
    def restore(self) -> None:
        """The optimizer and the schedule as `remember` saw them, whatever was trained since."""

    @abstractmethod
    def steps(self, batches: Iterable[TrainingBatch]) -> Losses:
        """One step for each batch, and the loss of each, regularisation included, from before its update."""

    @abstractmethod
    def end_epoch(self) -> None:
        """Let a schedule that counts epochs go on by one."""

    @abstractmethod
    def captured_step(self, batch: TrainingBatch) -> Capture:
        """One step like those of `steps`, and all that it computed."""

    @abstractmethod
    def answers(self, inputs: Sequence[Array]) -> Array:
        """The network's first output in evaluation mode, for one batch. Training may go on afterwards."""

    @abstractmethod
    def loss_of(self, answers: Array, targets: Array) -> float:
        """The user's loss of these answers, without regularisation, whichever network gave them."""

    @abstractmethod
    def settings(self) -> dict[str, Setting]:
        """What decides about training and can be read from the live objects, by the names of `SETTINGS`."""

    def rates(self, epochs: Sequence[int]) -> tuple[float, ...] | None:
        """The learning rate of every step of a training whose epochs have so many steps; None: it cannot be known.
        Call `begin` afterwards."""
        return None

    @abstractmethod
    def remember(self) -> None:
        """Let later calls of `begin` start from the constants that the optimizer and the schedule have now."""

    def switch(self, name: str, value: Setting) -> None:
        """Change one setting of the live objects; call it after `begin` and before the first step. It stays in force
        when `begin` is called again. NotSwitchable says why it cannot be done."""
        change = self.switches.get(name)
        if change is None:
            raise NotSwitchable(f"There is no way to change {name} of live objects of {self.framework}.")
        self.restore()  # else steps that were trained since would be remembered with the change
        change(self, value)
        self.remember()


# The names of settings, with what each says. Dots separate what a setting belongs to from its name.
SETTINGS: Final[Mapping[str, str]] = {
    "optimizer.rule": "name of the rule as in recipes (sgd, adam, …), or the class where the rule is not known",
    "optimizer.learning_rate": "of the next step; a schedule may change it",
    "optimizer.momentum": "of SGD and RMSprop",
    "optimizer.momentum_rate": "current, or past: the momentum keeps the learning rate of each gradient's own step",
    "optimizer.dampening": "share by which torch's SGD shrinks what it adds to its momentum",
    "optimizer.nesterov": "whether the gradient is added once more",
    "optimizer.beta1": "share of the first moment that is kept",
    "optimizer.beta2": "share of the second moment that is kept",
    "optimizer.epsilon": "what keeps a rule from dividing by 0",
    "optimizer.epsilon_place": "outside, inside (Adam) or under (RMSprop, Adagrad) the root, as in semantics",
    "optimizer.amsgrad": "whether the largest second moment counts",
    "optimizer.rho": "of RMSprop: share of the mean square that is kept",
    "optimizer.centered": "of RMSprop: whether the variance counts",
    "optimizer.initial_accumulator": "of Adagrad: what the sum of squares begins with",
    "optimizer.weight_decay": "its size; 0 where there is none",
    "optimizer.decay_kind": "coupled, decoupled or none",
    "optimizer.accumulation": "number of steps whose gradients make one update",
    "optimizer.maximize": "where it goes up the gradient instead of down",
    "optimizer.rate_decay": "of Adagrad: by how much the learning rate shrinks with the steps",
    "optimizer.average": "what the moving average of the weights keeps at a step, which counts in evaluation",
    "optimizer.varied": "constants that differ between parameters, with how many numbers have each value",
    "optimizer.tensors": "learning rate or its share, and weight decay, of each tensor, where tensors differ in them",
    "optimizer.untrained": "number of learned tensors that the optimizer does not have",
    "optimizer.trained": "how many numbers the optimizer changes",
    "schedule.name": "class of the learning rate's schedule, or none",
    "schedule.unit": "step or epoch",
    "schedule.rates": "learning rate of each of the first steps, where there is a schedule",
    "loss.name": "class or function",
    "loss.reduction": "mean or sum, of the samples' losses in a batch",
    "loss.smoothing": "of labels",
    "loss.from_logits": "whether the loss takes scores, not probabilities",
    "loss.weights": "of classes",
    "loss.positive_weight": "of the right answers of two",
    "loss.scale": "by which the loss is multiplied",
    "loss.constants": "what else a loss has, such as the delta of Huber's",
    "regularisation": "what is added to the loss, in words, or none",
    "regularisation.penalties": "tensors with the factors of their absolute values and squares; None: something else",
    "constraint": "what is done to tensors after every step, in words, or none",
    "clip.norm": "largest norm of all gradients together, or none",
    "clip.tensor_norm": "largest norm of each tensor's gradient, or none",
    "clip.value": "largest absolute value of a gradient, or none",
    "precision": "float32, bfloat16, float16 or float64: the arithmetic of the layers",
    "padding": "what is put around the inputs of windows, of each layer that has it differently in the other network",
    "norm.kept": "share of the old statistics that a step keeps, of each batch norm",
    "norm.epsilon": "of each batch norm",
    "norm.divisor": "what the running variance divides by: n or n - 1",
    "norm.frozen": "number of batch norms that stay as in evaluation while the others are trained",
    "jax.statistics": "of a JAX function, how statistics of norms change: own updates, kept, or as parameters",
    "jax.layers": "of a JAX function None: its layers, and so their settings, cannot be read",
    "jax.optimizer": "why the rule of an optimizer that is a pair of functions is not known",
    "embedding.padding": "of each embedding of torch that has one, the row whose gradient is 0",
    "dropout.rate": "of each layer that drops something",
}
