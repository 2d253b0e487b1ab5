"""Published accuracies as claims, in the one form that all zoos give them."""

from __future__ import annotations

from collections.abc import Iterator

from zoolens.manifests.schema import Claim

IMAGENET = "ImageNet-1K"


def accuracy_claims(source: str, top1: float | None, top5: float | None) -> Iterator[Claim]:
    """ImageNet accuracies given in per cent; None where the source gives none."""
    for metric, percent in (("top1", top1), ("top5", top5)):
        if percent is not None:
            value = round(percent / 100, 6)
            yield Claim(metric=metric, value=value, unit="fraction", dataset=IMAGENET, source=source)
