"""Live objects of torch: torchvision's networks or those of our own definitions, torch.optim, torch.nn's loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from typing import Any, Final

from zoolens.base.errors import MissingDependency
from zoolens.findings.graph.importers.importer import Importer, Request
from zoolens.findings.graph.ir.model import Graph
from zoolens.inventory.frameworks.placeholder_modules import without_torch_compiler
from zoolens.training.crosstrain.training.diff import losses, optimizers, schedules
from zoolens.training.crosstrain.training.diff.recipe_layers import layer_facts
from zoolens.training.crosstrain.training.live.subject import SEED, Subject, subject_of
from zoolens.training.pairs.reading.initialisers import MAX_VALUES
from zoolens.training.pairs.reading.probes import STRIDED_INPUT, padding_fact
from zoolens.training.pairs.reading.side_facts import (
    BehaviourFact,
    OptimizerFact,
    PaddingFact,
    SideFacts,
)
from zoolens.training.pairs.reading.torch_reading import drawn_tensors, norm_facts
from zoolens.training.pairs.semantics import USUAL

# Our name -> torch's.
_CONSTANTS: Final = {
    "learning_rate": "lr", "epsilon": "eps", "weight_decay": "weight_decay", "momentum": "momentum",
    "nesterov": "nesterov", "amsgrad": "amsgrad", "rho": "alpha", "centered": "centered",
    "initial_accumulator": "initial_accumulator_value",
}  # fmt: skip
_OPTIMIZERS: Final = {"adam": "Adam", "adamw": "AdamW", "sgd": "SGD", "rmsprop": "RMSprop", "adagrad": "Adagrad",
                      "lion": "Lion"}  # fmt: skip


@without_torch_compiler()
def load(request: Request) -> Graph:
    """The raw graph at the size where its structure shows, with everything else in facts["live"]."""
    try:
        import torch
    except ImportError as error:
        raise MissingDependency("Inspecting torch", "torch", "torch") from error
    from zoolens.findings.graph.importers.torch.torch_library import graph_of_module

    wanted = subject_of(request)
    torch.manual_seed(SEED)
    with _few_draws():
        network, module = _built(wanted)
    graph = graph_of_module(module, [torch.zeros(1, *wanted.input_shape)], request.subject)
    facts = SideFacts(
        versions={"torch": str(torch.__version__)}
        | ({"torchvision": version("torchvision")} if wanted.shipped else {}),
        network=network,
        layers=layer_facts(graph, channels_last=False),
        drawn=tuple(drawn_tensors(module)),
        norms=tuple(norm_facts(module)),
        optimizers=_optimizers(),
        loss=losses.measured("torch.nn.CrossEntropyLoss", _loss()),
        behaviours=(*_losses(), _schedules()),
        padding=_padding(),
        channels="first",
    )
    if wanted.shipped:
        images = torch.zeros(1, *wanted.outline_shape, device="meta")
        graph = graph_of_module(module.to("meta"), [images], request.subject)
    return replace(graph, facts={"live": facts.model_dump(mode="json")})


TORCH: Final = Importer(load=load, distributions=("torch", "torchvision"))


def _built(wanted: Subject) -> tuple[str, Any]:
    from zoolens.training.crosstrain.training.trainers.torch_building import build_module, build_shipped

    if wanted.shipped:
        module = build_shipped(wanted.architecture, wanted.input_shape, wanted.classes)
        return f"torchvision.models.{wanted.architecture}", module
    return "torch.nn layers with their defaults", build_module(wanted.network(USUAL))


def _few_draws() -> AbstractContextManager[Any]:
    """Let only the first numbers of a large parameter be drawn, no more of them than `drawn` looks at: of VGG's 138
    million weights, 124 million are in two layers."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class FewDraws(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            draws = func in (torch.ops.aten.normal_.default, torch.ops.aten.uniform_.default)
            if draws and isinstance(args[0], torch.nn.Parameter) and args[0].is_contiguous():
                func(args[0].view(-1)[:MAX_VALUES], *args[1:], **(kwargs or {}))
                return args[0]
            return func(*args, **(kwargs or {}))

    return FewDraws()


class _Stepper:
    """One optimizer of torch over one number."""

    def __init__(self, name: str, constants: Mapping[str, float]) -> None:
        import torch

        self._number = torch.nn.Parameter(torch.zeros(1))
        make = getattr(torch.optim, _OPTIMIZERS[name])
        self._optimizer = make([self._number], **{_CONSTANTS[key]: value for key, value in constants.items()})

    @property
    def defaults(self) -> Mapping[str, Any]:
        settings: Mapping[str, Any] = self._optimizer.defaults
        return settings

    def step(self, value: float, gradient: float) -> float:
        self._number.data.fill_(value)
        self._number.grad = self._number.detach().clone().fill_(gradient)
        self._optimizer.step()
        return float(self._number.detach())

    def set_rate(self, rate: float) -> None:
        for group in self._optimizer.param_groups:
            group["lr"] = rate


@cache
def _optimizers() -> tuple[OptimizerFact, ...]:
    """Reads the optimizers of torch.optim, which are the same whatever network they train."""
    import torch

    there = [name for name in optimizers.NAMES if hasattr(torch.optim, _OPTIMIZERS[name])]
    return tuple(optimizers.measured(name, _constants(name), _Stepper) for name in there)


def _constants(name: str) -> dict[str, float | bool]:
    defaults = _Stepper(name, {}).defaults
    constants = {ours: defaults[theirs] for ours, theirs in _CONSTANTS.items() if theirs in defaults}
    return constants | dict(zip(("beta1", "beta2"), defaults.get("betas", ()), strict=False))


def _loss() -> losses.Loss:
    import torch

    loss = torch.nn.CrossEntropyLoss()
    return lambda scores, labels: loss(torch.from_numpy(scores), torch.from_numpy(labels).long()).numpy()


def _losses() -> tuple[BehaviourFact, ...]:
    import torch

    nn, smoothing = torch.nn, torch.nn.CrossEntropyLoss(label_smoothing=losses.SMOOTHING)

    def of(loss: Any) -> losses.Loss:
        return lambda scores, targets: loss(torch.from_numpy(scores), torch.from_numpy(targets)).numpy()

    return (
        losses.smoothed(
            "torch.nn.CrossEntropyLoss",
            lambda scores, labels: smoothing(torch.from_numpy(scores), torch.from_numpy(labels).long()).numpy(),
            takes_numbers=True,
        ),
        losses.binary("torch.nn.BCEWithLogitsLoss", of(nn.BCEWithLogitsLoss()), None),
        losses.squared("torch.nn.MSELoss", of(nn.MSELoss())),
    )


def _schedules() -> BehaviourFact:
    import torch

    schedulers = torch.optim.lr_scheduler

    def optimizer() -> Any:
        return torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)

    def rates(make: Callable[[Any], Any], count: int) -> list[float]:
        updated = optimizer()
        scheduler, measured = make(updated), []
        for _ in range(count):
            measured.append(float(updated.param_groups[0]["lr"]))
            updated.step()
            scheduler.step()
        return measured

    alone = optimizer()
    schedulers.CosineAnnealingLR(alone, schedules.LENGTH)
    for _ in range(schedules.LENGTH // 2):
        alone.step()
    return schedules.measured(
        "torch.optim.lr_scheduler (CosineAnnealingLR, LinearLR, MultiStepLR)",
        cosine=rates(lambda stepped: schedulers.CosineAnnealingLR(stepped, schedules.LENGTH), schedules.LENGTH + 6),
        warmup=f"{rates(schedulers.LinearLR, 1)[0]:.3g} of the rate",
        falling=rates(lambda stepped: schedulers.MultiStepLR(stepped, [schedules.BOUNDARY]), 5),
        by_itself=float(alone.param_groups[0]["lr"]) != 1.0,
    )


def _padding() -> PaddingFact:
    import torch

    layer = torch.nn.Conv2d(1, 1, 3, stride=2, padding=1, bias=False)
    with torch.no_grad():
        layer.weight.zero_()[0, 0, 0, 1] = 1
        answer = layer(torch.from_numpy(STRIDED_INPUT).reshape(1, 1, 4, 4)).numpy()[0, 0]
    return padding_fact(answer, f"padding=1{_same_with_stride(torch)}")


def _same_with_stride(torch: Any) -> str:
    try:
        torch.nn.Conv2d(1, 1, 3, stride=2, padding="same")
    except ValueError:
        return "; 'same' is refused with a stride"
    return ""
