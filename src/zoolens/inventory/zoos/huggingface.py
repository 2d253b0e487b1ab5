"""The Hugging Face hub: searched by name, one entry per file that can be run without executing its code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import Any, ClassVar

from zoolens.base.errors import AssetError, MissingDependency, first_line
from zoolens.inventory.manifests import hub
from zoolens.inventory.manifests.formats import legal_name
from zoolens.inventory.manifests.schema import Architecture, Asset, AssetFile, Manifest
from zoolens.inventory.zoos.undescribed import undescribed, weights_of
from zoolens.inventory.zoos.zoo import Entry, Zoo

LIMIT = 50
_FORMATS = {".onnx": "onnx", ".tflite": "tflite", ".keras": "keras"}
_MAIN = ("onnx/model.onnx", "model.onnx", "model.tflite", "model.keras")
_TIMM_WEIGHTS = "model.safetensors"


class HuggingFaceZoo(Zoo):
    name: ClassVar[str] = "huggingface"
    summary: ClassVar[str] = "Models on the Hugging Face hub with ONNX, TFLite, Keras or timm files"
    distributions: ClassVar[tuple[str, ...]] = ("huggingface_hub",)
    extra: ClassVar[str | None] = "huggingface"
    remote: ClassVar[bool] = True

    def entries(self, search: str | None = None) -> Iterator[Entry]:
        """Image classifiers matching `search`; a full owner/repository name is looked up exactly, whatever its task."""
        for info in _repositories(search):
            for manifest in _manifests(info):
                yield Entry(self.name, manifest, weights_of(manifest, None))


def _repositories(search: str | None) -> Iterable[Any]:
    try:
        from huggingface_hub import HfApi
        from huggingface_hub.errors import RepositoryNotFoundError
    except ImportError as error:
        raise MissingDependency("Zoo huggingface", "huggingface_hub", "huggingface") from error
    hub.check_reachable()
    api = HfApi(endpoint=hub.endpoint_url())
    try:
        if search and "/" in search:
            try:
                return [api.model_info("/".join(search.split("/")[:2]))]
            except RepositoryNotFoundError:
                return []
        return list(api.list_models(search=search, pipeline_tag="image-classification", full=True, limit=LIMIT))
    except Exception as error:
        raise AssetError(
            f"The Hugging Face hub cannot be reached: {first_line(error).rstrip('.')}.",
            hint="Check the network, or use the other zoos: `zoolens models` lists them.",
        ) from error


def _manifests(info: Any) -> Iterator[Manifest]:
    files = [sibling.rfilename for sibling in info.siblings or ()]
    runnable = [file for file in files if PurePosixPath(file).suffix in _FORMATS]
    main = next((file for file in _MAIN if file in runnable), runnable[0] if len(runnable) == 1 else None)
    task = "classification" if info.pipeline_tag == "image-classification" else "other"
    for file in runnable:
        # The main file answers to the repository's name, variants (quantised, other sizes) to their own.
        name = info.id if file == main else f"{info.id}/{file}"
        location = f"hf://{info.id}/{file}"
        manifest = undescribed(name, _FORMATS[PurePosixPath(file).suffix], {"model": location}, task=task)
        yield _with_facts(manifest, info)
    if not runnable and info.library_name == "timm" and _TIMM_WEIGHTS in files:
        yield _with_facts(_timm(info, task), info)


def _timm(info: Any, task: str) -> Manifest:
    """timm repositories are named after the model that reads them."""
    location = f"hf://{info.id}/{_TIMM_WEIGHTS}"
    manifest = undescribed(legal_name(info.id), "torch-state-dict", {"model": location}, task=task)
    build = Architecture(library="timm", name=info.id.partition("/")[2])
    asset = Asset(format="torch-state-dict", files=(AssetFile(location=location),), architecture=build)
    return manifest.model_copy(update={"assets": (asset,)})


def _with_facts(manifest: Manifest, info: Any) -> Manifest:
    license_ = next((tag.removeprefix("license:") for tag in info.tags or () if tag.startswith("license:")), None)
    facts = {"library": info.library_name, "downloads": info.downloads, "pipeline": info.pipeline_tag}
    return manifest.model_copy(
        update={
            "license": license_,
            "references": (f"https://huggingface.co/{info.id}",),
            "attributes": {**manifest.attributes, **{key: value for key, value in facts.items() if value is not None}},
        }
    )
