"""Where a model's structure can be read: by which importer, at which size, and under which key it is known.

A model of a library is identified by library, architecture and arguments, whatever weights it carries: the many
weights of one architecture share one structure. A file is identified by its content. What an importer makes also
depends on the versions of its packages and of our own graph.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

from zoolens.base import plugins
from zoolens.base.engine.environments import EnvSpec, environment_of
from zoolens.base.errors import AssetError, MissingDependency, ModelError, ZoolensError
from zoolens.base.plugins import installed_version
from zoolens.base.store.records import DatasetRecord, ModelRecord, RunKey, StackRecord, fingerprint
from zoolens.findings.graph.importers.importer import Importer, Request
from zoolens.inventory.catalog.language_models import network_arguments
from zoolens.inventory.catalog.lookup import Model, find_all
from zoolens.inventory.catalog.model_folder import CAUSAL, folder_of
from zoolens.inventory.catalog.names import FILE_ZOO
from zoolens.inventory.manifests.digests import digest
from zoolens.inventory.manifests.locations import resolve_asset, resolve_file
from zoolens.inventory.manifests.schema import Asset, AssetFile, Manifest
from zoolens.inventory.manifests.tokenizer import ROLE as TOKENIZER
from zoolens.inventory.zoos.listing import params_of
from zoolens.inventory.zoos.undescribed import undescribed
from zoolens.inventory.zoos.zoo import Entry, Weights

Size = tuple[int, int]  # height, width
Extents = Mapping[str, tuple[int, ...]]  # shapes of inputs by name; under "" for every input of that rank

RUNTIME: Final = "graph:"  # before the importer's name
_PINNED: Final = re.compile(r"([a-z0-9-]+)(?:\[[^\]]*\])?==([^,]+)")
_PARAMETERS_TWICE_THE_WORK: Final = 100e6  # very roughly: large networks are deep ones
_MAKING: Final = (  # what decides a graph and the figures kept beside it, as patterns below zoolens/
    "findings/graph/importers/**/*.py", "findings/graph/passes/*.py", "findings/graph/reference/*.py",
    "findings/graph/ir/*.py", "findings/graph/cost/cost.py", "findings/graph/cost/generation.py",
    *(
        f"inventory/runtimes/model_files/{name}.py"
        for name in ("constructor_arguments", "protobuf_wire", "stored_rows")
    ),
    *(
        f"inventory/runtimes/onnx/{name}.py"
        for name in ("decoder_form", "onnx_file", "onnx_reference", "onnx_value_types", "onnx_values")
    ),
    "inventory/runtimes/litert/tflite_file.py",
    *(f"inventory/runtimes/llamacpp/{name}.py" for name in ("gguf_file", "gguf_values", "llama_tensors")),
    "inventory/runtimes/openvino/openvino_file.py",
)  # fmt: skip


@dataclass(frozen=True)
class Source:
    """One structure that can be had: an importer, what it is asked, and what identifies the answer."""

    ref: str
    plugin: str  # the importer's registered name: "torchvision", "onnx"
    point: str  # "module:attribute"
    importer: Importer
    request: Request
    content: Mapping[str, Any]
    weight: float = 1.0  # expected seconds
    asked_by: str | None = None  # the manifest that names the importer; None: the user named its zoo

    @cached_property
    def environment(self) -> EnvSpec | None:
        importer = self.importer
        return environment_of(importer.environment, importer.without_dependencies) if importer.environment else None

    @cached_property
    def model(self) -> ModelRecord:
        return ModelRecord(fingerprint(self.content), self.ref, self.plugin, self.content)

    @cached_property
    def dataset(self) -> DatasetRecord:
        size = self.request.size
        name = f"structure at {size[0]}×{size[1]}" if size else "structure"
        if not self.request.extents:
            return DatasetRecord(fingerprint(["structure", size]), name, 0, {"size": size})
        extents = {given: list(shape) for given, shape in sorted(self.request.extents.items())}
        return DatasetRecord(fingerprint(["structure", size, extents]), name, 0, {"size": size, "extents": extents})

    @cached_property
    def stack(self) -> StackRecord:
        packages = self._versions()
        identity = {
            "graph": code_version(),
            "version": packages.get(self.importer.distributions[0]) if self.importer.distributions else None,
            "packages": packages,
            "environment": [*self.environment.requirements, *self.environment.alone] if self.environment else None,
            "options": {},
            "python": None,
            "machine": {},
        }
        return StackRecord(fingerprint([self.plugin, identity]), f"{RUNTIME}{self.plugin}", identity, identity)

    @property
    def key(self) -> RunKey:
        return RunKey(self.model.fingerprint, self.dataset.fingerprint, self.stack.fingerprint)

    def _versions(self) -> dict[str, str | None]:
        """The versions of the packages that the importer builds on. An environment of its own is known by what it pins,
        so that a structure can be read back where that environment is not built."""
        if self.environment is not None:
            pins = (_PINNED.fullmatch(text) for text in (*self.environment.requirements, *self.environment.alone))
            pinned = {pin[1]: pin[2] for pin in pins if pin}
            return {name: pinned.get(name) for name in self.importer.distributions}
        versions = {name: installed_version(name) for name in self.importer.distributions}
        missing = next((name for name, version in versions.items() if version is None), None)
        if missing is not None:
            raise MissingDependency(f"The structure of {self.ref}", missing)
        return versions


@cache
def code_version() -> str:
    """A digest of the code that makes graphs: a graph made by other importers or passes is read anew."""
    machine = hashlib.sha256()
    for path in making_files():
        machine.update(path.read_bytes())
    return machine.hexdigest()[:12]


def making_files() -> list[Path]:
    """The source files whose code decides what a graph looks like, those of our importers outside `graph` included."""
    root = Path(__file__).parents[3]
    folders = (f"{module.replace('.', '/')}/*.py" for module in _contributed_importers())
    paths = (path for pattern in (*_MAKING, *folders) for path in sorted(root.glob(pattern)))
    return [path for path in paths if not path.name.startswith(("test_", "conftest"))]


def _contributed_importers() -> list[str]:
    """The packages of `contrib` that are registered as importers, named below zoolens."""
    groups = (plugins.GRAPH_LIBRARIES, plugins.GRAPH_FILES)
    modules = {point.module for group in groups for point in plugins.registered(group).values()}
    return sorted(module.removeprefix("zoolens.") for module in modules if module.startswith("zoolens.contrib."))


def find_entries(models: Iterable[Model]) -> list[Entry]:
    """The models named by references, patterns and paths, each once. Nothing is opened: a bare file stays bare."""
    return find_all((_as_structure(model) for model in models), draft=False)


def _as_structure(model: Model) -> Model:
    """A Caffe file without weights is complete as a structure, though not as a model; so is a file of weights of a
    language model beside the config.json that says how it is built."""
    if isinstance(model, Entry):
        return model
    path = Path(model).expanduser()
    if path.suffix == ".safetensors" and path.is_file():
        return _language_model(path.resolve()) or model
    if path.suffix != ".prototxt" or not path.is_file():
        return model
    manifest = undescribed(path.name, "caffe", {"model": path.name})
    return Entry(FILE_ZOO, manifest, Weights.PRESENT, path.resolve().parent)


def _language_model(path: Path) -> Entry | None:
    folder = folder_of(path)
    if folder is None or folder.head != CAUSAL:
        return None
    manifest = undescribed(path.name, "torch-state-dict", {"model": path.name})
    known = {"library": "transformers", "architecture": str(folder.config["architectures"][0])}
    attributes = {**manifest.attributes, **known, "arguments": network_arguments(folder)}
    return Entry(FILE_ZOO, manifest.model_copy(update={"attributes": attributes}), Weights.PRESENT, path.parent)


def source_of(entry: Entry, size: Size | None = None, extents: Extents | None = None) -> Source:
    """Where the structure of a model comes from; a ZoolensError where there is no way to read it here."""
    size = size or manifest_size(entry.manifest)
    extents = extents or manifest_extents(entry.manifest)
    for find in (_library, _package_graph, _file):
        source = find(entry, size)
        if source is not None:
            return replace(source, request=replace(source.request, extents=extents)) if extents else source
    raise _unreadable(entry)


def manifest_extents(manifest: Manifest) -> Extents:
    """Shapes at which a text is counted that the manifest describes: every text is as long as it can be."""
    text = next((given for given in manifest.inputs if given.tokenizer is not None), None)
    if text is None or text.tokenizer is None:
        return {}
    shape = (1, text.tokenizer.max_length)
    return dict.fromkeys(text.tokenizer.tensors.names.values() or (text.name or "",), shape)


def manifest_size(manifest: Manifest) -> Size | None:
    """Height and width of the first input, where the manifest fixes them."""
    given = manifest.inputs[0]
    if given.modality != "image" or "H" not in given.layout or len(given.shape) != len(given.layout):
        return None
    height, width = (given.shape[given.layout.index(axis)] for axis in "HW")
    return (height, width) if height and width else None


def _library(entry: Entry, size: Size | None) -> Source | None:
    for library, name, arguments in _architectures(entry.manifest):
        if name and library and library in plugins.registered(plugins.GRAPH_LIBRARIES):
            content = {"library": library, "architecture": name, "arguments": arguments}
            request = Request(name, size=size, arguments=arguments)
            return _source(entry, plugins.GRAPH_LIBRARIES, library, request, content, ref=f"{library}:{name}")
    return None


def _architectures(manifest: Manifest) -> Iterator[tuple[str | None, str | None, dict[str, Any]]]:
    known = manifest.attributes
    yield known.get("library"), known.get("architecture"), dict(known.get("arguments") or {})
    for asset in manifest.assets:
        if asset.architecture is not None:
            yield asset.architecture.library, asset.architecture.name, dict(asset.architecture.arguments)


def _package_graph(entry: Entry, size: Size | None) -> Source | None:
    location = entry.manifest.attributes.get("graph")
    if not isinstance(location, str):
        return None
    path = resolve_file(AssetFile(location=location), None, fetch=False)
    return _from_files(entry, "onnx", {"model": path}, size)


def _file(entry: Entry, size: Size | None) -> Source | None:
    """The first asset that is here and has an importer; if there is one that is only not here, that is said."""
    absent: ZoolensError | None = None
    for asset in _readable(entry.manifest):
        try:
            return _from_files(entry, asset.format, resolve_asset(asset, entry.folder, fetch=False), size)
        except AssetError as error:
            absent = absent or error
    if absent is not None:
        raise absent
    return None


def _readable(manifest: Manifest) -> list[Asset]:
    return [asset for asset in manifest.assets if asset.format in plugins.registered(plugins.GRAPH_FILES)]


def _from_files(entry: Entry, format_: str, files: Mapping[str, Path], size: Size | None) -> Source:
    files = {role: path for role, path in files.items() if role != TOKENIZER}  # it is no part of the network
    digests = {role: digest(path) for role, path in sorted(files.items())}
    content = {"format": format_, "files": digests}
    request = Request.of_files(files, size)
    return _source(entry, plugins.GRAPH_FILES, format_, request, content, ref=entry.full_ref)


def _source(entry: Entry, group: str, plugin: str, request: Request, content: Mapping[str, Any], *, ref: str) -> Source:
    importer: Importer = plugins.load(group, plugin)
    weight = importer.seconds * (1.0 + (params_of(entry.manifest) or 0) / _PARAMETERS_TWICE_THE_WORK)
    point = plugins.registered(group)[plugin].value
    asked_by = None if entry.zoo == plugin else f"The manifest of {entry.ref}"
    return Source(ref, plugin, point, importer, request, content, weight, asked_by)


def _unreadable(entry: Entry) -> ModelError:
    known = entry.manifest.attributes
    formats = ", ".join(dict.fromkeys(asset.format for asset in entry.manifest.assets)) or known.get("format")
    library = known.get("library")
    what = f"its format {formats}" if formats else f"its library {library}" if library else "what it is made of"
    files, libraries = (", ".join(plugins.names(group)) for group in (plugins.GRAPH_FILES, plugins.GRAPH_LIBRARIES))
    return ModelError(
        f"The structure of {entry.ref} cannot be read: there is no importer for {what}.",
        hint=f"There are importers for the formats {files} and the libraries {libraries}.",
    )
