"""timm's models: every pretrained tag with its data configuration, every other architecture as structure only."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, ClassVar

from zoolens.inventory.frameworks.torchvision_shim import import_torchvision
from zoolens.inventory.manifests import hub
from zoolens.inventory.manifests.schema import Architecture, Asset, AssetFile, Claim, Framework, Input, Manifest, Output
from zoolens.inventory.manifests.schema_steps import CenterCrop, Normalize, Resize, Step
from zoolens.inventory.zoos.data import table
from zoolens.inventory.zoos.published import IMAGENET, accuracy_claims
from zoolens.inventory.zoos.undescribed import weights_of
from zoolens.inventory.zoos.zoo import Entry, Zoo

_DIGEST = re.compile(r"-([0-9a-f]{8,64})\.pth$")


class TimmZoo(Zoo):
    name: ClassVar[str] = "timm"
    summary: ClassVar[str] = "Image models of timm, one entry per pretrained tag"
    distributions: ClassVar[tuple[str, ...]] = ("timm", "torch", "torchvision")
    extra: ClassVar[str | None] = "timm"

    def entries(self, search: str | None = None) -> Iterator[Entry]:
        # timm imports it, and it may need help.
        import_torchvision(with_compiler=False)
        import timm

        tagged = timm.list_models(pretrained=True)
        bare = {name.partition(".")[0] for name in tagged}
        for name in [*tagged, *(name for name in timm.list_models() if name not in bare)]:
            if search is None or search.lower() in name.lower():
                manifest = _manifest(name, timm)
                yield Entry(self.name, manifest, weights_of(manifest, None))


def _manifest(name: str, timm: Any) -> Manifest:
    architecture, _, tag = name.partition(".")
    config = timm.get_pretrained_cfg(name, allow_unregistered=True)
    default = timm.get_pretrained_cfg(architecture, allow_unregistered=True)
    attributes: dict[str, Any] = {"library": "timm", "architecture": architecture}
    if tag:
        attributes["pretrained_tag"] = tag
        if default is not None and default.tag == tag:
            attributes["aliases"] = [architecture]
    if default is not None and config.num_classes != default.num_classes:
        attributes["arguments"] = {"num_classes": config.num_classes}
    return Manifest(
        name=name,
        description=config.description or "",
        license=config.license,
        references=_references(config),
        framework=Framework(name="torch"),
        inputs=(_input(config),),
        outputs=(Output(task="classification" if config.num_classes else "embedding"),),
        assets=tuple(_assets(name, config)) if tag else (),
        attributes={**attributes, "num_classes": config.num_classes},
        claims=tuple(_claims(name, config.input_size[-1])),
    )


def _references(config: Any) -> tuple[str, ...]:
    papers = [config.paper_ids] if isinstance(config.paper_ids, str) else list(config.paper_ids or ())
    return tuple(text for text in (*papers, config.origin_url) if text)


def _assets(name: str, config: Any) -> Iterator[Asset]:
    """The hub's safetensors, and torch's own download where its name carries the digest we verify it by."""
    if config.custom_load:
        # Weights in a layout of their own (.npz): nothing zoolens could load.
        return
    build = Architecture(library="timm", name=name)
    if config.hf_hub_id:
        filename = config.hf_hub_filename or "model.safetensors"
        if not filename.endswith(hub.PICKLES):
            location = f"hf://{config.hf_hub_id.removeprefix('hf-hub:')}/{filename}"
            yield Asset(format="torch-state-dict", files=(AssetFile(location=location),), architecture=build)
    elif config.url and (digest := _DIGEST.search(config.url)):
        file = AssetFile(location=config.url, sha256=digest.group(1))
        yield Asset(format="torch-state-dict", files=(file,), architecture=build)


def _input(config: Any) -> Input:
    channels, height, width = config.input_size
    return Input(shape=(None, channels, height, width), preprocess=tuple(_steps(config, height, width)))


def _steps(config: Any, height: int, width: int) -> Iterator[Step]:
    """Yields the steps of timm's evaluation transform: the size before the crop is floor(size / crop_pct)."""
    method: Any = config.interpolation if config.interpolation in {"bilinear", "bicubic", "nearest"} else "bicubic"
    crop = config.crop_pct or 0.875
    if config.crop_mode == "squash" or height != width:
        size: int | tuple[int, int] = (math.floor(height / crop), math.floor(width / crop))
    else:
        size = math.floor(height / crop)
    yield Resize(op="resize", size=size, method=method, library="pil")
    yield CenterCrop(op="center_crop", size=(height, width))
    yield Normalize(op="normalize", scale=1 / 255, mean=tuple(config.mean), std=tuple(config.std))


def _claims(name: str, size: int) -> Iterator[Claim]:
    """Published results, those at the manifest's own image size first."""
    results = table("timm_results")
    rows = sorted(results["models"].get(name, ()), key=lambda row: row[0] != size)
    for image_size, top1, top5, _ in rows:
        yield from accuracy_claims(results["source"], top1, top5, f"{IMAGENET} at {image_size}×{image_size}")
    if rows:
        yield Claim(metric="params", value=rows[0][3] * 1e6, source=results["source"])
