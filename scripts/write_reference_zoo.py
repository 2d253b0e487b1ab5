"""Write the manifests of the reference models: the real models that tests and docs/reference-models.md use.

    python scripts/write_reference_zoo.py ../shared/assets

The models themselves are not part of this project; the manifests find them through ZOOLENS_ASSETS. What each model
wants as input was read from the reference folder's own description; the accuracies there, measured independently
of zoolens, become claims.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from zoolens.inventory.manifests.files import write_manifest
from zoolens.inventory.manifests.schema import Manifest

OUT = Path(__file__).parent.parent / "tests" / "reference_zoo"

IMAGENET_STD = {"op": "normalize", "scale": 1 / 255, "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}
PLUS_MINUS_ONE = {"op": "normalize", "mean": [127.5], "std": [127.5]}
EDGETPU = {"op": "normalize", "mean": [127.0], "std": [128.0]}
CAFFE_BGR = {"op": "normalize", "mean": [104.0, 117.0, 123.0]}
SAMPLENET_RGB = {"op": "normalize", "mean": [125.307, 122.961, 113.8575], "std": [51.5865, 50.847, 51.255]}
SAMPLENET_BGR = {"op": "normalize", "mean": [113.8575, 122.961, 125.307], "std": [51.255, 50.847, 51.5865]}
UNIT = {"op": "normalize", "scale": 1 / 255}
LENET = {"op": "normalize", "scale": 1 / 256}

CIFAR_RESNET = '''
import torch
from torch import nn
import torch.nn.functional as F


class Block(nn.Module):
    """Two 3x3 convolutions; the shortcut takes every other pixel and pads channels with zeros (option A)."""

    def __init__(self, inside, outside, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.stride, self.extra = stride, (outside - inside) // 2

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if self.extra:
            x = F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, self.extra, self.extra))
        return F.relu(x + y)


class Net(nn.Module):
    def __init__(self, blocks):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        widths = [16, 16, 32, 64]
        for stage in (1, 2, 3):
            first = Block(widths[stage - 1], widths[stage], 1 if stage == 1 else 2)
            rest = [Block(widths[stage], widths[stage], 1) for _ in range(blocks - 1)]
            setattr(self, f"layer{stage}", nn.Sequential(first, *rest))
        self.linear = nn.Linear(64, 10)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.linear(x.mean(dim=(2, 3)))


def build():
    return Net(BLOCKS)
'''

SAMPLENET = """
import torch
from torch import nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 6, 5)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = torch.flatten(x, 1)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


def build():
    return Net()
"""


class Writer:
    def __init__(self, assets: Path) -> None:
        described = json.loads((assets / "MANIFEST.json").read_text())
        self.described = {entry["file"]: entry for entry in described["entries"]}
        self.packaged = described["in_packages"]
        self.written = 0

    def file(self, name: str, role: str = "model") -> dict[str, Any]:
        entry = self.described[name]
        return {
            "location": f"file://${{ZOOLENS_ASSETS}}/{name}",
            "role": role,
            "sha256": entry["sha256"],
            "bytes": entry["bytes"],
        }

    def write(
        self, name: str, entry: dict[str, Any], asset: dict[str, Any], source: dict[str, Any], output: dict[str, Any],
        **more: Any,
    ) -> None:  # fmt: skip
        manifest = Manifest.model_validate(
            {
                "name": name,
                "version": "1.0.0",
                "description": entry["what"],
                "license": entry["licence"],
                "references": [entry["source"]],
                "inputs": [source],
                "outputs": [output],
                "assets": [asset],
                "attributes": {"architecture": entry["architecture"]},
                "claims": [
                    {"metric": key.rpartition("_")[2], "value": value / 100, "unit": "fraction",
                     "dataset": key.rpartition("_")[0], "source": "reference measurement, independent of zoolens"}
                    for key, value in entry.get("measured", {}).items()
                ],
                **more,
            }
        )  # fmt: skip
        path = OUT / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_manifest(manifest, path)
        self.written += 1

    # --- families

    def imagenet_tflite(self) -> None:
        for file, entry in self.described.items():
            if not file.startswith("imagenet/tflite/"):
                continue
            stem = Path(file).stem
            nchw = "nchw" in stem
            side = int(next(iter(re.findall(r"_(128|160|192|224)", stem)), 224))
            norm = IMAGENET_STD if nchw else EDGETPU if "edgetpu" in stem or "efficientnet" in stem else PLUS_MINUS_ONE
            classes = 1001 if "1001" in entry["preprocessing"] else 1000
            self.write(
                f"imagenet/{stem}",
                entry,
                {"format": "tflite", "files": [self.file(file)]},
                image(side, "NCHW" if nchw else "NHWC", norm),
                classification("logits" if nchw else "probabilities", background=classes == 1001),
                element_type="float32" if "float" in stem else "int8",
            )

    def imagenet_others(self) -> None:
        for file in ("imagenet/onnx/shufflenet-v2-12-int8.onnx", "imagenet/onnx/nnstreamer_mobilenet_v2_quant.onnx"):
            self.write(
                f"imagenet/{Path(file).stem}", self.described[file], {"format": "onnx", "files": [self.file(file)]},
                image(224, "NCHW", IMAGENET_STD), classification("logits"), element_type="int8",
            )  # fmt: skip
        for file, kind in (("mobilenet_v1_0.25_224.h5", "keras-h5"), ("mobilenetv1_a025_224.keras", "keras")):
            file = f"imagenet/keras/{file}"
            self.write(
                f"imagenet/{Path(file).stem}", self.described[file], {"format": kind, "files": [self.file(file)]},
                image(224, "NHWC", PLUS_MINUS_ONE), classification("probabilities"),
            )  # fmt: skip
        weights = "imagenet/caffe/squeezenet_v1.1.caffemodel"
        self.write(
            "imagenet/squeezenet_v1.1_caffe", self.described[weights],
            {"format": "caffe",
             "files": [self.file("imagenet/caffe/squeezenet_v1.1.deploy.prototxt"), self.file(weights, "weights")]},
            image(227, "NCHW", CAFFE_BGR, color="BGR"), classification("probabilities"),
        )  # fmt: skip
        weights = "imagenet/ncnn/squeezenet_v1.1.bin"
        self.write(
            "imagenet/squeezenet_v1.1_ncnn", self.described[weights],
            {"format": "ncnn",
             "files": [self.file("imagenet/ncnn/squeezenet_v1.1.param"), self.file(weights, "weights")]},
            image(227, "NCHW", CAFFE_BGR, color="BGR"), classification("probabilities"), element_type="float16",
        )  # fmt: skip

    def packaged_torch(self) -> None:
        for entry in self.packaged:
            _, rest = entry["package"].split(":", 1)
            distribution, inside = rest.split(":", 1)
            lite = "efficientnet" in distribution
            architecture = (
                {"library": "timm", "name": "tf_efficientnet_lite0", "match": "position"}
                if lite
                else {"library": "torchvision", "name": "mobilenet_v2"}
            )
            location = f"package://{distribution.partition('==')[0]}/{inside}"
            file = {"location": location, "sha256": entry["sha256"], "bytes": entry["bytes"]}
            self.write(
                f"imagenet/{architecture['name']}_torch", entry,
                {"format": "torch-state-dict", "files": [file], "architecture": architecture},
                image(224, "NCHW", EDGETPU if lite else IMAGENET_STD, batch=None), classification("logits"),
                framework={"name": "torch"},
            )  # fmt: skip

    def cifar(self) -> None:
        for depth in (20, 32, 44, 56):
            file = next(one for one in self.described if one.startswith(f"cifar10/torch/resnet{depth}-"))
            architecture = {"library": "code", "prefix": "module.", "key": "state_dict"}
            self.write(
                f"cifar10/resnet{depth}", self.described[file],
                {"format": "torch-state-dict", "files": [self.file(file)], "architecture": architecture},
                image(32, "NCHW", IMAGENET_STD, resize=False, batch=None), classification("logits"),
                code={"architecture": CIFAR_RESNET.replace("BLOCKS", str((depth - 2) // 6)).strip() + "\n"},
            )  # fmt: skip
        for file, entry in self.described.items():
            if file.startswith("cifar10/mlperf_tiny/"):
                kind = "keras-h5" if file.endswith(".h5") else "tflite"
                integer = entry["what"].find("int8") >= 0
                self.write(
                    f"cifar10/{Path(file).stem}{'_h5' if kind == 'keras-h5' else ''}", entry,
                    {"format": kind, "files": [self.file(file)]},
                    image(32, "NHWC", None, resize=False), classification("probabilities"),
                    element_type="int8" if integer else "float32",
                )  # fmt: skip
        self.samplenet()

    def samplenet(self) -> None:
        folder = "cifar10/samplenet"
        rgb = image(32, "NCHW", SAMPLENET_RGB, resize=False)
        bgr = image(32, "NCHW", SAMPLENET_BGR, resize=False, color="BGR")
        onnx = self.described[f"{folder}/samplenet.onnx"]
        for name, kind, files, source, main in (
            ("caffe", "caffe", ("SampLeNet.prototxt", "SampLeNet.caffemodel"), rgb, "SampLeNet.caffemodel"),
            ("openvino", "openvino-ir", ("SampLeNet.xml", "SampLeNet.bin"), rgb, "SampLeNet.xml"),
            ("onnx", "onnx", ("samplenet.onnx",), bgr, "samplenet.onnx"),
            ("mxnet", "mxnet", ("samplenet-symbol.json", "samplenet-0000.params"), bgr, "samplenet-0000.params"),
            ("frozen", "tf-frozen", ("samplenet.pb",), bgr, "samplenet.pb"),
        ):
            entry = dict(self.described[f"{folder}/{main}"])
            if name == "mxnet":  # not measured there; the ONNX file has the same weights
                entry["measured"] = onnx["measured"]
            listed = [self.file(f"{folder}/{one}", "weights" if index else "model") for index, one in enumerate(files)]
            self.write(
                f"cifar10/samplenet_{name}", entry, {"format": kind, "files": listed}, source, classification("logits")
            )
        torch = f"{folder}/pytorch_model/samplenet.pth"
        self.write(
            "cifar10/samplenet_torch", self.described[torch],
            {"format": "torch-state-dict", "files": [self.file(torch)], "architecture": {"library": "code"}},
            {**rgb, "shape": [None, 3, 32, 32]}, classification("logits"),
            code={"architecture": SAMPLENET.strip() + "\n"},
        )  # fmt: skip
        saved = self.described[f"{folder}/samplenet_tf2/saved_model.pb"]
        self.write(
            "cifar10/samplenet_savedmodel", saved,
            {"format": "tf-savedmodel", "files": [{"location": f"file://${{ZOOLENS_ASSETS}}/{folder}/samplenet_tf2"}]},
            image(32, "NHWC", UNIT, resize=False, batch=None), classification("logits"),
        )  # fmt: skip

    def mnist(self) -> None:
        weights = "mnist/lenet_iter_9000.caffemodel"
        grey = {"modality": "image", "shape": [1, 1, 28, 28], "layout": "NCHW", "color": "gray", "preprocess": [LENET]}
        files = [self.file("mnist/lenet_mnist.prototxt"), self.file(weights, "weights")]
        self.write("mnist/lenet_caffe", self.described[weights], {"format": "caffe", "files": files}, grey,
                   classification("probabilities"))  # fmt: skip
        script = "mnist/pytorch_lenet5.pt"
        source = {"modality": "image", "shape": [1, 28, 28, 1], "layout": "NHWC", "color": "gray", "dtype": "uint8"}
        self.write("mnist/lenet5_torchscript", self.described[script],
                   {"format": "torchscript", "files": [self.file(script)]}, source,
                   classification("logits"))  # fmt: skip


def image(
    side: int,
    layout: str,
    norm: dict[str, Any] | None,
    *,
    color: str = "RGB",
    resize: bool = True,
    batch: int | None = 1,
) -> dict[str, Any]:
    shape = [batch, 3, side, side] if layout == "NCHW" else [batch, side, side, 3]
    steps = [{"op": "resize", "size": [side, side], "method": "bicubic", "library": "pil"}] if resize else []
    steps += [norm] if norm else []
    return {"modality": "image", "shape": shape, "layout": layout, "color": color, "preprocess": steps}


def classification(scores: str, background: bool = False) -> dict[str, Any]:
    steps = [{"op": "drop_leading", "count": 1}] if background else []
    return {"task": "classification", "scores": scores, "postprocess": steps}


if __name__ == "__main__":
    writer = Writer(Path(sys.argv[1] if len(sys.argv) > 1 else "../shared/assets"))
    writer.imagenet_tflite()
    writer.imagenet_others()
    writer.packaged_torch()
    writer.cifar()
    writer.mnist()
    print(f"{writer.written} manifests in {OUT}")
