"""A folder to try `zoolens init` on: some of the built-in models as bare files, and some of the built-in pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from zoolens.base.paths import exported_folder

_MODELS: Final = ("lenet-wide", "lenet-wide-int8", "lenet-narrow", "mlp-wide", "resnet-tiny")
_PICTURES: Final = 1_000


def write_example(folder: Path) -> None:
    """Write models without manifests, and pictures with a table of labels, into a new or empty folder."""
    from shutil import copyfile

    from PIL import Image

    from zoolens.inventory.datasets.demo import CLASSES
    from zoolens.inventory.datasets.opening import open_dataset
    from zoolens.inventory.zoos.demo import MODELS_FOLDER

    with exported_folder(folder) as building:
        for name in _MODELS:
            copyfile(MODELS_FOLDER / f"{name}.onnx", building / f"{name}.onnx")
        photos = building / "photos"
        photos.mkdir()
        lines = ["file,label"]
        dataset = open_dataset("demo", limit=_PICTURES)
        for place in range(len(dataset)):
            sample = dataset.read(place)
            file = f"{place:04d}.png"
            Image.fromarray(sample.value.squeeze()).save(photos / file)
            lines.append(f"{file},{sample.label}")
        (photos / "labels.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        (photos / "classes.txt").write_text("\n".join(CLASSES) + "\n", encoding="utf-8")
