"""Losses of recipes in torch: torch's own functions, each with the mean over a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zoolens.training.crosstrain.training.recipe import Recipe
from zoolens.training.pairs.semantics import Semantics

Loss = Callable[[Any, Any], Any]  # logits and labels to the mean loss


def make_loss(recipe: Recipe, semantics: Semantics) -> Loss:
    """What torch does not have, smoothing of binary targets and smoothing over the other classes alone, is done to the
    targets."""
    import torch

    functional, smoothing = torch.nn.functional, recipe.label_smoothing
    others = semantics.smoothing == "others"

    def targets(logits: Any, labels: Any) -> Any:
        """One 1 in each row, smoothed."""
        classes = logits.shape[1]
        hot = (labels[:, None] == torch.arange(classes, device=labels.device)).to(logits.dtype)
        low = smoothing / ((classes if recipe.loss == "cross_entropy" else 2) - (1 if others else 0))
        return hot * (1 - smoothing - (low if others else 0)) + low

    if recipe.loss == "cross_entropy" and not (smoothing and others):
        return lambda logits, labels: functional.cross_entropy(logits, labels, label_smoothing=smoothing)
    compute = {
        "cross_entropy": functional.cross_entropy,
        "binary_cross_entropy": functional.binary_cross_entropy_with_logits,
        "mse": functional.mse_loss,
    }[recipe.loss]
    return lambda logits, labels: compute(logits, targets(logits, labels))
