"""torchvision's classifiers: every set of weights, with the transforms and figures its package carries."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from importlib import metadata
from typing import Any, ClassVar

from zoolens.manifests.schema import (
    Architecture,
    Asset,
    AssetFile,
    CenterCrop,
    Claim,
    Framework,
    Input,
    Manifest,
    Normalize,
    Output,
    Resize,
)
from zoolens.torchvision_shim import import_torchvision
from zoolens.zoos.base import Entry, Zoo
from zoolens.zoos.undescribed import weights_of

_DIGEST = re.compile(r"-([0-9a-f]{8,64})\.pth$")
_VERSION = re.compile(r"_V(\d+)$")


class TorchvisionZoo(Zoo):
    name: ClassVar[str] = "torchvision"
    summary: ClassVar[str] = "Classifiers of torchvision.models, one entry per set of weights"
    distributions: ClassVar[tuple[str, ...]] = ("torchvision", "torch")
    extra: ClassVar[str | None] = "torchvision"

    def entries(self, search: str | None = None) -> Iterator[Entry]:
        models = import_torchvision().models
        for architecture in models.list_models(module=models):
            choices = models.get_model_weights(architecture)
            for weights in choices:
                name = f"{architecture}/{weights.name}"
                if search is None or search.lower() in name.lower():
                    default = weights is choices.DEFAULT
                    manifest = _manifest(architecture, weights, default=default)
                    yield Entry(self.name, manifest, weights_of(manifest, None))


def _manifest(architecture: str, weights: Any, *, default: bool) -> Manifest:
    meta = weights.meta
    version = _VERSION.search(weights.name)
    recipe = meta.get("recipe")
    attributes: dict[str, Any] = {"library": "torchvision", "architecture": architecture, "weights": weights.name}
    if default:
        attributes["aliases"] = [architecture]
    return Manifest(
        name=f"{architecture}/{weights.name}",
        version=f"{version.group(1)}.0.0" if version else "1.0.0",
        description=" ".join(meta.get("_docs", "").split()),
        license=meta.get("license"),
        references=(recipe,) if isinstance(recipe, str) else (),
        framework=Framework(name="torch"),
        inputs=(_input(weights.transforms()),),
        outputs=(_output(meta.get("categories")),),
        assets=(_asset(architecture, weights.url),),
        attributes=attributes,
        claims=tuple(_claims(meta)),
    )


def _asset(architecture: str, url: str) -> Asset:
    digest = _DIGEST.search(url)
    return Asset(
        format="torch-state-dict",
        files=(AssetFile(location=url, sha256=digest.group(1) if digest else None),),
        architecture=Architecture(library="torchvision", name=architecture),
    )


def _input(transforms: Any) -> Input:
    crop = transforms.crop_size[0]
    return Input(
        shape=(None, 3, crop, crop),
        preprocess=(
            Resize(
                op="resize",
                size=transforms.resize_size[0],
                method=transforms.interpolation.value,
                library="torchvision",
                antialias=bool(transforms.antialias),
            ),
            CenterCrop(op="center_crop", size=(crop, crop)),
            Normalize(op="normalize", scale=1 / 255, mean=tuple(transforms.mean), std=tuple(transforms.std)),
        ),
    )


def _output(categories: list[str] | None) -> Output:
    """One set of weights (VGG16 "features") has no classifier and so no categories."""
    return Output(labels=tuple(categories)) if categories else Output(task="other")


def _claims(meta: dict[str, Any]) -> Iterator[Claim]:
    source = f"torchvision {metadata.version('torchvision').partition('+')[0]} weights meta"
    for dataset, figures in meta["_metrics"].items():
        for metric, key in (("top1", "acc@1"), ("top5", "acc@5")):
            if not math.isnan(figures[key]):
                value = round(figures[key] / 100, 6)
                yield Claim(metric=metric, value=value, unit="fraction", dataset=dataset, source=source)
    yield Claim(metric="params", value=meta["num_params"], source=source)
    # torchvision's "GFLOPS" count a multiply-add once.
    yield Claim(metric="flops", value=meta["_ops"] * 1e9, unit="multiply-adds", source=source)
    yield Claim(metric="file_size", value=round(meta["_file_size"] * 2**20), unit="B", source=source)
