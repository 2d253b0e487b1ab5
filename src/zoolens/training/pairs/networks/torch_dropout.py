"""What a torch module drops in training: by its layers, and by functions that its code calls itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from zoolens.training.pairs.reading.side_facts import LayerFact

# Layers of libraries, and of our drafts, that drop whole branches, and where they keep how often.
_RATES: Final = {"StochasticDepth": "p", "DropPath": "drop_prob", "DropBranch": "p"}
_CHANNELS: Final = "whole channels"
# Functions that drop numbers, by their names in torch and in torch.nn.functional, and what they drop.
_FUNCTIONS: Final = {
    "dropout": "", "dropout_": "", "dropout1d": _CHANNELS, "dropout2d": _CHANNELS, "dropout3d": _CHANNELS,
    "feature_dropout": _CHANNELS, "feature_dropout_": _CHANNELS, "alpha_dropout": "alpha", "alpha_dropout_": "alpha",
    "feature_alpha_dropout": f"alpha, {_CHANNELS}", "feature_alpha_dropout_": f"alpha, {_CHANNELS}",
}  # fmt: skip
_USUAL: Final = 0.5  # rate of a function that is called without one


def dropouts(module: Any, call: Callable[[], Any]) -> Iterator[LayerFact]:
    """What `call`, which runs the module in evaluation mode, passes that would drop numbers in training. What a network
    does not even call in evaluation mode is not seen."""
    paths = {id(layer): path for path, layer in module.named_modules()}
    running: list[str] = []
    found: list[LayerFact] = []

    def enter(layer: Any, *_: Any) -> None:
        running.append(paths[id(layer)])

    def leave(layer: Any, *_: Any) -> None:
        path = running.pop()
        rate, units = _of_layer(layer)
        if rate and not any(fact.name == path for fact in found):
            found.append(LayerFact(name=path, op="dropout", rate=rate, units=units))

    def note(rate: float, units: str) -> None:
        path = running[-1] if running else ""
        if rate:
            found.append(LayerFact(name=path, op="dropout", rate=rate, units=units))

    layers = list(module.modules())
    hooks = [layer.register_forward_pre_hook(enter) for layer in layers]
    hooks += [layer.register_forward_hook(leave, always_call=True) for layer in layers]
    try:
        with _noted_functions(note):
            call()
    finally:
        for hook in hooks:
            hook.remove()
    yield from _once_for_each_layer(found, module)


def _once_for_each_layer(found: list[LayerFact], module: Any) -> Iterator[LayerFact]:
    """A dropout layer that is called several times is one."""
    layers = {path for path, layer in module.named_modules() if _drops(layer)}
    seen: set[str] = set()
    for fact in found:
        if fact.name not in layers or fact.name not in seen:
            yield fact
        seen.add(fact.name)


@contextmanager
def _noted_functions(note: Callable[[float, str], None]) -> Iterator[None]:
    import torch
    from torch.overrides import TorchFunctionMode

    known = {
        getattr(home, name): units
        for home in (torch, torch.nn.functional)
        for name, units in _FUNCTIONS.items()
        if hasattr(home, name)
    }

    class Noting(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if function in known:
                rate = args[1] if len(args) > 1 else kwargs.get("p", _USUAL)
                note(float(rate), known[function])
            return function(*args, **kwargs)

    with Noting():
        yield


def _of_layer(layer: Any) -> tuple[float, str]:
    """How often a layer drops, and what; 0 where it drops nothing."""
    import torch

    rate = getattr(layer, dropout_rate(layer), None)
    if not isinstance(rate, int | float):
        return 0.0, ""
    if _drops(layer):
        return float(rate), ""
    if isinstance(layer, torch.nn.MultiheadAttention):
        return float(rate), "weights of attention"
    if isinstance(layer, torch.nn.RNNBase):
        return float(rate) if layer.num_layers > 1 else 0.0, "between recurrent layers"
    return float(rate), "a whole batch" if getattr(layer, "mode", "row") == "batch" else "whole examples"


def dropout_rate(layer: Any) -> str:
    """The attribute in which a layer keeps how often it drops; empty where it drops nothing."""
    import torch

    if isinstance(layer, torch.nn.MultiheadAttention | torch.nn.RNNBase):
        return "dropout"
    return _RATES.get(type(layer).__name__, "p" if _drops(layer) else "")


def _drops(layer: Any) -> bool:
    import torch

    return isinstance(layer, torch.nn.modules.dropout._DropoutNd)
