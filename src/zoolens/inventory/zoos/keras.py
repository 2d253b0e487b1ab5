"""Keras Applications: what the installed Keras offers, found without importing it (an import chooses a backend)."""

from __future__ import annotations

import ast
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Final

from zoolens.inventory.manifests.guesses import IMAGENET_NORMALIZE
from zoolens.inventory.manifests.schema import Architecture, Asset, AssetFile, Claim, Framework, Input, Manifest, Output
from zoolens.inventory.manifests.schema_steps import Normalize, Resize, Step
from zoolens.inventory.zoos.data import table
from zoolens.inventory.zoos.published import accuracy_claims
from zoolens.inventory.zoos.zoo import Entry, Weights, Zoo

# keras.applications.imagenet_utils.preprocess_input, by its `mode`. "built-in": the network rescales by itself.
_NORMALIZE: Final = {
    "caffe": Normalize(op="normalize", mean=(103.939, 116.779, 123.68)),
    "tf": Normalize(op="normalize", scale=1 / 127.5, mean=(1.0,)),
    "torch": IMAGENET_NORMALIZE,
}
_DESCRIPTION: Final = "Keras does not say how the images of its accuracy table were resized; bilinear is assumed."


class KerasZoo(Zoo):
    name: ClassVar[str] = "keras"
    summary: ClassVar[str] = "Classifiers of keras.applications; weights where Keras has downloaded them"
    distributions: ClassVar[tuple[str, ...]] = ("keras",)
    extra: ClassVar[str | None] = "keras"

    def state(self) -> str:
        """Weights that Keras downloaded make an entry complete."""
        folder = weights_folder()
        return ",".join(sorted(path.name for path in folder.glob("*.h5"))) if folder.is_dir() else ""

    def entries(self, search: str | None = None) -> Iterator[Entry]:
        known = table("keras_applications")["models"]
        for name in sorted(exported_models() & set(known)):
            if search is None or search.lower() in name.lower():
                weights = weights_folder() / known[name][2]
                manifest = _manifest(name, known[name], weights)
                yield Entry(self.name, manifest, Weights.PRESENT if manifest.assets else Weights.ABSENT)


def weights_folder() -> Path:
    return Path(os.environ.get("KERAS_HOME", "~/.keras")).expanduser() / "models"


def exported_models() -> set[str]:
    """Names of model functions in keras.applications, read from its source."""
    spec = importlib.util.find_spec("keras")
    places = spec.submodule_search_locations if spec else None
    if not places:
        return set()
    source = Path(places[0]) / "applications" / "__init__.py"
    tree = ast.parse(source.read_text(encoding="utf-8"))
    imported = (alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names)
    return {name for name in imported if name[0].isupper()}


def _manifest(name: str, facts: list[Any], weights: Path) -> Manifest:
    size, mode = facts[0], facts[1]
    return Manifest(
        name=name,
        description=_DESCRIPTION,
        license="Apache-2.0",
        references=(table("keras_applications")["source_url"],),
        framework=Framework(name="keras"),
        inputs=(
            Input(
                shape=(None, size, size, 3),
                layout="NHWC",
                color="BGR" if mode == "caffe" else "RGB",
                preprocess=tuple(_steps(size, mode)),
            ),
        ),
        outputs=(Output(scores="probabilities"),),
        assets=(_asset(name, weights),) if weights.is_file() else (),
        attributes={"library": "keras", "architecture": name, "preprocessing": mode, "assumed": ["interpolation"]},
        claims=tuple(_claims(facts)),
    )


def _asset(name: str, weights: Path) -> Asset:
    return Asset(
        format="keras-h5",
        files=(AssetFile(location=f"file://{weights.resolve()}"),),
        architecture=Architecture(library="keras", name=name),
    )


def _steps(size: int, mode: str) -> Iterator[Step]:
    yield Resize(op="resize", size=(size, size))
    if mode in _NORMALIZE:
        yield _NORMALIZE[mode]


def _claims(facts: list[Any]) -> Iterator[Claim]:
    source = table("keras_applications")["source"]
    top1, top5, params, megabytes = facts[3:]
    yield from accuracy_claims(source, top1, top5)
    if params is not None:
        yield Claim(metric="params", value=round(params * 1e6), source=source)
        # Its "MB" are 2^20 bytes: ResNet50's 102,967,424 bytes are 98 there.
        yield Claim(metric="file_size", value=round(megabytes * 2**20), unit="B", source=source)
