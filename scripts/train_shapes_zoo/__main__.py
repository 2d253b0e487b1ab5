"""python -m scripts.train_shapes_zoo, from the root of the repository: draws the pictures, trains, exports, describes.

Some minutes on one thread. Other versions of torch or another processor may give slightly different weights.
"""

from __future__ import annotations

import argparse
import hashlib
from importlib.metadata import version
from pathlib import Path
from typing import Final

import numpy as np

from zoolens.inventory.manifests.files import dump_manifest
from zoolens.inventory.manifests.schema import Asset, AssetFile, Framework, Input, Manifest, Output
from zoolens.inventory.manifests.schema_boxes import Letterbox, ReadBoxes, Suppress
from zoolens.inventory.zoos.demo import SHAPES_FOLDER

from .export import write_onnx
from .network import Detector, parameters
from .pictures import CLASSES, SIDE, write_dataset
from .training import EPOCHS, PICTURES, train

WIDTHS: Final = {"detector-small": 4, "detector-medium": 6, "detector-large": 10}
_SEED: Final = 7
_SHOWN: Final = 200  # pictures that travel with zoolens
_SHOWN_SEED: Final = 2026  # none of them is among those that were trained on


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m scripts.train_shapes_zoo", description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=SHAPES_FOLDER, help="where pictures, models and manifests go")
    parser.add_argument(
        "--models", nargs="+", choices=WIDTHS, default=list(WIDTHS), metavar="NAME", help="make only these"
    )
    parser.add_argument("--pictures", action="store_true", help="draw the pictures only")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    write_dataset(arguments.output, _SHOWN, _SHOWN_SEED)
    if arguments.pictures:
        return
    for name in arguments.models:
        model = train(WIDTHS[name], _SEED)
        path = arguments.output / f"{name}.onnx"
        write_onnx(model, path)
        _check(model, path)
        path.with_suffix(".yaml").write_text(dump_manifest(_described(name, model, path)), encoding="utf-8")
        print(f"{name}: {parameters(model):,} parameters, {path.stat().st_size:,} bytes", flush=True)


def _check(model: Detector, path: Path) -> None:
    """The file answers what torch does."""
    import onnxruntime
    import torch

    pixels = np.random.default_rng(0).integers(0, 256, (5, 3, SIDE, SIDE)).astype(np.float32)
    with torch.no_grad():
        expected = [part.numpy() for part in model(torch.from_numpy(pixels))]
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for found, wanted in zip(session.run(["boxes", "scores"], {"image": pixels}), expected, strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-3)


def _described(name: str, model: Detector, path: Path) -> Manifest:
    content = path.read_bytes()
    file = AssetFile(location=path.name, sha256=hashlib.sha256(content).hexdigest(), bytes=len(content))
    reading = ReadBoxes(op="boxes", format="cxcywh", units="pixels")
    return Manifest(
        name=name,
        version="1.0.0",
        description="Finds circles, squares and triangles in drawn pictures of 64 × 64 pixels.",
        license="Apache-2.0",
        framework=Framework(name="torch"),
        inputs=(
            Input(
                name="image", shape=(None, 3, SIDE, SIDE), preprocess=(Letterbox(op="letterbox", size=(SIDE, SIDE)),)
            ),
        ),
        outputs=(
            Output(
                task="detection",
                parts={"boxes": "boxes", "scores": "scores"},
                scores="probabilities",
                postprocess=(reading, Suppress(op="nms", iou=0.5)),
                labels=CLASSES,
            ),
        ),
        assets=(Asset(format="onnx", files=(file,)),),
        attributes={
            "parameters": parameters(model),
            "epochs": EPOCHS,
            "pictures": PICTURES,
            "seed": _SEED,
            "trained_with": f"torch {version('torch').partition('+')[0]}",
            "recipe": "python -m scripts.train_shapes_zoo",
        },
    )


if __name__ == "__main__":
    main()
