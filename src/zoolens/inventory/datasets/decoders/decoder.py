"""The decoders a manifest may name. Pillow's is in `datasets/images.py`; each other has a file of its own here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Final

from zoolens.base.errors import DatasetError, MissingDependency, UnknownName, first_line
from zoolens.inventory.datasets.decoders import opencv, tensorflow
from zoolens.inventory.datasets.images import Decode
from zoolens.inventory.manifests.schema import DEFAULT_DECODER


@dataclass(frozen=True)
class Library:
    """`distributions`: canonical names under which the module is to be had; the first is the one to install."""

    title: str
    module: str
    distributions: tuple[str, ...]
    extra: str
    load: Callable[[], Decode]


_LIBRARIES: Final = {
    "opencv": Library(
        "OpenCV",
        "cv2",
        ("opencv-python-headless", "opencv-python", "opencv-contrib-python-headless", "opencv-contrib-python"),
        "opencv",
        opencv.load,
    ),
    "tensorflow": Library("TensorFlow", "tensorflow", ("tensorflow", "tensorflow-cpu"), "tensorflow", tensorflow.load),
}
TURNING: Final = frozenset({"opencv"})  # decoders that turn pictures as their EXIF data say
DECODERS: Final = (DEFAULT_DECODER, *_LIBRARIES)


@cache
def load_decoder(name: str) -> Decode | None:
    """What `decode_image` takes: None is Pillow. Imports the library."""
    if name == DEFAULT_DECODER:
        return None
    library = _library(name)
    try:
        return library.load()
    except ImportError as error:
        needed_by = f"Decoding images as {library.title} does"
        raise MissingDependency(needed_by, library.distributions[0], library.extra) from error
    except Exception as error:
        raise DatasetError(
            f"{library.title} is installed but cannot be loaded: {type(error).__name__}: {first_line(error)}.",
            hint="Reinstall it, or declare another decoder.",
        ) from error


def is_installed(name: str) -> bool:
    """Whether a decoder's library is installed; nothing is imported."""
    return name == DEFAULT_DECODER or find_spec(_library(name).module) is not None


def packages_of(name: str) -> tuple[str, ...]:
    """The distributions, one of which decides the pixels; none are named for Pillow, which every run names itself."""
    return () if name == DEFAULT_DECODER else _library(name).distributions


def _library(name: str) -> Library:
    if name not in _LIBRARIES:
        raise UnknownName("image decoder", name, DECODERS)
    return _LIBRARIES[name]
