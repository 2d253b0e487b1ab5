"""What of a live torch network, its optimizer, schedule and loss decides about training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zoolens.crosstrain.training.live.optimizer_rules import torch_rule
from zoolens.port.training.base import Setting
from zoolens.port.training.settings import layer_settings, optimizer_settings

if TYPE_CHECKING:
    from zoolens.port.training.torch_training import TorchTraining


def settings(training: TorchTraining) -> dict[str, Setting]:
    """By the names of `base.SETTINGS`."""
    given = training.objects
    optimized = {id(parameter) for group in given.optimizer.param_groups for parameter in group["params"]}
    learned = [parameter for parameter in training.module.parameters() if parameter.requires_grad]
    scheduler = given.scheduler
    return {
        **optimizer_settings(torch_rule(given.optimizer)),
        "optimizer.untrained": sum(id(parameter) not in optimized for parameter in learned),
        "schedule.name": "none" if scheduler is None else type(scheduler).__name__,
        **({} if scheduler is None else {"schedule.unit": given.scheduler_unit}),
        **_loss(given.loss),
        "regularisation": "none" if given.regularisation is None else _name(given.regularisation),
        "clip.norm": given.clip_norm if given.clip_norm is not None else "none",
        "clip.tensor_norm": "none",
        "clip.value": given.clip_value if given.clip_value is not None else "none",
        "precision": given.precision or str(training.live.floating()).removeprefix("torch."),
        **layer_settings(training.live.facts()),
    }


def _loss(loss: Any) -> dict[str, Setting]:
    """Only losses of torch.nn say what they do; of a function nothing is known."""
    if not type(loss).__module__.startswith("torch.nn.modules.loss"):
        return {"loss.name": _name(loss), "loss.reduction": None, "loss.smoothing": None, "loss.from_logits": None}
    name = type(loss).__name__
    found: dict[str, Setting] = {"loss.name": name, "loss.reduction": str(loss.reduction)}
    if hasattr(loss, "label_smoothing"):
        found["loss.smoothing"] = float(loss.label_smoothing)
    if name in ("CrossEntropyLoss", "BCEWithLogitsLoss", "NLLLoss", "BCELoss"):
        found["loss.from_logits"] = name in ("CrossEntropyLoss", "BCEWithLogitsLoss")
    return found


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))
