"""What a user's function returned for training, sorted: the network, and what trains it.

It returns a network, a tuple with the network first and the others in any order, or a dictionary with the names of
`KEYS`. Frameworks that the user's code did not import are not imported here either.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Literal

from zoolens.base.errors import ModelError
from zoolens.training.pairs.networks.jax_modules import function_and_parameters, objects_of_network

Framework = Literal["torch", "keras", "jax"]
PRECISIONS: Final = ("float32", "bfloat16")
UNITS: Final = ("epoch", "step")


@dataclass
class TrainingObjects:
    """Live objects; switching a setting may replace one. None: nothing was given beside the network, and a Keras model
    that is compiled has its own."""

    network: Any  # a torch.nn.Module, a keras.Model, or a JAX function with its parameters
    optimizer: Any = None
    loss: Any = None
    scheduler: Any = None
    scheduler_unit: Literal["epoch", "step"] = "epoch"
    clip_norm: float | None = None  # of all gradients together
    clip_value: float | None = None
    precision: str | None = None
    regularisation: Callable[..., Any] | None = None
    train_apply: Callable[..., Any] | None = None  # of JAX: answer and new collections, such as statistics of norms


KEYS: Final = tuple(field.name for field in fields(TrainingObjects))


def network_in(made: Any) -> Any:
    """The network in what the function returned; of JAX, a tuple that begins with a function and its parameters."""
    if isinstance(made, Mapping) and "network" in made:
        return made["network"]
    if isinstance(made, tuple) and made and framework_of(made[0]) is not None:
        return made[0]
    return made


def framework_of(network: Any) -> Framework | None:
    """Names the framework of a torch.nn.Module or a keras.Model. On Keras' torch backend a model is both, and is
    Keras'."""
    torch, keras = sys.modules.get("torch"), sys.modules.get("keras")
    if keras is not None and isinstance(network, keras.Model):
        return "keras"
    return "torch" if torch is not None and isinstance(network, torch.nn.Module) else None


def sorted_objects(made: Any) -> TrainingObjects:
    """ModelError: something has no meaning here, or two things have the same."""
    if isinstance(made, Mapping):
        return _from_names(made)
    network = network_in(made)
    if not isinstance(made, tuple):
        return TrainingObjects(network)
    if network is not made:
        return _with_others(network, made[1:])
    if function_and_parameters(made) is None:
        return TrainingObjects(made)
    count = objects_of_network(made)
    return _with_others(made[:count] if count > 1 else made[0], made[count:])


def _from_names(made: Mapping[str, Any]) -> TrainingObjects:
    unknown = [str(key)[:40] for key in made if key not in KEYS]
    if unknown:
        raise ModelError(
            f"The function returned a dictionary with {', '.join(unknown[:4])}, which means nothing here.",
            hint=f"Its keys may be {', '.join(KEYS)}.",
        )
    if "network" not in made:
        raise ModelError("The function returned a dictionary without a network.", hint='Add the key "network".')
    given = TrainingObjects(**made)
    given.optimizer = _transformation(given.optimizer)
    _check(given)
    return given


def _check(given: TrainingObjects) -> None:
    if given.precision is not None and given.precision not in PRECISIONS:
        raise ModelError(
            f"The precision {str(given.precision)[:40]!r} is not known.", hint=f"Use {' or '.join(PRECISIONS)}."
        )
    if given.scheduler_unit not in UNITS:
        raise ModelError(
            f"The scheduler_unit {str(given.scheduler_unit)[:40]!r} is not known.", hint=f"Use {' or '.join(UNITS)}."
        )
    for name in ("clip_norm", "clip_value"):
        size = getattr(given, name)
        if size is not None and not (isinstance(size, int | float) and size > 0):
            raise ModelError(f"{name} is {str(size)[:40]}, and must be a number above 0.")
    if given.train_apply is not None and not callable(given.train_apply):
        raise ModelError("train_apply is no function of the parameters and the inputs.")
    if given.regularisation is not None and not callable(given.regularisation):
        raise ModelError("The regularisation is no function of the network or of its parameters.")


def _with_others(network: Any, others: tuple[Any, ...]) -> TrainingObjects:
    by_role: dict[str, Any] = {}
    for value in map(_transformation, others):
        role = _role(value)
        if role in by_role:
            raise ModelError(
                f"The function returned two objects that may be the {role}: {_kind(by_role[role])} and {_kind(value)}.",
                hint="Return a dictionary that names them, with the keys " + ", ".join(KEYS) + ".",
            )
        by_role[role] = value
    return TrainingObjects(network, **by_role)


def _transformation(optimizer: Any) -> Any:
    """The transformation of gradients within an optimizer of flax.nnx, and other optimizers as they are."""
    nnx = sys.modules.get("flax.nnx")
    return optimizer.tx if nnx is not None and isinstance(optimizer, nnx.Optimizer) else optimizer


def _role(value: Any) -> str:
    torch, keras = sys.modules.get("torch"), sys.modules.get("keras")
    if torch is not None and isinstance(value, torch.optim.Optimizer):
        return "optimizer"
    if torch is not None and isinstance(value, torch.optim.lr_scheduler.LRScheduler):
        return "scheduler"
    if keras is not None and isinstance(value, keras.optimizers.Optimizer):
        return "optimizer"
    if keras is not None and isinstance(value, keras.optimizers.schedules.LearningRateSchedule):
        raise ModelError("A schedule of Keras stands beside the network.", hint="Give it to the optimizer.")
    if callable(getattr(value, "init", None)) and callable(getattr(value, "update", None)):
        return "optimizer"  # as optax has it
    if isinstance(value, str) or callable(value):
        return "loss"
    raise ModelError(
        f"The function returned {_kind(value)} beside the network, which is no optimizer, schedule or loss.",
        hint="Return a dictionary that names what it is, with the keys " + ", ".join(KEYS) + ".",
    )


def _kind(value: Any) -> str:
    kind = type(value)
    return f"an object of {kind.__module__}.{kind.__qualname__}"
