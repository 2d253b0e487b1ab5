"""The classes of ImageNet-1k: WordNet id and English names, in the order in which nearly every model answers.

The order is that of the WordNet ids as text. Folders of ImageNet and of its small relatives (Imagenette, ImageWoof,
ImageNet-100) are named by these ids, so that they say which of a model's 1,000 outputs they stand for.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

CLASSES = 1000
BACKGROUND = "background"  # the class before the others in models with 1,001 outputs


@cache
def imagenet_classes() -> tuple[str, ...]:
    """One text a class, as in "n01440764 tench, Tinca tinca"."""
    table = (files("zoolens.inventory.datasets") / "data" / "imagenet_classes.tsv").read_text(encoding="utf-8")
    rows = (line.split("\t") for line in table.splitlines())
    return tuple(f"{wordnet_id} {names.replace('|', ', ')}" for wordnet_id, names in rows)


def imagenet_names(outputs: int) -> tuple[str, ...] | None:
    """Returns the classes of a model with this number of outputs, if it can be an ImageNet-1k model."""
    if outputs == CLASSES:
        return imagenet_classes()
    return (BACKGROUND, *imagenet_classes()) if outputs == CLASSES + 1 else None
