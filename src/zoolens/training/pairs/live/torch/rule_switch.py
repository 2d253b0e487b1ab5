"""A live torch optimizer replaced by one of another rule, over the same groups of parameters."""

from __future__ import annotations

from typing import Any, Final

from zoolens.training.pairs.live.live_training import NotSwitchable
from zoolens.training.pairs.live.torch.torch_training import TorchTraining
from zoolens.training.pairs.optimizers.optimizer_rules import torch_rule

_CLASSES: Final = {"sgd": "SGD", "adam": "Adam", "adamw": "Adam", "rmsprop": "RMSprop", "adagrad": "Adagrad"}
_COMMON: Final = ("lr", "initial_lr", "weight_decay", "maximize")  # what groups keep, whatever the rule


def with_rule(training: TorchTraining, name: Any) -> Any:
    """An optimizer of this rule with the constants that torch gives it, or the user's own where that is its rule. Its
    groups keep their learning rates and the sizes of their weight decays."""
    import torch

    own = training.__dict__.setdefault("own_optimizer", training.objects.optimizer)
    now = training.objects.optimizer
    if name == _name(own):
        made = own
    elif name in _CLASSES:
        groups = [{"params": group["params"]} for group in now.param_groups]
        made = getattr(torch.optim, _CLASSES[name])(groups, lr=1.0)
    else:
        raise NotSwitchable(f"torch.optim has no rule {name} that could take the place of another.")
    if made is not now:
        _take_over(made, now)
        _bind(training.objects.scheduler, made)
    return made


def _name(optimizer: Any) -> str:
    """Names the optimizer's rule, also while its epsilon stands elsewhere."""
    own = vars(optimizer).get("own_class")
    return torch_rule(optimizer).name if own is None else str(own.__name__).lower()


def _take_over(made: Any, now: Any) -> None:
    made.state.clear()
    for group, before in zip(made.param_groups, now.param_groups, strict=True):
        group.update({key: before[key] for key in _COMMON if key in before})


def _bind(scheduler: Any, optimizer: Any) -> None:
    """Let the schedule set the rates of the new optimizer; a schedule of several has each of them."""
    for schedule in (scheduler, *getattr(scheduler, "_schedulers", ())):
        if schedule is not None:
            schedule.optimizer = optimizer
