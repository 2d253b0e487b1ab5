"""Triton Inference Server: a model's `config.pbtxt`, with its files in numbered version folders beside it.

The configuration knows names, shapes, types, labels and the file. It says nothing about what images go through before
they are sent, so preprocessing is guessed as for a bare model file.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from zoolens.base.errors import ManifestError
from zoolens.inventory.manifests.foreign.files import beside, described, labels_beside
from zoolens.inventory.manifests.foreign.textproto import NotTextProto, parse_textproto
from zoolens.inventory.manifests.formats import legal_name
from zoolens.inventory.manifests.guesses import Guesses
from zoolens.inventory.manifests.schema import Asset, AssetFile, Input, Manifest, Output

# platform or backend -> format and the name that the file has where the configuration gives none
_FORMATS: Final = {
    "onnxruntime_onnx": ("onnx", "model.onnx"),
    "onnxruntime": ("onnx", "model.onnx"),
    "tensorflow_savedmodel": ("tf-savedmodel", "model.savedmodel"),
    "tensorflow_graphdef": ("tf-frozen", "model.graphdef"),
    "tensorflow": ("tf-savedmodel", "model.savedmodel"),
    "pytorch_libtorch": ("torchscript", "model.pt"),
    "pytorch": ("torchscript", "model.pt"),
    "openvino": ("openvino-ir", "model.xml"),
}
_DTYPES: Final = {
    "TYPE_BOOL": "bool",
    "TYPE_UINT8": "uint8",
    "TYPE_INT8": "int8",
    "TYPE_INT16": "int16",
    "TYPE_INT32": "int32",
    "TYPE_INT64": "int64",
    "TYPE_FP16": "float16",
    "TYPE_FP32": "float32",
    "TYPE_FP64": "float64",
    "TYPE_BF16": "bfloat16",
    "TYPE_STRING": "string",
}
_LAYOUTS: Final = {"FORMAT_NHWC": "NHWC", "FORMAT_NCHW": "NCHW"}
_SCORES: Final = ("float16", "float32", "float64", "bfloat16")
_PROBABILITY_WORDS: Final = ("prob", "softmax")


class _Message(BaseModel):
    """A message of the text: a field that is declared as one value takes the last one, as protobuf does."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _last_of_single_fields(cls, fields: Any) -> Any:
        if not isinstance(fields, dict):
            raise ValueError("a message in braces is expected")  # noqa: TRY004 - pydantic explains ValueErrors
        repeated = {name for name, field in cls.model_fields.items() if str(field.annotation).startswith("tuple")}
        return {name: values if name in repeated else values[-1] for name, values in fields.items() if values}


class _Reshape(_Message):
    shape: tuple[int, ...] = ()


class _Tensor(_Message):
    name: str = Field(min_length=1)
    data_type: str = "TYPE_FP32"
    format: str = "FORMAT_NONE"
    dims: tuple[int, ...] = ()
    reshape: _Reshape | None = None
    label_filename: str | None = None

    @field_validator("dims")
    @classmethod
    def _extents(cls, dims: tuple[int, ...]) -> tuple[int, ...]:
        if any(extent < 1 and extent != -1 for extent in dims):
            raise ValueError("an extent must be positive, or -1 where it is free")
        return dims


class _Versions(_Message):
    versions: tuple[int, ...] = ()


class _VersionPolicy(_Message):
    specific: _Versions | None = None


class _Config(_Message):
    name: str = ""
    platform: str = ""
    backend: str = ""
    max_batch_size: int = Field(default=0, ge=0)
    default_model_filename: str = ""
    version_policy: _VersionPolicy | None = None
    input: tuple[_Tensor, ...] = ()
    output: tuple[_Tensor, ...] = ()


def draft_from_triton(text: str, path: Path) -> Manifest:
    """A manifest drafted from the text of the configuration at `path`."""
    config = _read(text, path)
    kind = config.platform or config.backend
    if kind == "ensemble":
        raise ManifestError(
            f"{path.name} describes an ensemble, which is a chain of models.", hint="Import each of its models."
        )
    if not config.input or not config.output:
        raise ManifestError(
            f"{path.name} names no {'inputs' if not config.input else 'outputs'}: Triton completes it from the model.",
            hint="Draft a manifest from the model file with `zoolens manifest init`.",
        )
    format_, usual_name = _FORMATS.get(config.platform) or _FORMATS.get(config.backend) or ("", "")
    guesses = Guesses(format_)
    files, unknown = _files(config, path.parent, format_, usual_name)
    try:
        inputs = tuple(_input(tensor, config, guesses) for tensor in config.input)
        outputs = tuple(_output(tensor, config, path.parent, guesses, unknown) for tensor in config.output)
        return Manifest(
            name=legal_name(config.name or path.parent.name),
            version="0.1.0",
            description=_description(path, guesses, unknown),
            inputs=inputs,
            outputs=outputs,
            assets=(Asset(format=format_, files=files),) if files else (),
            attributes={
                "source": "triton",
                "platform": kind,
                "max_batch_size": config.max_batch_size,
                **guesses.attributes,
            },
        )
    except ValidationError as error:
        raise ManifestError(f"{path.name} describes an invalid model: {_first(error)}.") from error


def _read(text: str, path: Path) -> _Config:
    try:
        return _Config.model_validate(parse_textproto(text))
    except NotTextProto as error:
        raise ManifestError(f"{path.name} is not a Triton configuration: line {error.line}: {error.what}.") from error
    except ValidationError as error:
        raise ManifestError(f"{path.name} is not a Triton configuration: {_first(error)}.") from error


def _first(error: ValidationError) -> str:
    detail = error.errors()[0]
    place = ".".join(str(part) for part in detail["loc"])
    return f"{place}: {detail['msg'].removeprefix('Value error, ')}" if place else str(detail["msg"])


def _description(path: Path, guesses: Guesses, unknown: list[str]) -> str:
    parts = [f"Imported from the Triton configuration {path.name}.", guesses.summary()]
    parts += [f"Unknown: {'; '.join(unknown)}." if unknown else ""]
    return " ".join(part for part in parts if part)


def _files(config: _Config, folder: Path, format_: str, usual_name: str) -> tuple[tuple[AssetFile, ...], list[str]]:
    """The files of the newest version that is served and here; otherwise what is missing, in words."""
    if not format_:
        kind = config.platform or config.backend or "no platform"
        return (), [f"zoolens runs no model of {kind}, so no file is named"]
    name = config.default_model_filename or usual_name
    versions = list(_versions(config, folder))
    location = next((place for version in versions if (place := beside(folder, f"{version}/{name}"))), None)
    if location is None or not location.endswith(name) or "/" not in location:
        return (), [f"where the model is: no version folder here holds {name}"]
    files = [described(folder, location, "model")]
    if format_ == "openvino-ir":
        weights = beside(folder, location.removesuffix(".xml") + ".bin")
        if weights is None:
            return (), [f"where the weights are: there is no .bin beside {location}"]
        files.append(described(folder, weights, "weights"))
    return tuple(files), []


def _versions(config: _Config, folder: Path) -> Iterable[int]:
    """Numbers of the version folders that the policy serves, newest first."""
    try:
        here = [int(entry.name) for entry in folder.iterdir() if entry.name.isdecimal() and len(entry.name) < 19]
    except OSError:
        here = []
    policy = config.version_policy
    wanted = policy.specific.versions if policy is not None and policy.specific is not None else ()
    return sorted((version for version in here if not wanted or version in wanted), reverse=True)


def _shape(tensor: _Tensor, config: _Config) -> tuple[int | None, ...]:
    """The shape that the model sees: after the configured reshape, with the batch axis where Triton adds one."""
    dims = tensor.reshape.shape if tensor.reshape is not None else tensor.dims
    extents = tuple(None if extent < 1 else extent for extent in dims)
    return (None, *extents) if config.max_batch_size > 0 else extents


def _input(tensor: _Tensor, config: _Config, guesses: Guesses) -> Input:
    shape = _shape(tensor, config)
    layout = _LAYOUTS.get(tensor.format)
    if layout is not None and len(shape) != len(layout):
        guesses.said.append(f"{tensor.name} has no batch axis, so it is an array")
        layout, shape = None, shape or (None,)
        return Input(name=tensor.name, modality="array", shape=shape, dtype=_dtype(tensor, guesses))
    return guesses.image_or_array(tensor.name, shape, _dtype(tensor, guesses), layout=layout)


def _output(tensor: _Tensor, config: _Config, folder: Path, guesses: Guesses, unknown: list[str]) -> Output:
    shape = _shape(tensor, config)
    classes = shape[1] if len(shape) >= 2 and all(extent == 1 for extent in shape[2:]) else None
    labels = _labels(tensor, folder, unknown)
    if tensor.label_filename is None and (classes in (None, 1) or _dtype(tensor, guesses) not in _SCORES):
        unknown.append(f"the task of {tensor.name}")
        return Output(name=tensor.name, task="other")
    probable = any(word in tensor.name.lower() for word in _PROBABILITY_WORDS)
    guesses.said.append(f"{tensor.name} holds {'probabilities' if probable else 'logits'}")
    return Output(name=tensor.name, scores="probabilities" if probable else "logits", labels_file=labels)


def _labels(tensor: _Tensor, folder: Path, unknown: list[str]) -> str | None:
    if tensor.label_filename is None:
        return None
    location = labels_beside(folder, tensor.label_filename)
    if location is None:
        unknown.append(f"class names: {tensor.label_filename} is missing or is not text")
    return location


def _dtype(tensor: _Tensor, guesses: Guesses) -> Any:
    dtype = _DTYPES.get(tensor.data_type)
    if dtype is None:
        guesses.said.append(f"{tensor.name} is float32, since {tensor.data_type} is not known here")
    return dtype or "float32"
