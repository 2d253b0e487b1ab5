"""The padding of live layers of torch, changed to that of another network's layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from zoolens.training.pairs.live.live_training import NotSwitchable
from zoolens.training.pairs.live.paddings import LEFT_OUT, LOWEST, one_for_each, try_paddings
from zoolens.training.pairs.live.torch.torch_training import TorchTraining

_MODES: Final = {"reflect": "reflect", "edge": "replicate"}  # torch's names of what is no constant
_KEPT: Final = ("padding", "padding_mode")


def switch_padding(training: TorchTraining, rows: Sequence[Any]) -> None:
    """`rows`: the layer's path, all that is put around its input now, and what is to be, with its mode; without rows
    all layers have their own padding again."""
    layers = dict(training.module.named_modules())
    if not rows:
        _restore_all(layers)
        return
    changes = [_change(layers.get(str(name)), str(name), *rest) for name, *rest in one_for_each(rows)]
    try_paddings(training.live.run_once, changes, lambda: _restore_all(layers), "torch network")


def _change(layer: Any, name: str, now: Sequence[int], wanted: Sequence[int], mode: str) -> Callable[[], None]:
    """Refuse before anything is changed."""
    import torch

    kinds = (torch.nn.modules.conv._ConvNd, torch.nn.modules.pooling._MaxPoolNd, torch.nn.modules.pooling._AvgPoolNd)
    if not isinstance(layer, kinds) or type(layer).__module__.partition(".modules")[0] != "torch.nn":
        raise NotSwitchable(f"The padding of {name or 'a layer'} stands in the torch network's code, not in a layer.")
    if getattr(layer, "ceil_mode", False) or getattr(layer, "divisor_override", None):
        raise NotSwitchable(f"{name} rounds the size of its answer up or has a divisor of its own.")
    outer = [total - inner for total, inner in zip(now, _own(layer), strict=True)]
    if min(outer) < 0:
        raise NotSwitchable(f"{name} of torch is padded in a way that was not understood.")
    return lambda: _pad(layer, outer, list(wanted), mode)


def _restore_all(layers: Mapping[str, Any]) -> None:
    for layer in layers.values():
        _restore(layer)


def _own(layer: Any) -> list[int]:
    """What the layer itself puts around its input, whatever stands there."""
    kept = vars(layer).get("kept_padding", {"padding": layer.padding})["padding"]
    count = len(layer.kernel_size) if isinstance(layer.kernel_size, tuple) else _axes(layer)
    if isinstance(kept, str):
        if kept == "valid":
            return [0] * (2 * count)
        totals = [d * (k - 1) for d, k in zip(layer.dilation, layer.kernel_size, strict=True)]
        return [*(total // 2 for total in totals), *(total - total // 2 for total in totals)]
    begins = [kept] * count if isinstance(kept, int) else list(kept)
    return begins * 2


def _axes(layer: Any) -> int:
    return int(type(layer).__name__[-2])  # MaxPool2d


def _restore(layer: Any) -> None:
    vars(layer).pop("forward", None)
    for attribute, value in vars(layer).pop("kept_padding", {}).items():
        setattr(layer, attribute, value)


def _pad(layer: Any, outer: Sequence[int], wanted: Sequence[int], mode: str) -> None:
    """Take away what a layer before this one has put there, pad anew, and let the layer itself pad nothing."""
    _restore(layer)
    layer.kept_padding = {name: getattr(layer, name) for name in _KEPT if hasattr(layer, name)}
    layer.padding = 0 if isinstance(layer.padding, int) else (0,) * (len(wanted) // 2)
    if hasattr(layer, "padding_mode"):
        layer.padding_mode = "zeros"
    layer.forward = lambda given: _answer(layer, given, outer, wanted, mode)


def _answer(layer: Any, given: Any, outer: Sequence[int], wanted: Sequence[int], mode: str) -> Any:
    import torch

    pad = torch.nn.functional.pad
    inner = pad(given, _widths([-width for width in outer]))
    forward = type(layer).forward
    if mode in _MODES:
        return forward(layer, pad(inner, _widths(wanted), mode=_MODES[mode]))
    value = -torch.inf if mode == LOWEST else 0.0
    answer = forward(layer, pad(inner, _widths(wanted), value=value))
    if mode == LEFT_OUT:
        answer = answer / forward(layer, pad(torch.ones_like(inner), _widths(wanted)))
    return answer


def _widths(pads: Sequence[int]) -> list[int]:
    """Returns the widths as torch takes them: the last axis first, each with its begin and its end."""
    count = len(pads) // 2
    return [pads[place] for axis in reversed(range(count)) for place in (axis, count + axis)]
