"""What of a live torch network, its optimizer, schedule and loss decides about training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from zoolens.training.pairs.live.differences import MOMENTUM_RATE
from zoolens.training.pairs.live.live_training import Setting
from zoolens.training.pairs.live.shared_settings import (
    constants_words,
    layer_settings,
    optimizer_settings,
    varied_words,
)
from zoolens.training.pairs.live.torch.torch_training import TorchTraining
from zoolens.training.pairs.optimizers.optimizer_rules import torch_rule

_TOLD: Final = ("reduction", "label_smoothing")  # they have settings of their own
_NONE_IGNORED: Final = -100  # torch's default, which is no class


def settings(training: TorchTraining) -> dict[str, Setting]:
    """Reads the settings by the names of `live_training.SETTINGS`."""
    given = training.objects
    optimized = {id(parameter) for group in given.optimizer.param_groups for parameter in group["params"]}
    learned = [parameter for parameter in training.module.parameters() if parameter.requires_grad]
    scheduler, rule = given.scheduler, torch_rule(given.optimizer)
    varied = _varied(given.optimizer, rule.by_group)
    frozen = _frozen_norms(training)
    return {
        **optimizer_settings(rule),
        **({MOMENTUM_RATE: "current"} if rule.known and rule.constants.get("momentum") else {}),
        **({"optimizer.varied": varied, "optimizer.tensors": _tensors(training)} if varied else {}),
        "optimizer.untrained": sum(id(parameter) not in optimized for parameter in learned),
        "optimizer.trained": sum(parameter.numel() for parameter in learned if id(parameter) in optimized),
        "schedule.name": "none" if scheduler is None else type(scheduler).__name__,
        **({} if scheduler is None else {"schedule.unit": given.scheduler_unit}),
        **_loss(given.loss),
        "regularisation": "none" if given.regularisation is None else _name(given.regularisation),
        "regularisation.penalties": () if given.regularisation is None else None,
        "clip.norm": given.clip_norm if given.clip_norm is not None else "none",
        "clip.tensor_norm": "none",
        "clip.value": given.clip_value if given.clip_value is not None else "none",
        "precision": given.precision or str(training.live.floating()).removeprefix("torch."),
        **layer_settings(training.live.facts()),
        **({"norm.frozen": frozen} if frozen else {}),
        **_embeddings(training.module),
    }


def _varied(optimizer: Any, by_group: Mapping[str, Sequence[Any]]) -> str:
    sizes = [sum(parameter.numel() for parameter in group["params"]) for group in optimizer.param_groups]
    return varied_words({name: list(zip(values, sizes, strict=True)) for name, values in by_group.items()})


def _tensors(training: TorchTraining) -> Setting:
    names = {id(tensor): name for name, tensor in training.live.named().items()}
    return tuple(
        (names[id(parameter)], float(group["lr"]), float(group.get("weight_decay") or 0.0))
        for group in training.objects.optimizer.param_groups
        for parameter in group["params"]
        if id(parameter) in names
    )


def _embeddings(module: Any) -> dict[str, Setting]:
    import torch

    layers = [layer for layer in module.modules() if isinstance(layer, torch.nn.Embedding | torch.nn.EmbeddingBag)]
    rows = [layer.padding_idx for layer in layers if layer.padding_idx is not None]
    return {"embedding.padding": tuple(rows)} if rows else {}


def _frozen_norms(training: TorchTraining) -> int:
    """Batch norms that stay in evaluation mode, since the user left them so or their owner keeps them so."""
    import torch

    with training.in_training_mode():
        norms = [m for m in training.module.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
        return sum(not norm.training for norm in norms)


def _loss(loss: Any) -> dict[str, Setting]:
    """Reads the settings of a loss. Only losses of torch.nn say what they do; of a function nothing is known."""
    if not type(loss).__module__.startswith("torch.nn.modules.loss"):
        return {"loss.name": _name(loss), "loss.reduction": None, "loss.smoothing": None, "loss.from_logits": None}
    name = type(loss).__name__
    settings: dict[str, Setting] = {"loss.name": name, "loss.reduction": str(loss.reduction)}
    if hasattr(loss, "label_smoothing"):
        settings["loss.smoothing"] = float(loss.label_smoothing)
    if name in ("CrossEntropyLoss", "BCEWithLogitsLoss", "NLLLoss", "BCELoss"):
        settings["loss.from_logits"] = name in ("CrossEntropyLoss", "BCEWithLogitsLoss")
    for setting, attribute in (("loss.weights", "weight"), ("loss.positive_weight", "pos_weight")):
        if (weights := getattr(loss, attribute, None)) is not None:
            settings[setting] = tuple(float(f"{value:.7g}") for value in weights.reshape(-1).tolist())
    constants = {key: getattr(loss, key) for key in getattr(loss, "__constants__", ()) if key not in _TOLD}
    numbers = {key: value for key, value in constants.items() if isinstance(value, int | float)}
    if numbers.get("ignore_index") == _NONE_IGNORED:
        del numbers["ignore_index"]
    return settings | ({"loss.constants": constants_words(numbers)} if numbers else {})


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))
