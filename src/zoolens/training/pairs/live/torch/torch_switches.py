"""How settings of a live torch network, its optimizer and its loss are changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from zoolens.training.pairs.live.live_training import NotSwitchable, Switch, one_for_each
from zoolens.training.pairs.live.torch.loss_switches import from_logits, loss_setting, regularisation
from zoolens.training.pairs.live.torch.momentum_rate import restore_rates, scale_gradients
from zoolens.training.pairs.live.torch.root_rules import keep_past_rates, place_epsilon
from zoolens.training.pairs.live.torch.rule_switch import with_rule
from zoolens.training.pairs.live.torch.torch_paddings import switch_padding
from zoolens.training.pairs.live.torch.torch_training import TorchTraining
from zoolens.training.pairs.reading.side_facts import CUMULATIVE

_GROUPS: Final = {
    "momentum": "momentum", "dampening": "dampening", "nesterov": "nesterov", "epsilon": "eps", "amsgrad": "amsgrad",
    "rho": "alpha", "centered": "centered",
}  # fmt: skip
_ADAMS: Final = ("Adam", "AdamW")


def _constant(name: str) -> Switch:
    """A constant that torch keeps in the optimizer's groups of parameters."""

    def change(training: TorchTraining, value: Any) -> None:
        for group in training.objects.optimizer.param_groups:
            if _GROUPS[name] not in group:
                raise NotSwitchable(f"{type(training.objects.optimizer).__name__} of torch has no {name}.")
            group[_GROUPS[name]] = value

    return change


def _beta(place: int) -> Switch:
    def change(training: TorchTraining, value: float) -> None:
        for group in training.objects.optimizer.param_groups:
            betas = list(group.get("betas", ()))
            if not betas:
                raise NotSwitchable(f"{type(training.objects.optimizer).__name__} of torch has no betas.")
            betas[place] = value
            group["betas"] = tuple(betas)

    return change


def _weight_decay(training: TorchTraining, value: float) -> None:
    """Groups of parameters keep their proportions, so that one that is spared stays so."""
    groups = training.objects.optimizer.param_groups
    if any("weight_decay" not in group for group in groups):
        raise NotSwitchable(f"{type(training.objects.optimizer).__name__} of torch has no weight_decay.")
    own: list[float] = training.__dict__.setdefault("own_decays", [group["weight_decay"] for group in groups])
    for group, decay in zip(groups, own, strict=True):
        group["weight_decay"] = value * (decay / max(own) if max(own) else 1.0)


def _learning_rate(training: TorchTraining, value: float) -> None:
    """Groups of parameters and the schedule keep their proportions."""
    groups = training.objects.optimizer.param_groups
    if not any(group["lr"] for group in groups) and training.objects.scheduler is None:
        for group in groups:
            group["lr"] = value
        return
    if not groups[0]["lr"]:
        raise NotSwitchable("The learning rate of torch is 0 now, so that a schedule on it has no scale.")
    factor = value / groups[0]["lr"]
    for group in groups:
        for key in ("lr", "initial_lr"):
            if key in group:
                group[key] = group[key] * factor
    scheduler = training.objects.scheduler
    if scheduler is not None:
        scheduler.base_lrs = [rate * factor for rate in scheduler.base_lrs]


def _rates(training: TorchTraining, values: Sequence[float]) -> None:
    """The learning rate of each step; the last one stays. Groups of parameters keep their proportions."""
    import torch

    rates, optimizer = list(values), training.objects.optimizer
    largest = max(rates) or 1.0
    first = optimizer.param_groups[0].get("initial_lr", optimizer.param_groups[0]["lr"])
    for group in optimizer.param_groups:
        own = group.pop("initial_lr", group["lr"])
        group["lr"] = largest * (own / first if first else 1.0)
    training.objects.scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: rates[min(step, len(rates) - 1)] / largest
    )
    training.objects.scheduler_unit = "step"


def _schedule_unit(training: TorchTraining, value: Any) -> None:
    if training.objects.scheduler is None or value not in ("step", "epoch"):
        raise NotSwitchable("The torch side has no schedule whose unit could change.")
    training.objects.scheduler_unit = value


def _decay_kind(training: TorchTraining, value: Any) -> None:
    optimizer = training.objects.optimizer
    if value == "none":  # its size is 0 then, and has a setting of its own
        return
    if value not in ("coupled", "decoupled"):
        raise NotSwitchable(f"Torch knows no weight decay that is {value}.")
    if type(optimizer).__name__ in _ADAMS and "decoupled_weight_decay" in optimizer.param_groups[0]:
        for group in optimizer.param_groups:
            group["decoupled_weight_decay"] = value == "decoupled"
        return
    _unhook(training, "decay")
    if value == "decoupled":
        _hook(training, "decay", _decay_before, _decay_after)


def _decay_before(optimizer: Any) -> None:
    import torch

    with torch.no_grad():
        for group in optimizer.param_groups:
            group["kept_decay"], group["weight_decay"] = group["weight_decay"], 0.0
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.mul_(1 - group.get("kept_rate", group["lr"]) * group["kept_decay"])


def _decay_after(optimizer: Any) -> None:
    for group in optimizer.param_groups:
        group["weight_decay"] = group.pop("kept_decay")


def _epsilon_place(training: TorchTraining, value: Any) -> None:
    """Adam with epsilon inside is Adam outside with an epsilon that is divided by √(1−β₂ᵗ) at each step."""
    optimizer = training.objects.optimizer
    if "eps" not in optimizer.param_groups[0]:
        raise NotSwitchable(f"{type(optimizer).__name__} of torch has no epsilon that could stand elsewhere.")
    if type(optimizer).__name__ not in _ADAMS:
        place_epsilon(optimizer, value)
        return
    if value not in ("inside", "outside"):
        raise NotSwitchable(f"Adam of torch cannot have its epsilon {value} the root.")
    _unhook(training, "epsilon")
    if value == "inside":
        _hook(training, "epsilon", _epsilon_before, _epsilon_after)


def _epsilon_before(optimizer: Any) -> None:
    counts = [float(state["step"]) for state in optimizer.state.values() if "step" in state]
    step = (max(counts) if counts else 0.0) + 1
    for group in optimizer.param_groups:
        group["kept_epsilon"] = group["eps"]
        group["eps"] = group["eps"] / (1 - group["betas"][1] ** step) ** 0.5


def _epsilon_after(optimizer: Any) -> None:
    for group in optimizer.param_groups:
        group["eps"] = group.pop("kept_epsilon")


def _momentum_rate(training: TorchTraining, value: Any) -> None:
    if value not in ("current", "past"):
        raise NotSwitchable("The other side has no momentum.")
    optimizer = training.objects.optimizer
    if keep_past_rates(optimizer, past=value == "past"):
        return
    if type(optimizer).__name__ != "SGD":
        raise NotSwitchable(f"{type(optimizer).__name__} of torch has no momentum that could keep past rates.")
    _unhook(training, "momentum")
    if value == "past":
        _hook(training, "momentum", scale_gradients, restore_rates)


def _tensor_norm(training: TorchTraining, value: Any) -> None:
    """Clip the gradient of each tensor by itself, before anything else that a step does."""
    import torch

    _unhook(training, "clip")
    if value == "none":
        return

    def clip(optimizer: Any) -> None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    torch.nn.utils.clip_grad_norm_([parameter], value)

    _hook(training, "clip", clip, lambda _: None)


def _hook(training: TorchTraining, key: str, before: Callable[[Any], None], after: Callable[[Any], None]) -> None:
    optimizer = training.objects.optimizer
    handles = (
        optimizer.register_step_pre_hook(lambda given, _args, _named: before(given)),
        optimizer.register_step_post_hook(lambda given, _args, _named: after(given)),
    )
    _kept(training)[key] = lambda: [handle.remove() for handle in handles]
    _on_optimizer(training)[key] = before, after


def _on_optimizer(training: TorchTraining) -> dict[str, tuple[Callable[[Any], None], Callable[[Any], None]]]:
    """What stands on the optimizer's steps, and must stand on those of one that takes its place."""
    kept: dict[str, Any] = training.__dict__.setdefault("step_hooks", {})
    return kept


def _rule(training: TorchTraining, value: Any) -> None:
    """Another optimizer in the place of the user's. What a switch has put on its steps goes on, but for the place of
    epsilon, which belongs to the rule; a weight decay keeps its kind."""
    hooks = dict(_on_optimizer(training))
    apart = "decay" in hooks or bool(training.objects.optimizer.param_groups[0].get("decoupled_weight_decay"))
    made = with_rule(training, value)
    for key in hooks:
        _unhook(training, key)
    training.objects.optimizer = made
    for key in hooks.keys() - {"epsilon", "decay", "momentum"}:
        _hook(training, key, *hooks[key])
    _decay_kind(training, "decoupled" if apart else "coupled")


def _accumulation(training: TorchTraining, value: int) -> None:
    training.accumulation = int(value)


def _initial_accumulator(training: TorchTraining, value: float) -> None:
    optimizer = training.objects.optimizer
    if "initial_accumulator_value" not in optimizer.defaults:
        raise NotSwitchable(f"{type(optimizer).__name__} of torch has no accumulator that could begin otherwise.")
    optimizer.defaults["initial_accumulator_value"] = value
    for group in optimizer.param_groups:
        group["initial_accumulator_value"] = value
    optimizer.state.clear()


def _unhook(training: TorchTraining, key: str) -> None:
    undo = _kept(training).pop(key, None)
    _on_optimizer(training).pop(key, None)
    if undo is not None:
        undo()


def _kept(training: TorchTraining) -> dict[str, Callable[[], Any]]:
    """What removes the hooks that a switch put on the live objects, by what they are for."""
    kept: dict[str, Callable[[], Any]] = training.__dict__.setdefault("switch_hooks", {})
    return kept


def _clip(attribute: str) -> Switch:
    def change(training: TorchTraining, value: Any) -> None:
        setattr(training.objects, attribute, None if value == "none" else value)

    return change


def _precision(training: TorchTraining, value: Any) -> None:
    """Weights change their type only to and from float64; with bfloat16 the layers compute in it, and weights stay."""
    if value not in ("float32", "bfloat16", "float64"):
        raise NotSwitchable(f"A torch network is not trained in {value} here.")
    training.objects.optimizer.state.clear()
    for module in (training.module, training.objects.loss):
        if hasattr(module, "double"):  # a loss may hold weights of classes
            module.double() if value == "float64" else module.float()
    training.objects.precision = None if value == "float64" else value


def _norms(training: TorchTraining) -> list[Any]:
    import torch

    return [layer for layer in training.module.modules() if isinstance(layer, torch.nn.modules.batchnorm._BatchNorm)]


def _norm_kept(training: TorchTraining, value: Any) -> None:
    layers = _norms(training)
    for layer, kept in zip(layers, one_for_each(1.0 if value == CUMULATIVE else value, layers), strict=True):
        layer.momentum = None if value == CUMULATIVE else 1 - kept


def _norm_epsilon(training: TorchTraining, value: Any) -> None:
    layers = _norms(training)
    for layer, epsilon in zip(layers, one_for_each(value, layers), strict=True):
        layer.eps = epsilon


def _norm_divisor(training: TorchTraining, value: Any) -> None:
    """Torch's running variance takes in one that divides by n − 1; what a step adds is made smaller by (n − 1)/n."""
    _unhook(training, "divisor")
    if value != "n":
        return
    handles = []
    for layer in _norms(training):
        handles += [layer.register_forward_pre_hook(_variance_before), layer.register_forward_hook(_variance_after)]
    _kept(training)["divisor"] = lambda: [handle.remove() for handle in handles]


def _variance_before(layer: Any, _given: Any) -> None:
    layer.kept_variance = layer.running_var.clone() if layer.training and layer.running_var is not None else None


def _variance_after(layer: Any, given: Any, _answer: Any) -> None:
    before = layer.__dict__.pop("kept_variance", None)
    count = given[0].numel() // given[0].shape[1]
    if before is None or layer.momentum is None or count < 2:
        return
    old = before * (1 - layer.momentum)
    # of the data: autograd has kept the buffer, and refuses one that was changed since
    layer.running_var.data.copy_(old + (layer.running_var - old) * ((count - 1) / count))


def _dropouts(training: TorchTraining) -> Iterator[tuple[Any, str]]:
    """The layers that drop something, in the order in which `facts` names them, and where each keeps its rate."""
    from zoolens.training.pairs.networks.torch_dropout import dropout_rate

    modules = dict(training.module.named_modules())
    kept: dict[str, str] = training.__dict__.setdefault("switched_dropouts", {})
    for fact in training.live.facts().layers:
        attribute = dropout_rate(modules[fact.name])
        if attribute:
            kept.setdefault(fact.name, attribute)  # a layer whose rate is 0 later is none of the facts
    for path, attribute in kept.items():
        yield modules[path], attribute


def _dropout(training: TorchTraining, value: Any) -> None:
    layers = list(_dropouts(training))
    if any(fact.name not in training.__dict__["switched_dropouts"] for fact in training.live.facts().layers):
        raise NotSwitchable("Code of the network calls dropout as a function, whose rate no layer has.")
    for (layer, attribute), rate in zip(layers, one_for_each(value, layers), strict=True):
        setattr(layer, attribute, rate)


SWITCHES: Final[Mapping[str, Switch]] = {
    **{f"optimizer.{name}": _constant(name) for name in _GROUPS},
    "optimizer.rule": _rule,
    "optimizer.initial_accumulator": _initial_accumulator,
    "optimizer.beta1": _beta(0),
    "optimizer.beta2": _beta(1),
    "optimizer.learning_rate": _learning_rate,
    "optimizer.weight_decay": _weight_decay,
    "optimizer.decay_kind": _decay_kind,
    "optimizer.momentum_rate": _momentum_rate,
    "optimizer.accumulation": _accumulation,
    "optimizer.epsilon_place": _epsilon_place,
    "schedule.rates": _rates,
    "schedule.unit": _schedule_unit,
    "loss.reduction": loss_setting("reduction"),
    "loss.smoothing": loss_setting("label_smoothing"),
    "loss.from_logits": from_logits,
    "regularisation": regularisation,
    "clip.norm": _clip("clip_norm"),
    "clip.value": _clip("clip_value"),
    "clip.tensor_norm": _tensor_norm,
    "padding": switch_padding,
    "precision": _precision,
    "norm.kept": _norm_kept,
    "norm.epsilon": _norm_epsilon,
    "norm.divisor": _norm_divisor,
    "dropout.rate": _dropout,
}
