"""One recipe from training to files and manifests; runs in a process of its own."""

from __future__ import annotations

import time
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from zoolens.inventory.manifests.files import write_manifest

from . import data
from .architecture import count_parameters
from .describe import manifest_for, training_attributes
from .recipes import Recipe
from .verify import verify

CALIBRATION_IMAGES: Final = 500


def make(recipe: Recipe, source: Path, models: Path) -> str:
    """Train one recipe and write its files and manifests, and those of its int8 form."""
    from . import onnx_export, tflite_export  # here: importing this module must stay cheap

    started = time.perf_counter()
    trainer = import_module(f".{recipe.framework}_trainer", __package__)
    training = data.load_split(source, "train")
    test = data.load_split(source, "t10k")
    print(f"{recipe.name}: training", flush=True)
    weights = trainer.train(recipe, training)
    attributes = training_attributes(recipe, count_parameters(weights), trainer)
    onnx_model = onnx_export.export(recipe.layers, weights, recipe.name)
    contents = {"onnx": onnx_model, "tflite": tflite_export.export(recipe.layers, weights)}
    report = _write(recipe, recipe.name, contents, test, attributes, models)
    if recipe.int8:
        images = training.images[:CALIBRATION_IMAGES]
        contents = {
            "onnx": onnx_export.quantise(onnx_model, images),
            "tflite": tflite_export.export(recipe.layers, weights, images),
        }
        quantisation = {
            "derived_from": recipe.name,
            "calibration_data": f"fashion-mnist/train[:{CALIBRATION_IMAGES}]",
            "onnx": f"{onnx_export.QUANTISATION} (onnxruntime {version('onnxruntime')})",
            "tflite": f"{tflite_export.QUANTISATION} (tensorflow {version('tensorflow')})",
        }
        report += "\n" + _write(
            recipe, recipe.int8, contents, test, attributes | {"quantisation": quantisation}, models
        )
    return f"{report}\n  {time.perf_counter() - started:.0f} s"


def _write(
    recipe: Recipe, name: str, contents: dict[str, bytes], test: data.Split, attributes: dict[str, Any], models: Path
) -> str:
    files = {kind: models / f"{name}.{kind}" for kind in contents}
    for kind, path in files.items():
        path.write_bytes(contents[kind])
    verified = verify(files, "int8" if name == recipe.int8 else "float32", test)
    write_manifest(manifest_for(recipe, name, files, verified, attributes), models / f"{name}.yaml")
    return f"{name}: {verified.accuracy}, {verified.agreement}"
