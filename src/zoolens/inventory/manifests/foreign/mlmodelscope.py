"""MLModelScope (also c3sr, formerly CarML): a model's YAML manifest.

An input's parameters say how images go in: pixels minus `mean`, divided by `scale`, in the stated colour order, after
resizing to `dimensions` (channels, height, width). Code under `preprocess` and `postprocess` is written for another
program and is never executed; the draft says that it is there.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, get_args
from urllib.parse import urljoin

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from zoolens.base.errors import ManifestError
from zoolens.base.safety.untrusted import open_regular
from zoolens.inventory.manifests.foreign.files import beside, described, labels_beside
from zoolens.inventory.manifests.formats import format_of_name, legal_name
from zoolens.inventory.manifests.guesses import GUESSED
from zoolens.inventory.manifests.schema import Asset, AssetFile, Claim, DType, Framework, Input, Manifest, Output
from zoolens.inventory.manifests.schema_steps import Normalize, Resize, Step
from zoolens.inventory.manifests.yaml_tree import YamlRefused, YamlTree, path_words

# framework -> the format of a file whose name does not tell
_FORMATS: Final = {
    "onnxruntime": "onnx",
    "tensorflow": "tf-frozen",
    "mxnet": "mxnet",
    "caffe": "caffe",
    "pytorch": "torchscript",
    "tflite": "tflite",
}
_PAIRS: Final = ("caffe", "mxnet")
_NAMES: Final = {"pytorch": "torch", "tflite": "tensorflow"}
_CODE: Final = (
    "before_preprocess",
    "preprocess",
    "after_preprocess",
    "before_postprocess",
    "postprocess",
    "after_postprocess",
)
_CLASSES: Final = ("classification", "feature", "features")
_CHANNELS: Final = (1, 3, 4)
_ACCURACIES: Final = ("top1", "top5")


class _Part(BaseModel):
    """A piece of a foreign manifest: keys that are not read are passed over, and an empty value is an absent one."""

    model_config = ConfigDict(extra="ignore", frozen=True, coerce_numbers_to_str=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _without_empty_values(cls, value: Any) -> Any:
        return {k: v for k, v in value.items() if v is not None} if isinstance(value, dict) else value


class _Framework(_Part):
    name: str = ""
    version: str = ""


class _Parameters(_Part):
    element_type: str = "float32"
    layer_name: str = ""
    input_layer: str = ""
    layout: str = ""
    color_mode: str = "RGB"
    dimensions: tuple[int, ...] = ()
    mean: float | tuple[float, ...] = 0.0
    scale: float | tuple[float, ...] = 1.0
    probabilities_layer: str = ""
    probabilities_transform: str = ""
    features_url: str = ""


class _Tensor(_Part):
    type: str = "image"
    parameters: _Parameters = _Parameters()


class _Files(_Part):
    base_url: str = ""
    graph_path: str = ""
    weights_path: str = ""
    is_archive: bool = False
    graph_checksum: str = ""
    weights_checksum: str = ""


class _Model(_Part):
    name: str = Field(min_length=1)
    framework: _Framework | str = _Framework()
    version: str = ""
    description: str = ""
    references: tuple[str, ...] = ()
    license: str = ""
    licence: str = ""
    inputs: tuple[_Tensor, ...] = Field(min_length=1)
    output: _Tensor
    model: _Files
    attributes: dict[str, Any] = {}
    before_preprocess: str = ""
    preprocess: str = ""
    after_preprocess: str = ""
    before_postprocess: str = ""
    postprocess: str = ""
    after_postprocess: str = ""

    @property
    def made_with(self) -> _Framework:
        return _Framework(name=self.framework) if isinstance(self.framework, str) else self.framework


def draft_from_mlmodelscope(text: str, path: Path) -> Manifest:
    """A manifest drafted from the text of the MLModelScope manifest at `path`."""
    source = _read(text, path)
    notes = _Notes()
    framework = source.made_with.name.lower().replace(" ", "")
    try:
        drafted = Manifest(
            name=legal_name(source.name),
            version=_version(source.version, notes),
            license=source.license or source.licence or None,
            references=source.references,
            framework=_framework(source.made_with, framework, notes),
            inputs=tuple(_input(tensor, framework, notes) for tensor in source.inputs),
            outputs=(_output(source.output, path.parent, notes),),
            assets=_assets(source.model, framework, path.parent, notes),
            attributes=_attributes(source),
            claims=_claims(source, path, notes),
            # Last: the notes are complete.
            description=_description(source, path, notes),
        )
    except ValidationError as error:
        raise ManifestError(f"{path.name} describes an invalid model: {_what(error)}.") from error
    guessed = {GUESSED: notes.guessed} if notes.guessed else {}
    return drafted.model_copy(update={"attributes": {**drafted.attributes, **guessed}})


class _Notes:
    """What the draft assumes, and what it could not take over."""

    def __init__(self) -> None:
        self.guessed: list[str] = []
        self.unknown: list[str] = []


def _read(text: str, path: Path) -> _Model:
    what = f"{path.name} is not an MLModelScope manifest"
    try:
        tree = YamlTree(text)
    except YamlRefused as refusal:
        raise ManifestError(f"{what}: line {refusal.line}: {refusal.what}.") from refusal
    if not isinstance(tree.value, dict) or not {"name", "inputs", "model"} <= tree.value.keys():
        raise ManifestError(f"{what}: it needs the keys name, inputs and model.")
    try:
        return _Model.model_validate(tree.value)
    except ValidationError as error:
        line, place = tree.find(error.errors()[0]["loc"])
        raise ManifestError(f"{what}: line {line}: {path_words(place)}: {_what(error)}.") from error


def _what(error: ValidationError) -> str:
    message = error.errors()[0]["msg"].removeprefix("Value error, ")
    return message.replace("Tuple", "List").replace("tuple", "list").rstrip(".")


def _description(source: _Model, path: Path, notes: _Notes) -> str:
    code = [name for name in _CODE if getattr(source, name).strip()]
    if code:
        notes.unknown.append(f"what its code under {', '.join(code)} does, which is not executed")
    parts = [" ".join(source.description.split()), f"Imported from the MLModelScope manifest {path.name}."]
    parts += [f"Guessed, please check: {'; '.join(notes.guessed)}." if notes.guessed else ""]
    parts += [f"Unknown: {'; '.join(notes.unknown)}." if notes.unknown else ""]
    return " ".join(part for part in parts if part)


def _version(text: str, notes: _Notes) -> str:
    numbers = re.match(r"v?(\d{1,9})(?:\.(\d{1,9}))?(?:\.(\d{1,9}))?$", text)
    if numbers is None:
        notes.guessed.append("version 0.1.0")
        return "0.1.0"
    return ".".join(number or "0" for number in numbers.groups())


def _framework(stated: _Framework, key: str, notes: _Notes) -> Framework | None:
    if not key:
        return None
    version = f"=={stated.version}" if re.fullmatch(r"\d+(\.\d+)*", stated.version) else stated.version
    try:
        SpecifierSet(version)
    except InvalidSpecifier:
        notes.unknown.append(f"which versions of {stated.name} {stated.version!r} means")
        version = ""
    return Framework(name=_NAMES.get(key, key), version=version)


def _input(tensor: _Tensor, framework: str, notes: _Notes) -> Input:
    parameters = tensor.parameters
    name = _layer(parameters.layer_name or parameters.input_layer)
    extents = parameters.dimensions
    if tensor.type.lower() != "image":
        notes.unknown.append(f"the shape of an input of type {tensor.type}")
        return Input(name=name, modality="array", shape=(None, *extents), dtype=_dtype(parameters, notes))
    channels, height, width = _image_extents(extents, notes)
    layout = {"HWC": "NHWC", "CHW": "NCHW"}.get(parameters.layout.upper())
    if layout is None:
        layout = "NHWC" if framework in ("tensorflow", "tflite") else "NCHW"
        notes.guessed.append(f"layout {layout}")
    color = "gray" if channels == 1 else "BGR" if parameters.color_mode.upper() == "BGR" else "RGB"
    return Input(
        name=name,
        shape=(None, channels, height, width) if layout == "NCHW" else (None, height, width, channels),
        layout=layout,  # type: ignore[arg-type]
        color=color,  # type: ignore[arg-type]
        dtype=_dtype(parameters, notes),
        preprocess=_steps(parameters, height, width, notes),
    )


def _image_extents(extents: tuple[int, ...], notes: _Notes) -> tuple[int, int | None, int | None]:
    """Channels, height and width; also of dimensions that begin with a batch axis, or give one side only."""
    if len(extents) == 4:
        extents = extents[1:]
    if len(extents) == 1:
        notes.guessed.append("three channels")
        return 3, extents[0], extents[0]
    if len(extents) == 3:
        if extents[0] not in _CHANNELS and extents[2] in _CHANNELS:
            return extents[2], extents[0], extents[1]
        return extents[0], extents[1], extents[2]
    notes.unknown.append("the size of its images")
    return 3, None, None


def _steps(parameters: _Parameters, height: int | None, width: int | None, notes: _Notes) -> tuple[Step, ...]:
    steps: list[Step] = []
    if height and width:
        notes.guessed.append(f"images are resized to {height}×{width} without a crop")
        steps.append(Resize(op="resize", size=(height, width)))
    mean, scale = _numbers(parameters.mean), _numbers(parameters.scale)
    if parameters.color_mode.upper() == "BGR" and len(mean) + len(scale) > 2:
        # MLModelScope states both in the order red, green, blue, whatever the order of the model; a step here has the
        # model's own order.
        mean, scale = mean[::-1], scale[::-1]
        notes.guessed.append("mean and scale are stated in the order red, green, blue")
    if any(value != 0 for value in mean) or any(value != 1 for value in scale):
        steps.append(Normalize(op="normalize", mean=mean, std=scale))
    return tuple(steps)


def _numbers(value: float | tuple[float, ...]) -> tuple[float, ...]:
    values = value if isinstance(value, tuple) else (value,)
    return values[:1] if len(set(values)) == 1 else values


def _output(tensor: _Tensor, folder: Path, notes: _Notes) -> Output:
    parameters = tensor.parameters
    name = _layer(parameters.probabilities_layer or parameters.layer_name)
    if tensor.type.lower() not in _CLASSES:
        notes.unknown.append(f"how an output of type {tensor.type} is judged")
        return Output(task="other")
    labels = labels_beside(folder, parameters.features_url) if parameters.features_url else None
    if labels is None:
        where = f", which lie at {parameters.features_url}" if parameters.features_url else ""
        notes.unknown.append(f"class names{where}")
    if parameters.probabilities_transform.lower() == "softmax":
        return Output(name=name, scores="logits", labels_file=labels)
    notes.guessed.append("the output holds probabilities")
    return Output(name=name, scores="probabilities", labels_file=labels)


def _layer(text: str) -> str | None:
    """A tensor's name; None for the position that some manifests give in its place."""
    return text if text and not text.isdecimal() else None


def _dtype(parameters: _Parameters, notes: _Notes) -> Any:
    dtype = parameters.element_type.lower()
    if dtype in get_args(DType):
        return dtype
    notes.guessed.append(f"the input is float32, since {parameters.element_type!r} is not known here")
    return "float32"


def _assets(files: _Files, framework: str, folder: Path, notes: _Notes) -> tuple[Asset, ...]:
    if not files.graph_path:
        notes.unknown.append("where the model is")
        return ()
    format_ = format_of_name(files.graph_path) or _FORMATS.get(framework)
    if format_ is None or (framework and framework not in _FORMATS):
        notes.unknown.append(f"zoolens runs no model of {framework or 'an unnamed framework'}, so no file is named")
        return ()
    if format_ in _PAIRS and not files.weights_path:
        notes.unknown.append("where the weights are")
        return ()
    named = {"model": files.graph_path} | ({"weights": files.weights_path} if format_ in _PAIRS else {})
    here = {role: beside(folder, name) for role, name in named.items()}
    if all(here.values()):
        _check_digests(files, {role: folder / str(location) for role, location in here.items()})
        local = tuple(described(folder, str(location), role) for role, location in here.items())
        return (Asset(format=format_, files=local),)
    if files.is_archive:
        notes.unknown.append(
            f"the files, which lie in the archive {files.base_url}: unpack {', '.join(named.values())} "
            "beside this manifest and import it again"
        )
        return ()
    notes.unknown.append("SHA-256 of the files, without which they are not fetched")
    remote = tuple(
        AssetFile(location=_address(files.base_url, name), role=role)  # type: ignore[arg-type]
        for role, name in named.items()
    )
    return (Asset(format=format_, files=remote),)


def _check_digests(files: _Files, paths: Mapping[str, Path]) -> None:
    """Refuse a file of the stated name whose content is not the stated one."""
    for role, stated in (("model", files.graph_checksum), ("weights", files.weights_checksum)):
        path = paths.get(role)
        if not stated or path is None or not path.is_file():
            continue
        with open_regular(path) as file:
            digest = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()  # type: ignore[arg-type]
        if digest != stated.strip().lower():
            raise ManifestError(
                f"{path.name} is not the file that the manifest means: its MD5 is {digest}, and {stated} is stated.",
                hint="Put the right file beside the manifest, or move this one away.",
            )


def _address(base: str, name: str) -> str:
    """Where a file lies. Plain http is written as https, since nothing is fetched without it."""
    address = urljoin(base if base.endswith("/") else f"{base}/", name) if base else name
    return re.sub(r"^http://", "https://", address)


def _attributes(source: _Model) -> dict[str, Any]:
    """Plain values of the attributes, and what is worth keeping of the rest."""
    plain = {str(key): value for key, value in source.attributes.items() if _is_plain(value)}
    kept = {
        "labels_url": source.output.parameters.features_url,
        "model_md5": source.model.graph_checksum,
        "weights_md5": source.model.weights_checksum,
    }
    return {"source": "mlmodelscope", **plain, **{key: value for key, value in kept.items() if value}}


def _is_plain(value: Any) -> bool:
    return math.isfinite(value) if isinstance(value, float) else isinstance(value, (str, int))


def _claims(source: _Model, path: Path, notes: _Notes) -> tuple[Claim, ...]:
    """Accuracies among the attributes, which are in percent. On which data they were measured is not stated: the
    attribute `training_dataset` names the data that the model was trained on."""
    stated = {str(key).lower(): value for key, value in source.attributes.items()}
    where = source.references[0] if source.references else path.name
    numbers = {metric: stated[metric] for metric in _ACCURACIES if type(stated.get(metric)) in (int, float)}
    notes.unknown += [
        f"whether {metric} {value:g} is a share or a percentage" for metric, value in numbers.items() if 0 < value <= 1
    ]
    return tuple(
        Claim(metric=metric, value=round(value / 100, 6), unit="fraction", source=where)
        for metric, value in numbers.items()
        if 1 < value <= 100
    )
