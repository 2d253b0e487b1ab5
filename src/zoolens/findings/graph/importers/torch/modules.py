"""Builds the networks of torchvision, timm and transformers by name, without weights, ready to be traced.

A bare network is built on the meta device, which costs nothing. One whose constructor computes with numbers (RegNet)
gets only its weights there; one that needs numbers when it runs is built on the CPU without random initialisation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from zoolens.base.errors import MissingDependency, ModelError, UnknownName
from zoolens.findings.graph.importers.importer import Request
from zoolens.inventory.runtimes.model_files.constructor_arguments import plain_arguments

_RANDOM: Final = frozenset({"normal_", "uniform_", "random_", "exponential_", "bernoulli_", "log_normal_", "erfinv_"})
_TOKENS: Final = 128
_WRAPPERS: Final = frozenset({"timm_wrapper", "timm_backbone"})  # they hand names and arguments on to timm
# torchvision's constructors that must be told the image size, or that warn of a slow initialisation unless it is off.
_NEEDED: Final[dict[str, Callable[[tuple[int, int]], dict[str, Any]]]] = {
    "vit_": lambda size: {"image_size": size[0]},
    "maxvit_": lambda size: {"input_size": size},
    "googlenet": lambda _: {"init_weights": False},
    "inception_v3": lambda _: {"init_weights": False},
}


@dataclass(frozen=True)
class BuildPlan:
    """How to build one network, and what to feed it."""

    build: Callable[[], Any]
    inputs: Callable[[Any], Mapping[str, tuple[int, ...]]]  # of the built module: shapes by name
    facts: Mapping[str, Any] = field(default_factory=dict)


def plan_torchvision(request: Request) -> BuildPlan:
    torchvision = _torchvision()
    name = request.subject
    models = torchvision.models
    if name in models.list_models(module=models.detection):
        raise ModelError(
            f"{name} is a detector, which chooses its boxes by numbers and so cannot be traced without any.",
            hint="Export it to ONNX or TFLite, and name the file.",
        )
    segmenters = models.list_models(module=models.segmentation)
    known = [*models.list_models(module=models), *segmenters]
    if name not in known:
        raise UnknownName("torchvision model", name, known)
    size = request.size or _default_size(torchvision, name)
    needed = next((make(size) for prefix, make in _NEEDED.items() if name.startswith(prefix)), {})
    if name in segmenters:
        needed = {"weights_backbone": None}  # otherwise torchvision fetches them
    arguments = {**needed, **plain_arguments(request.arguments)}
    return BuildPlan(
        lambda: torchvision.models.get_model(name, weights=None, **arguments),
        lambda module: {_first_argument(module): (1, 3, *size)},
    )


def _default_size(torchvision: Any, name: str) -> tuple[int, int]:
    """What the library's default weights want; the images they crop are square. Segmenters do not crop."""
    try:
        wanted = torchvision.models.get_model_weights(name).DEFAULT.transforms()
        side = getattr(wanted, "crop_size", None) or wanted.resize_size
    except (AttributeError, ValueError):
        return 224, 224
    return int(side[0]), int(side[0])


def plan_timm(request: Request) -> BuildPlan:
    _torchvision()
    try:
        import timm
    except ImportError as error:
        raise MissingDependency("Reading a timm network", "timm", "timm") from error
    name = request.subject
    architecture = name.partition(".")[0]
    if ":" in name or not timm.is_model(architecture):
        raise UnknownName("timm model", name, timm.list_models())
    config = timm.get_pretrained_cfg(name) or timm.get_pretrained_cfg(architecture)
    arguments = plain_arguments(request.arguments)
    if request.size is not None and config is not None and config.fixed_input_size:
        arguments = {"img_size": request.size, **arguments}

    def inputs(module: Any) -> dict[str, tuple[int, ...]]:
        channels, *size = module.pretrained_cfg.get("input_size", (3, 224, 224))
        channels = arguments.get("in_chans", channels)
        return {_first_argument(module): (1, channels, *(request.size or size))}

    return BuildPlan(lambda: timm.create_model(name, pretrained=False, **arguments), inputs)


def plan_transformers(request: Request) -> BuildPlan:
    """Plans a network by the name of a class ("ViTForImageClassification") or of a model type ("vit"), with its default
    configuration.

    A model type stands for its image classifier where it has one, else for its plain encoder or decoder. Arguments go
    to the configuration.
    """
    from zoolens.inventory.frameworks.torchvision_shim import import_torchvision

    with suppress(ImportError):
        import_torchvision()  # transformers imports it where it is installed, and it may need help
    try:
        import transformers
    except ImportError as error:
        raise MissingDependency("Reading a transformers network", "transformers", "transformers") from error
    make, configuration = _transformers_class(transformers, request.subject)
    arguments = plain_arguments(request.arguments)
    if request.size is not None and hasattr(configuration(), "image_size"):
        side, other = request.size
        arguments = {"image_size": side if side == other else list(request.size), **arguments}
    if getattr(configuration, "model_type", None) in _WRAPPERS:
        raise ModelError(f"{request.subject} stands for networks of another library.", hint="Name that library.")
    config = configuration(**arguments)
    config.architectures = config.architectures or []  # a type with two classifiers (DeiT) is chosen from this list
    return BuildPlan(lambda: make(config), lambda module: _transformers_inputs(module, config, request))


def _transformers_class(transformers: Any, subject: str) -> tuple[Callable[[Any], Any], Any]:
    try:
        candidate: Any = getattr(transformers, subject, None) if subject.isidentifier() else None
    except ImportError as error:
        raise ModelError(f"{subject} cannot be imported: {reason(error)}") from error
    if isinstance(candidate, type) and issubclass(candidate, transformers.PreTrainedModel):
        own = getattr(candidate, "config_class", None)
        if own is None:
            raise ModelError(f"{subject} has no configuration of its own.", hint="Name one of its subclasses.")
        return candidate, own
    types = transformers.CONFIG_MAPPING
    if subject not in types:
        raise UnknownName("transformers class or model type", subject, types)
    configuration = types[subject]
    classifiers = transformers.AutoModelForImageClassification
    automatic = classifiers if configuration in classifiers._model_mapping else transformers.AutoModel
    return automatic.from_config, configuration


def _transformers_inputs(module: Any, config: Any, request: Request) -> dict[str, tuple[int, ...]]:
    name = module.main_input_name
    if name == "input_ids":
        return {name: (1, min(_TOKENS, getattr(config, "max_position_embeddings", _TOKENS)))}
    if name != "pixel_values":
        raise ModelError(f"{request.subject} takes {name}, which zoolens cannot make up.")
    size: Any = request.size or getattr(config, "image_size", None) or 224
    height, width = (size, size) if isinstance(size, int) else size
    return {name: (1, getattr(config, "num_channels", 3), height, width)}


class LibraryFailed(ModelError):
    """The library could not build or run a network in one way; in another it may."""


def built(plan: BuildPlan, subject: str, way: str) -> Any:
    """The module in evaluation mode: seeded on the CPU ("weights"), or bare in one of three ways.

    "meta": nothing has numbers; "sketched": only what the constructor leaves empty has none until it is done; "cpu".
    """
    try:
        return _WAYS[way](plan.build)
    except ModelError:
        raise
    except Exception as error:
        raise LibraryFailed(f"{subject} cannot be built: {reason(error)}") from error


def _on_meta(build: Callable[[], Any]) -> Any:
    with _nothing_filled():
        return build().eval()


def _nothing_filled() -> Any:
    """What `torch.device("meta")` does, which makes all tensors without numbers; nor are they filled with any.

    torch takes a random filling apart in Python before it finds that there is nothing to do: half of the time.
    """
    import torch
    from torch.utils._device import DeviceContext, _device_constructors

    constructors = _device_constructors()
    fillings = {getattr(torch.Tensor, name) for name in (*_RANDOM, "fill_", "zero_", "clamp_")}
    # These tell modes like this one by themselves that they are called, and nothing of what they call in turn.
    whole = {torch.nn.init.normal_, torch.nn.init.uniform_, torch.nn.init.constant_, torch.nn.init.kaiming_uniform_}

    class NothingFilled(DeviceContext):  # type: ignore[misc]
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if function in fillings and args and args[0].is_meta:
                return args[0]
            if function in whole and kwargs and kwargs["tensor"].is_meta:
                return kwargs["tensor"]
            if function in constructors and (kwargs is None or kwargs.get("device") is None):
                kwargs = {**(kwargs or {}), "device": self.device}
            return function(*args, **(kwargs or {}))

    return NothingFilled("meta")


def _sketched(build: Callable[[], Any]) -> Any:
    with _empty_on_meta():
        return build().eval().to("meta")


def _on_cpu(build: Callable[[], Any]) -> Any:
    with _initialisation_skipped():
        return build().eval()


@contextmanager
def _empty_on_meta() -> Iterator[None]:
    """Layers get their weights from torch.empty: these have no memory in this thread, all other tensors do."""
    import torch
    from torch.overrides import TorchFunctionMode

    class Emptying(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = dict(kwargs or {})
            if function is torch.empty:
                kwargs["device"] = "meta"
            return function(*args, **kwargs)

    with Emptying():
        yield


def reason(error: Exception) -> str:
    """What a library says, in one line."""
    text = str(error).strip()
    return (text.splitlines()[0] if text else type(error).__name__)[:200]


def _with_seeded_weights(build: Callable[[], Any]) -> Any:
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = build().eval()
        _unsettle(module)
    return module


def _unsettle(module: Any) -> None:
    """Move every tensor of equal numbers (scales of 1, shifts and statistics of 0): else a wrong graph may agree."""
    import torch

    with torch.no_grad():
        for tensor in (*module.parameters(), *module.buffers()):
            if tensor.is_floating_point() and tensor.numel() and bool((tensor == tensor.flatten()[0]).all()):
                tensor.add_(torch.rand_like(tensor), alpha=0.2)


@contextmanager
def _initialisation_skipped() -> Iterator[None]:
    """Random filling in place gives zeros in this thread: the weights of a bare network are never looked at."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Skipping(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if function._schema.name.partition("::")[2] in _RANDOM:
                return args[0].zero_()  # not nothing at all: truncation by rejection would wait for ever
            return function(*args, **(kwargs or {}))

    with Skipping():
        yield


_WAYS: Final[dict[str, Callable[[Callable[[], Any]], Any]]] = {
    "weights": _with_seeded_weights,
    "meta": _on_meta,
    "sketched": _sketched,
    "cpu": _on_cpu,
}


def _first_argument(module: Any) -> str:
    names: tuple[str, ...] = module.forward.__code__.co_varnames
    return names[1]


def _torchvision() -> Any:
    from zoolens.inventory.frameworks.torchvision_shim import import_torchvision

    try:
        return import_torchvision(with_compiler=False)
    except ImportError as error:
        raise MissingDependency("Reading a torchvision network", "torchvision", "torchvision") from error
