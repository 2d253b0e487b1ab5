"""The first weights and the batch norms of any live torch module."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

from numpy.typing import NDArray

from zoolens.training.pairs.reading.initialisers import MAX_VALUES, drawn, fans
from zoolens.training.pairs.reading.probes import norm_fact
from zoolens.training.pairs.reading.side_facts import (
    Drawn,
    NormFact,
)


def drawn_tensors(module: Any) -> Iterator[Drawn]:
    """The kernels, biases, scales and shifts of any module, as they are now."""
    import torch

    kinds = ((torch.nn.Conv2d, "conv"), (torch.nn.Linear, "dense"), (torch.nn.modules.batchnorm._BatchNorm, "norm"))
    for path, layer in module.named_modules():
        kind = next((name for made, name in kinds if isinstance(layer, made)), None)
        if kind is None or layer.weight is None:
            continue
        roles = ("scale", "shift") if kind == "norm" else ("kernel", "bias")
        both = (1, 1) if kind == "norm" else fans(tuple(layer.weight.shape))
        for role, tensor in zip(roles, (layer.weight, layer.bias), strict=True):
            if tensor is not None:
                first = tensor.detach().reshape(-1)[:MAX_VALUES].float().numpy()  # numpy has no bfloat16
                yield drawn(first, layer=path, kind=kind, role=role, fans=both)


def norm_facts(module: Any) -> Iterator[NormFact]:
    """The batch norms of any module; a copy of each is trained for one step. One that never trains is none."""
    import torch

    for path, layer in module.named_modules():
        if isinstance(layer, torch.nn.modules.batchnorm._BatchNorm) and layer.track_running_stats and _trains(layer):
            fact = norm_fact(path, float(layer.eps), _training_step(layer))
            yield fact.model_copy(update={"cumulative": layer.momentum is None})


def _trains(layer: Any) -> bool:
    return bool(copy.deepcopy(layer).train().training)


def _training_step(layer: Any) -> Callable[[NDArray[Any]], tuple[float, float]]:
    import torch

    flat, deep = isinstance(layer, torch.nn.BatchNorm1d), isinstance(layer, torch.nn.BatchNorm3d)
    ones = (1,) if flat else (1, 1, 1, 1) if deep else (1, 1, 1)

    def step(values: NDArray[Any]) -> tuple[float, float]:
        twin = copy.deepcopy(layer).float().train()
        twin.reset_running_stats()
        with torch.no_grad():
            twin(torch.from_numpy(values).reshape(-1, *ones).expand(-1, twin.num_features, *ones[1:]))
        return float(twin.running_mean[0]), float(twin.running_var[0])

    return step
