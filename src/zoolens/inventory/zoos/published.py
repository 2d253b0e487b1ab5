"""Published accuracies as claims, in the one form that all zoos give them."""

from __future__ import annotations

from collections.abc import Iterator

from zoolens.inventory.manifests.schema import Claim

IMAGENET = "ImageNet-1K"


def accuracy_claims(source: str, top1: float | None, top5: float | None, dataset: str = IMAGENET) -> Iterator[Claim]:
    """Claims of accuracies that a source gives in per cent; None where it gives none."""
    for metric, percent in (("top1", top1), ("top5", top5)):
        if percent is not None:
            value = round(percent / 100, 6)
            yield Claim(metric=metric, value=value, unit="fraction", dataset=dataset, source=source)
