"""Weights as safetensors files: plain numbers with names, nothing that could run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import MissingDependency, ModelError, first_line
from zoolens.base.paths import replaced_file
from zoolens.base.safety.untrusted import size_of


def read_weights(path: Path) -> dict[str, NDArray[Any]]:
    library = _library()
    try:
        size_of(path)
        arrays: dict[str, NDArray[Any]] = library.numpy.load_file(path)
    except (OSError, library.SafetensorError, ValueError, KeyError, TypeError) as error:
        reason = "it does not exist" if isinstance(error, FileNotFoundError) else first_line(error)
        raise ModelError(
            f"The weights {path} cannot be read: {reason}.", hint="The file must be a complete safetensors file."
        ) from error
    return arrays


def write_weights(path: Path, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str] | None = None) -> None:
    """Whole or not at all: a reader never sees half a file."""
    library = _library()
    packed = library.numpy.save({name: np.ascontiguousarray(array) for name, array in arrays.items()}, metadata)
    with replaced_file(path) as file:
        file.write(packed)


def _library() -> Any:
    try:
        import safetensors
        import safetensors.numpy
    except ImportError as error:
        raise MissingDependency("Reading and writing weights", "safetensors", "crosstrain") from error
    return safetensors
