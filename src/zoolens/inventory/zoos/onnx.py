"""The ONNX Model Zoo: its hub manifest, and the graphs without weights that the onnx package ships."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, ClassVar, Final

from zoolens.inventory.manifests.formats import legal_name
from zoolens.inventory.manifests.guesses import IMAGENET_NORMALIZE
from zoolens.inventory.manifests.locations import recorded_files
from zoolens.inventory.manifests.schema import Asset, AssetFile, Claim, Framework, Input, Manifest, Output
from zoolens.inventory.manifests.schema_steps import CenterCrop, Resize, Step
from zoolens.inventory.zoos.data import table
from zoolens.inventory.zoos.published import accuracy_claims
from zoolens.inventory.zoos.undescribed import weights_of
from zoolens.inventory.zoos.zoo import Entry, Weights, Zoo

_HUB: Final = "https://media.githubusercontent.com/media/onnx/models/main/"
_LIGHT: Final = "onnx/backend/test/data/light/"
_DTYPES: Final = {"float": "float32", "double": "float64"}
_KNOWN_DTYPES: Final = {"float32", "float64", "uint8", "int8", "int32", "int64", "bool", "string"}
# The zoo documents this for what it exported from MXNet Gluon and torchvision. Its Caffe exports differ from each
# other and from their own pages, so nothing is declared for them.
_STANDARD: Final = ("resnet", "mobilenet", "vgg", "squeezenet1.1", "shufflenet-v2")
_CAFFE: Final = ("caffe2",)
# Whose README row a weightless graph belongs to. The Caffe2 exports of ResNet-50 and VGG-19, Inception v2, ShuffleNet
# v1 and ZFNet have no figure of their own there.
_LIGHT_ROWS: Final = {
    "bvlc_alexnet": "AlexNet",
    "densenet121": "DenseNet-121-12",
    "inception_v1": "Inception-1",
    "squeezenet": "SqueezeNet 1.0",
}


class OnnxZoo(Zoo):
    name: ClassVar[str] = "onnx"
    summary: ClassVar[str] = "The ONNX Model Zoo's hub, and the weightless graphs inside the onnx package"

    def entries(self, search: str | None = None) -> Iterator[Entry]:
        for entry in (*_light_entries(), *_hub_entries()):
            if search is None or search.lower() in entry.manifest.name.lower():
                yield entry


# --- graphs in the onnx package: real structure, weights replaced by constants


def _light_entries() -> Iterator[Entry]:
    for inside in sorted(recorded_files("onnx") or ()):
        if inside.startswith(_LIGHT) and inside.endswith(".onnx"):
            yield Entry("onnx", _light_manifest(inside), Weights.ABSENT)


def _light_manifest(inside: str) -> Manifest:
    architecture = PurePosixPath(inside).stem.removeprefix("light_")
    return Manifest(
        name=f"light/{architecture}",
        description="Graph of a zoo model whose weights were replaced by constants: structure only.",
        license="Apache-2.0",
        inputs=(Input(shape=(1, 3, 224, 224)),),
        outputs=(Output(scores="probabilities"),),
        attributes={"architecture": architecture, "graph": f"package://onnx/{inside}", "opset": 9},
        claims=tuple(_accuracy(_LIGHT_ROWS.get(architecture))),
    )


# --- the hub


@dataclass(frozen=True)
class _Row:
    model: str
    path: str
    sha256: str
    bytes: int
    opset: int
    tags: list[str]
    inputs: list[Any]
    outputs: list[Any]

    @property
    def stem(self) -> str:
        return PurePosixPath(self.path).stem

    @property
    def classifies(self) -> bool:
        return "classification" in self.tags and "preproc" not in self.stem

    @property
    def standard(self) -> bool:
        known = self.stem.startswith(_STANDARD) and not any(mark in self.stem for mark in _CAFFE)
        return self.classifies and known


def _hub_entries() -> Iterator[Entry]:
    for values in table("onnx_hub")["models"]:
        manifest = _hub_manifest(_Row(*values))
        yield Entry("onnx", manifest, weights_of(manifest, None))


def _hub_manifest(row: _Row) -> Manifest:
    return Manifest(
        name=legal_name(row.stem),
        description=_describe(row),
        license="Apache-2.0",
        references=(f"{table('onnx_hub')['source_url']}/tree/main/{PurePosixPath(row.path).parent.parent}",),
        framework=Framework(name="onnx"),
        element_type="int8" if row.stem.endswith(("int8", "qdq")) else "float32",
        inputs=tuple(_input(row, port) for port in row.inputs) or (Input(modality="array", shape=(None,)),),
        outputs=tuple(_output(row, port) for port in row.outputs) or (Output(task=_task(row)),),
        assets=(Asset(format="onnx", files=(_file(row),)),),
        attributes={"architecture": row.model, "opset": row.opset, "tags": row.tags},
        claims=tuple(_claims(row)),
    )


def _file(row: _Row) -> AssetFile:
    return AssetFile(location=_HUB + row.path, sha256=row.sha256, bytes=row.bytes)


def _describe(row: _Row) -> str:
    text = f"{row.model}, opset {row.opset}."
    if row.classifies and not row.standard:
        text += " The zoo does not publish its preprocessing unambiguously: add the steps in a manifest of your own."
    return text


def _task(row: _Row) -> Any:
    return "classification" if row.classifies else "other"


def _input(row: _Row, port: list[Any]) -> Input:
    name, shape, kind = port
    dtype = _dtype(kind)
    image = row.classifies and len(shape) == 4
    layout = "NHWC" if image and shape[-1] in (1, 3) else "NCHW"
    channels = (shape[-1] if layout == "NHWC" else shape[1]) if image else None
    return Input(
        name=name,
        modality="image" if image else "array",
        shape=tuple(extent if extent else None for extent in shape),
        layout=layout,  # type: ignore[arg-type]
        color="gray" if channels == 1 else "RGB",
        dtype=dtype,
        preprocess=tuple(_standard_steps()) if image and row.standard else (),
    )


def _standard_steps() -> Iterator[Step]:
    yield Resize(op="resize", size=256)
    yield CenterCrop(op="center_crop", size=(224, 224))
    yield IMAGENET_NORMALIZE


def _output(row: _Row, port: list[Any]) -> Output:
    name = str(port[0])
    probable = any(word in name.lower() for word in ("prob", "softmax"))
    return Output(name=name, task=_task(row), scores="probabilities" if probable else "logits")


def _dtype(kind: str) -> Any:
    dtype = _DTYPES.get(kind, kind)
    # seq(tensor(uint8)): one preprocessing graph.
    return dtype if dtype in _KNOWN_DTYPES else "uint8"


def _claims(row: _Row) -> Iterator[Claim]:
    yield from _accuracy(row.model)
    yield Claim(metric="file_size", value=row.bytes, unit="B", source=table("onnx_hub")["source"])


def _accuracy(row: str | None) -> Iterator[Claim]:
    hub = table("onnx_hub")
    if row in hub["accuracy"]:
        yield from accuracy_claims(hub["accuracy_source"], *hub["accuracy"][row])
