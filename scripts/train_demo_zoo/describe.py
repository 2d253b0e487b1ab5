"""What the zoo says about each model it made: the manifest."""

from __future__ import annotations

import hashlib
from importlib.metadata import version
from pathlib import Path
from typing import Any

from zoolens.inventory.datasets.demo import CLASSES
from zoolens.inventory.manifests.schema import Asset, AssetFile, Claim, Framework, Input, Manifest, Output
from zoolens.inventory.manifests.schema_steps import Normalize

from .architecture import INPUT_SHAPE
from .data import MEAN, SCALE, STD
from .recipes import Recipe
from .verify import Verified

REFERENCES = ("https://arxiv.org/abs/1708.07747", "https://github.com/zalandoresearch/fashion-mnist")


def manifest_for(
    recipe: Recipe, name: str, files: dict[str, Path], verified: Verified, attributes: dict[str, Any]
) -> Manifest:
    int8 = name == recipe.int8
    return Manifest(
        name=name,
        version="1.0.0",
        description=_description(recipe, int8),
        license="Apache-2.0",
        references=REFERENCES,
        framework=Framework(name=recipe.framework, version=_known_versions(recipe.framework)),
        element_type="int8" if int8 else "float32",
        inputs=(_input(),),
        outputs=(Output(scores="logits", labels=CLASSES),),
        assets=tuple(_asset(kind, path) for kind, path in files.items()),
        attributes={**attributes, "accuracy": verified.accuracy, "formats_compared": verified.agreement},
        claims=(
            Claim(
                metric="top1",
                value=verified.accuracy["onnx"],
                unit="fraction",
                dataset="fashion-mnist/test",
                source=f"python -m scripts.train_demo_zoo --models {name} (ONNX file, onnxruntime)",
            ),
        ),
    )


def training_attributes(recipe: Recipe, parameters: int, trainer: Any) -> dict[str, Any]:
    return {
        "architecture": recipe.architecture,
        "layers": [str(layer) for layer in recipe.layers],
        "parameters": parameters,
        "training_data": "fashion-mnist/train (60,000 images)",
        "epochs": recipe.epochs,
        "seed": recipe.seed,
        "recipe": f"Adam, learning rate {recipe.learning_rate}, batch size {recipe.batch_size}, no augmentation",
        "initialisation": trainer.INITIALISATION,
        "trained_with": {package: version(package) for package in trainer.PACKAGES},
    }


def _description(recipe: Recipe, int8: bool) -> str:
    if int8:
        return f"{recipe.name} quantised to int8 after training: the same weights, a quarter of the size."
    return f"{recipe.summary} Trained on Fashion-MNIST with {recipe.framework}."


def _known_versions(framework: str) -> str:
    major, minor, *_ = version(framework).split(".")
    return f">={major}.{minor}"


def _input() -> Input:
    normalize = Normalize(op="normalize", scale=SCALE, mean=(MEAN,), std=(STD,))
    return Input(shape=(None, *INPUT_SHAPE[:2]), layout="NHW", color="gray", preprocess=(normalize,))


def _asset(kind: str, path: Path) -> Asset:
    content = path.read_bytes()
    file = AssetFile(location=path.name, sha256=hashlib.sha256(content).hexdigest(), bytes=len(content))
    return Asset(format=kind, files=(file,))
