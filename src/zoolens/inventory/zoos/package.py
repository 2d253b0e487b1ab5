"""Models that arrived inside installed packages: their manifests (*.zoolens.yaml) and their bare model files."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import ClassVar

from zoolens.base.errors import ManifestError
from zoolens.inventory.manifests.files import read_manifest
from zoolens.inventory.manifests.formats import guess_format
from zoolens.inventory.manifests.locations import recorded_files
from zoolens.inventory.zoos.undescribed import local_files, undescribed, weights_of
from zoolens.inventory.zoos.zoo import Entry, Weights, Zoo

_MANIFEST = ".zoolens.yaml"
# Endings that mean a model and nothing else inside a package; .xml, .pb and .json mean too many things.
_MODELS = (".onnx", ".tflite", ".pth", ".pt", ".pt2", ".h5", ".keras", ".caffemodel", ".safetensors")
_OWN = {"zoolens"}  # the demo zoo lists what comes with us
_TEST_FOLDERS = {"test", "tests", "testing", "testdata", "test_data"}


class PackageZoo(Zoo):
    name: ClassVar[str] = "package"
    summary: ClassVar[str] = "Model files inside installed Python packages"

    def __init__(self) -> None:
        self._problems: list[str] = []

    def problems(self) -> list[str]:
        return self._problems

    def entries(self, search: str | None = None) -> Iterator[Entry]:
        self._problems = []
        for name in sorted({dist.name for dist in metadata.distributions() if dist.name} - _OWN):
            for entry in self._entries_of(name):
                if search is None or search.lower() in entry.manifest.name.lower():
                    yield entry

    def _entries_of(self, distribution: str) -> Iterator[Entry]:
        files = sorted(recorded_files(distribution) or ())
        described: set[Path] = set()
        for inside in (file for file in files if file.endswith(_MANIFEST)):
            if (entry := self._described(distribution, inside)) is not None:
                described |= local_files(entry.manifest, entry.folder)
                yield entry
        for path in filter(_is_model, (PurePosixPath(file) for file in files if file.endswith(_MODELS))):
            entry = _bare(distribution, path, files)
            if entry is not None and not described & local_files(entry.manifest, None):
                yield entry

    def _described(self, distribution: str, inside: str) -> Entry | None:
        path = Path(str(metadata.distribution(distribution).locate_file(inside)))
        try:
            manifest = read_manifest(path)
        except ManifestError as error:
            self._problems.append(str(error))
            return None
        named = manifest.model_copy(update={"name": f"{distribution}/{manifest.name}"})
        return Entry(self.name, named, weights_of(manifest, path.parent), path.parent)


def _is_model(path: PurePosixPath) -> bool:
    if path.suffix not in _MODELS or _TEST_FOLDERS & set(path.parts) or ".." in path.parts:
        return False
    # A .pth beside the packages extends sys.path.
    return len(path.parts) > 1


def _bare(distribution: str, path: PurePosixPath, files: list[str]) -> Entry | None:
    format_ = guess_format(Path(path.name))
    if format_ is None:
        return None
    locations = {"model": f"package://{distribution}/{path}"}
    if format_ == "caffe":
        graph = str(path.with_suffix(".prototxt"))
        if graph not in files:
            return None
        locations = {"model": f"package://{distribution}/{graph}", "weights": f"package://{distribution}/{path}"}
    stem = path.stem if _stem_is_unique(path, files) else str(path)
    return Entry("package", undescribed(f"{distribution}/{stem}", format_, locations), Weights.PRESENT)


def _stem_is_unique(path: PurePosixPath, files: list[str]) -> bool:
    same = [f for f in files if f.endswith(_MODELS) and PurePosixPath(f).stem == path.stem]
    return len(same) == 1
