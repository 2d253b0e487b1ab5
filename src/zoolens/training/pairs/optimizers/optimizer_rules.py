"""What a live optimizer of torch or Keras does: its rule and its constants, under the names that recipes use.

Nothing here imports a framework: everything is read from the object's own attributes. A rule is known only for the
classes of the frameworks themselves; a subclass or another library's class may do anything in its step, and is said to
be unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from zoolens.training.pairs.semantics import Semantics

# Our name of a constant -> torch's, and Keras'.
_TORCH: Final = {
    "learning_rate": "lr", "epsilon": "eps", "weight_decay": "weight_decay", "momentum": "momentum", "rho": "alpha",
    "centered": "centered", "nesterov": "nesterov", "amsgrad": "amsgrad", "dampening": "dampening",
    "initial_accumulator": "initial_accumulator_value", "rate_decay": "lr_decay", "maximize": "maximize",
}  # fmt: skip
_KERAS: Final = {
    "beta1": "beta_1", "beta2": "beta_2", "epsilon": "epsilon", "weight_decay": "weight_decay", "momentum": "momentum",
    "rho": "rho", "centered": "centered", "nesterov": "nesterov", "amsgrad": "amsgrad",
    "initial_accumulator": "initial_accumulator_value", "clipnorm": "clipnorm", "clipvalue": "clipvalue",
    "global_clipnorm": "global_clipnorm", "use_ema": "use_ema",
    "gradient_accumulation_steps": "gradient_accumulation_steps",
}  # fmt: skip
_OURS: Final = tuple(f"{__package__}.{name}" for name in ("torch_rules", "keras_rules"))
# On its torch backend Keras makes classes of that backend, with the same rules over lists of tensors.
_KERAS_CLASSES: Final = ("keras.src.optimizers.", "keras.src.backend.torch.optimizers.")
_NAMES: Final = ("sgd", "adam", "adamw", "rmsprop", "adagrad", "lion")


@dataclass(frozen=True)
class OptimizerRule:
    """What a live optimizer does at a step."""

    name: str  # that of recipes, or the class's own where we do not know its rule
    known: bool
    # Under the names of recipes where those have one; None: it has no such setting switched on.
    constants: Mapping[str, Any]
    semantics: Semantics  # says nothing where the rule is not known
    # Names of constants that differ between groups of parameters, of which the first group's are given (of weight
    # decays the largest, since a group that is spared may come first), and a weight decay that Keras does not apply to
    # every variable.
    varied: tuple[str, ...] = ()
    # The class of a learning rate that is no number; `constants` has the rate of the next step.
    schedule: str | None = None
    # The values of those of `varied` in each group of parameters.
    by_group: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)


def torch_rule(optimizer: Any) -> OptimizerRule:
    """Reads the rule of a torch.optim.Optimizer, or of one of `torch_rules.decoupled`."""
    marked = _is_ours(optimizer)
    kind = type(optimizer).__mro__[1] if marked else type(optimizer)
    name = kind.__name__.lower()
    known = kind.__module__.startswith("torch.optim.") and name in _NAMES
    groups = [_torch_constants(group) for group in optimizer.param_groups] or [_torch_constants(optimizer.defaults)]
    varied = tuple(key for key in groups[0] if any(group.get(key) != groups[0][key] for group in groups[1:]))
    largest = max((group.get("weight_decay") or 0 for group in groups), default=0)
    constants = groups[0] | ({"weight_decay": largest} if "weight_decay" in groups[0] else {})
    by_group = {key: tuple(group.get(key) for group in groups) for key in varied}
    if not known:
        return OptimizerRule(
            kind.__name__, known=False, constants=constants, semantics=Semantics(), varied=varied, by_group=by_group
        )
    defaults = optimizer.param_groups[0] if optimizer.param_groups else optimizer.defaults
    decoupled = marked or name == "adamw" or bool(defaults.get("decoupled_weight_decay"))
    decay: Any = None if not constants["weight_decay"] else "decoupled" if decoupled else "coupled"
    return OptimizerRule(
        name, known=True, constants=constants, semantics=_semantics(name, constants, "outside", "outside", decay),
        varied=varied, by_group=by_group,
    )  # fmt: skip


def keras_rule(optimizer: Any) -> OptimizerRule:
    """Reads the rule of a keras.optimizers.Optimizer. Classes of `keras_rules` are known by the rule that they
    declare."""
    declared = optimizer.rule if _is_ours(optimizer) else None
    kind = type(optimizer).__mro__[1] if declared else type(optimizer)
    name = kind.__name__.lower()
    known = kind.__module__.startswith(_KERAS_CLASSES) and name in _NAMES
    constants = {
        ours: _number(getattr(optimizer, theirs)) for ours, theirs in _KERAS.items() if hasattr(optimizer, theirs)
    }
    constants = {"learning_rate": float(optimizer.learning_rate), **constants}
    rate = optimizer._learning_rate
    schedule = type(rate).__name__ if callable(rate) and hasattr(rate, "get_config") else None
    varied = ("weight_decay",) if constants.get("weight_decay") and _spares_some(optimizer) else ()
    if not known:
        return OptimizerRule(
            kind.__name__, known=False, constants=constants, semantics=Semantics(), varied=varied, schedule=schedule
        )
    decay: Any = "decoupled" if constants["weight_decay"] else None
    adam, root = (declared or "inside", "under") if name.startswith("adam") else ("inside", declared or "under")
    return OptimizerRule(
        name, known=True, constants=constants, semantics=_semantics(name, constants, adam, root, decay),
        varied=varied, schedule=schedule,
    )  # fmt: skip


def _spares_some(optimizer: Any) -> bool:
    """Whether `exclude_from_weight_decay` was called: Keras keeps the variables, and a pattern of names."""
    kept = (getattr(optimizer, f"_exclude_from_weight_decay{more}", None) for more in ("", "_pattern"))
    return any(kept)


def _semantics(name: str, constants: Mapping[str, Any], adam: Any, root: Any, decay: Any) -> Semantics:
    """`adam`, `root`: where Adam, and where RMSprop and Adagrad, have their epsilon."""
    values: dict[str, Any] = {"weight_decay": decay}
    if name in ("adam", "adamw"):
        values |= {"adam_rule": adam, "adam_epsilon": constants["epsilon"]}
    if name in ("rmsprop", "adagrad"):
        values |= {"root_rule": root, "root_epsilon": constants["epsilon"]}
    if name == "rmsprop":
        values["rmsprop_rho"] = constants["rho"]
    if name == "adagrad":
        values["adagrad_start"] = constants["initial_accumulator"]
    return Semantics(**values)


def _torch_constants(settings: Mapping[str, Any]) -> dict[str, Any]:
    constants = {ours: _number(settings[theirs]) for ours, theirs in _TORCH.items() if theirs in settings}
    return constants | dict(zip(("beta1", "beta2"), map(_number, settings.get("betas", ())), strict=False))


def _is_ours(optimizer: Any) -> bool:
    """Whether it is one of the subclasses that the trainers make, which change one thing of the class they are of."""
    return type(optimizer).__module__ in _OURS


def _number(value: Any) -> Any:
    """A plain number of what may be a tensor or a variable of one."""
    return value if value is None or isinstance(value, bool | int | float) else float(value)
