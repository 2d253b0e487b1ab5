"""torchvision's classifiers, detectors and segmenters: every set of weights, with the transforms and figures that its
package carries."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from importlib import metadata
from typing import Any, ClassVar

from zoolens.inventory.frameworks.torchvision_shim import import_torchvision
from zoolens.inventory.manifests.schema import Architecture, Asset, AssetFile, Claim, Framework, Input, Manifest, Output
from zoolens.inventory.manifests.schema_masks import Masks
from zoolens.inventory.manifests.schema_steps import CenterCrop, Normalize, Resize
from zoolens.inventory.zoos.undescribed import weights_of
from zoolens.inventory.zoos.zoo import Entry, Zoo

_DIGEST = re.compile(r"-([0-9a-f]{8,64})\.pth$")
_VERSION = re.compile(r"_V(\d+)$")
_METRICS = (
    ("top1", "acc@1"),
    ("top5", "acc@5"),
    ("box_map", "box_map"),
    ("mask_map", "mask_map"),
    ("keypoint_map", "kp_map"),
    ("miou", "miou"),
    ("pixel_accuracy", "pixel_acc"),
)


class TorchvisionZoo(Zoo):
    name: ClassVar[str] = "torchvision"
    summary: ClassVar[str] = "Classifiers, detectors and segmenters of torchvision.models, one entry per set of weights"
    distributions: ClassVar[tuple[str, ...]] = ("torchvision", "torch")
    extra: ClassVar[str | None] = "torchvision"

    def state(self) -> str:
        # Listings that were kept before these were listed are not used.
        return "with detectors, and segmenters by their task"

    def entries(self, search: str | None = None) -> Iterator[Entry]:
        models = import_torchvision(with_compiler=False).models
        for module, kind in ((models, ""), (models.detection, "detection"), (models.segmentation, "segmentation")):
            for architecture in models.list_models(module=module):
                choices = models.get_model_weights(architecture)
                for weights in choices:
                    name = f"{architecture}/{weights.name}"
                    if search is None or search.lower() in name.lower():
                        manifest = _manifest(architecture, weights, default=weights is choices.DEFAULT)
                        manifest = _other_task(manifest, kind, weights) if kind else manifest
                        yield Entry(self.name, manifest, weights_of(manifest, None))


def _other_task(manifest: Manifest, kind: str, weights: Any) -> Manifest:
    """A detector or segmenter: boxes and maps are no scores of classes, and its backbone is not fetched."""
    auxiliary = {"aux_loss": True} if kind == "segmentation" and "lraspp" not in manifest.name else {}
    asset = manifest.assets[0]
    assert asset.architecture is not None
    built = asset.architecture.model_copy(update={"arguments": {"weights_backbone": None, **auxiliary}})
    classes = tuple(weights.meta["categories"])
    changes = {
        # A detector answers with a list of dictionaries, one for each image, which no step of a manifest reads.
        "outputs": (_map_of_scores(classes) if kind == "segmentation" else Output(task="other"),),
        "assets": (asset.model_copy(update={"architecture": built}),),
        "attributes": {
            **manifest.attributes,
            "task": kind,
            "classes": list(classes),
            **({"arguments": auxiliary} if auxiliary else {}),
        },
    }
    return manifest.model_copy(update=changes)


def _map_of_scores(classes: tuple[str, ...]) -> Output:
    return Output(name="out", task="segmentation", postprocess=(Masks(op="masks", layout="NCHW"),), labels=classes)


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
    # Detectors resize and normalise within the network.
    if not hasattr(transforms, "resize_size"):
        return Input(shape=(None, 3, None, None), preprocess=(Normalize(op="normalize", scale=1 / 255),))
    resize = Resize(
        op="resize",
        size=transforms.resize_size[0],
        method=transforms.interpolation.value,
        library="torchvision",
        antialias=bool(transforms.antialias),
    )
    normalize = Normalize(op="normalize", scale=1 / 255, mean=tuple(transforms.mean), std=tuple(transforms.std))
    if not hasattr(transforms, "crop_size"):  # segmenters take the whole image
        return Input(shape=(None, 3, None, None), preprocess=(resize, normalize))
    crop = transforms.crop_size[0]
    return Input(
        shape=(None, 3, crop, crop),
        preprocess=(resize, CenterCrop(op="center_crop", size=(crop, crop)), normalize),
    )


def _output(categories: list[str] | None) -> Output:
    """One set of weights (VGG16 "features") has no classifier and so no categories."""
    return Output(labels=tuple(categories)) if categories else Output(task="other")


def _claims(meta: dict[str, Any]) -> Iterator[Claim]:
    source = f"torchvision {metadata.version('torchvision').partition('+')[0]} weights meta"
    for dataset, figures in meta["_metrics"].items():
        for metric, key in _METRICS:
            if not math.isnan(figures.get(key, math.nan)):
                value = round(figures[key] / 100, 6)
                yield Claim(metric=metric, value=value, unit="fraction", dataset=dataset, source=source)
    yield Claim(metric="params", value=meta["num_params"], source=source)
    # torchvision's "GFLOPS" count a multiply-add once.
    yield Claim(metric="flops", value=meta["_ops"] * 1e9, unit="multiply-adds", source=source)
    yield Claim(metric="file_size", value=round(meta["_file_size"] * 2**20), unit="B", source=source)
