"""The zoo that comes with zoolens: twelve small Fashion-MNIST classifiers, each as ONNX and as TFLite.

`scripts/train_demo_zoo` trains, exports and checks them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import ClassVar, Final

from zoolens.inventory.manifests.files import read_manifest
from zoolens.inventory.manifests.schema import Manifest
from zoolens.inventory.zoos.zoo import Entry, Weights, Zoo

DATA_FOLDER: Final = Path(__file__).parent / "demo_data"
MODELS_FOLDER: Final = DATA_FOLDER / "models"
SHAPES_FOLDER: Final = DATA_FOLDER / "shapes"  # detectors, and pictures with boxes: see `zoolens demo detection`


class DemoZoo(Zoo):
    name: ClassVar[str] = "demo"
    summary: ClassVar[str] = "Twelve small Fashion-MNIST classifiers that come with zoolens"

    def entries(self, search: str | None = None) -> Iterator[Entry]:
        for path in sorted(MODELS_FOLDER.glob("*.yaml")):
            if search is None or search.lower() in path.stem:
                yield Entry(self.name, _manifest(path), Weights.PRESENT, MODELS_FOLDER)


@cache
def _manifest(path: Path) -> Manifest:
    """Read once: to find one model, all are listed, which took a sixth of the time of a small evaluation."""
    return read_manifest(path)
