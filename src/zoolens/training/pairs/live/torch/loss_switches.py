"""How the loss and the regularisation of a live torch network are changed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from zoolens.training.pairs.live.live_training import NotSwitchable, Switch
from zoolens.training.pairs.live.torch.torch_training import TorchTraining


def loss_setting(attribute: str) -> Switch:
    """A setting of a loss of torch.nn; the user's own object stays as it is."""

    def change(training: TorchTraining, value: Any) -> None:
        if not hasattr(training.objects.loss, attribute):
            raise NotSwitchable(f"The torch loss is a function or class of its own and has no {attribute}.")
        training.objects.loss = copy.copy(training.objects.loss)
        setattr(training.objects.loss, attribute, value)

    return change


def from_logits(training: TorchTraining, value: bool) -> None:
    """A cross-entropy that takes probabilities gets their logarithms, which its own softmax leaves as they are."""
    import torch

    loss = training.objects.loss
    if isinstance(loss, _OfProbabilities) and value:
        training.objects.loss = loss.loss
    elif isinstance(loss, torch.nn.CrossEntropyLoss) and not value:
        training.objects.loss = _OfProbabilities(loss)
    else:
        raise NotSwitchable(f"{type(loss).__name__} of torch cannot take {'scores' if value else 'probabilities'}.")


class _OfProbabilities:
    def __init__(self, loss: Any) -> None:
        self.loss = loss

    def __call__(self, answer: Any, target: Any) -> Any:
        import torch

        return self.loss(torch.log(answer.clamp_min(torch.finfo(answer.dtype).tiny)), target)


def regularisation(training: TorchTraining, value: Any) -> None:
    """Switches to no regularisation, to the user's own, or to penalties of tensors that the other side has."""
    kept: list[Any] = training.__dict__.setdefault("kept_regularisation", [training.objects.regularisation])
    if isinstance(value, tuple):
        training.objects.regularisation = _penalising(training, value)
        return
    if value != "none" and kept[0] is None:
        raise NotSwitchable("The regularisation is the user's own function, which the torch side does not have.")
    training.objects.regularisation = None if value == "none" else kept[0]


def _penalising(training: TorchTraining, rows: Sequence[Any]) -> Callable[[Any], Any]:
    import torch

    tensors = training.live.named()

    def penalties(_module: Any) -> Any:
        parts = [l1 * tensors[name].abs().sum() + l2 * tensors[name].square().sum() for name, l1, l2 in rows]
        return torch.stack(parts).sum()

    return penalties
