"""Which format a model file is in, and which files belong together. No framework is needed to tell."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Final

from zoolens.base.errors import ModelError
from zoolens.base.safety.untrusted import open_archive, open_regular
from zoolens.inventory.manifests.pickles import TORCH_FORMATS, check_no_object

Files = dict[str, Path]  # by role

_BY_SUFFIX: Final = {
    ".onnx": "onnx",
    ".tflite": "tflite",
    ".lite": "tflite",
    ".xml": "openvino-ir",
    ".prototxt": "caffe",
    ".caffemodel": "caffe",
    ".pt": "torchscript",
    ".pt2": "torch-export",
    ".pth": "torch-state-dict",
    ".th": "torch-state-dict",
    ".safetensors": "torch-state-dict",
    ".keras": "keras",
    ".h5": "keras-h5",
    ".hdf5": "keras-h5",
    ".pb": "tf-frozen",
    ".jaxexport": "jax-export",
    ".stablehlo": "jax-export",
    ".gguf": "gguf",
}
_SYMBOL: Final = "-symbol.json"
_EPOCH: Final = re.compile(r"-\d{4}$")


def detect_format(path: Path) -> tuple[str, Files]:
    """Format and files by role. Opens the file only as far as its first bytes or its archive's table of contents."""
    if not path.exists():
        raise ModelError(f"{path} does not exist.")
    guess = guess_format(path)
    try:
        format_ = guess if path.is_dir() else _by_content(path, guess)
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}.") from error
    if format_ is None and path.is_dir():
        raise ModelError(
            f"{path} is a folder, and no model.",
            hint="Name a model file in it, or let `zoolens init` evaluate all that it holds.",
        )
    if format_ is None:
        raise ModelError(
            f"{path} is not a model in a format that zoolens knows.",
            hint=f"It knows {', '.join(sorted({*_BY_SUFFIX, _SYMBOL}))} and SavedModel folders.",
        )
    if format_ in TORCH_FORMATS:
        check_no_object(path)
    return format_, companions(path, format_)


def followed(path: Path) -> Path:
    """The path behind links, except where only the link's name says what the file is.

    The cache of the Hugging Face hub keeps each file under its digest: model.safetensors is a link to blobs/9f8e7d.
    """
    target = path.resolve()
    named = path.parent.resolve() / path.name
    return target if target.suffix == named.suffix else named


def location_of(path: Path, folder: Path) -> str:
    """How a manifest in `folder` names a file of that folder. A link that leads out of it is named by its whole path,
    because a manifest may not leave its folder otherwise."""
    inside = path.resolve().is_relative_to(folder.resolve())
    return path.relative_to(folder).as_posix() if inside else f"file://{path}"


def guess_format(path: Path) -> str | None:
    """The format by name alone, for listings; None: not a model file."""
    named = format_of_name(path.name)
    if named != "mxnet" and path.is_dir():
        return "tf-savedmodel" if (path / "saved_model.pb").is_file() else None
    return named


def format_of_name(name: str) -> str | None:
    """The format that a file of this name would have, wherever it lies."""
    path = PurePosixPath(name)
    if path.name.endswith(_SYMBOL) or (path.suffix == ".params" and _EPOCH.search(path.stem)):
        return "mxnet"
    return _BY_SUFFIX.get(path.suffix.lower())


def companions(path: Path, format_: str) -> Files:
    """All files, by role, of the model to which `path` belongs; a missing half of a pair is an error."""
    match format_:
        case "openvino-ir":
            return _pair(path, path.with_suffix(".xml"), [path.with_suffix(".bin")])
        case "caffe":
            return _caffe(path)
        case "mxnet":
            return _mxnet(path)
        case _:
            return {"model": path}


def model_stem(path: Path) -> str:
    """Returns the name without suffixes for the format or the training epoch."""
    if path.name.endswith(_SYMBOL):
        return path.name.removesuffix(_SYMBOL)
    if path.suffix == ".params":
        return _EPOCH.sub("", path.stem)
    return path.name if path.is_dir() else path.stem.removesuffix(".deploy")


def legal_name(text: str) -> str:
    """A name that a manifest may have, made of a text that may hold anything."""
    return re.sub(r"[^A-Za-z0-9._/+-]+", "_", text).lstrip("._/+-") or "model"


def _caffe(path: Path) -> Files:
    if path.suffix == ".caffemodel":
        graphs = [path.with_suffix(".prototxt"), path.with_name(f"{path.stem}.deploy.prototxt")]
        graph = next((g for g in graphs if g.is_file()), _only(path.parent.glob("*.prototxt"), graphs[0]))
        return _pair(path, graph, [path])
    stem = path.stem.removesuffix(".deploy")
    named = [path.with_suffix(".caffemodel"), path.with_name(f"{stem}.caffemodel")]
    lone = _only(path.parent.glob("*.caffemodel"), named[0])
    return _pair(path, path, [*named, lone])


def _mxnet(path: Path) -> Files:
    stem = model_stem(path)
    graph = path.with_name(f"{stem}{_SYMBOL}")
    if path.suffix == ".params":
        return _pair(path, graph, [path])
    weights = sorted(path.parent.glob(f"{stem}-[0-9][0-9][0-9][0-9].params"), reverse=True)  # the last epoch
    return _pair(path, graph, weights or [path.with_name(f"{stem}-0000.params")])


def _pair(asked: Path, model: Path, weights: list[Path]) -> Files:
    present = next((path for path in weights if path.is_file()), None)
    if not model.is_file() or present is None:
        missing = model if not model.is_file() else weights[0]
        raise ModelError(f"{asked.name} is one half of a model: {missing.name} is not beside it.")
    return {"model": model, "weights": present}


def _only(candidates: Iterable[Path], otherwise: Path) -> Path:
    paths = list(candidates)
    return paths[0] if len(paths) == 1 else otherwise


def _by_content(path: Path, guess: str | None) -> str | None:
    """Correct a guess where the first bytes tell better than the name."""
    with open_regular(path) as stream:
        head = stream.read(16)
    if head[4:8] == b"TFL3":
        return "tflite"
    if head.startswith(b"GGUF"):
        return "gguf"
    if head.startswith(b"\x89HDF\r\n\x1a\n"):
        return "keras-h5"
    if head.startswith(b"PK"):
        return _zip_format(path, guess)
    # Archives by definition; this is an old pickle or nothing.
    if guess in {"torchscript", "torch-export", "keras"}:
        return "torch-state-dict" if head.startswith(b"\x80") else None
    if guess == "openvino-ir":
        return guess if head.lstrip(b"\xef\xbb\xbf").startswith(b"<") else None
    return guess


def _zip_format(path: Path, guess: str | None) -> str | None:
    try:
        with open_archive(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError):
        return guess
    inner = {name.partition("/")[2] for name in names}
    if "constants.pkl" in inner or any(name.startswith("code/") for name in inner):
        return "torchscript"
    if any(name.startswith("models/") for name in inner) or "archive_format" in inner:
        return "torch-export"
    if "data.pkl" in inner:
        return "torch-state-dict"
    if "config.json" in names and "model.weights.h5" in names:
        return "keras"
    return guess
