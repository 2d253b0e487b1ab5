"""Trees of arrays in .msgpack files, in the format that Flax writes: nested maps, arrays as an extension type.

Nothing but numbers is read: an array is its shape, the name of its type and its bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from zoolens.base.errors import MissingDependency, ModelError, first_line
from zoolens.base.paths import replaced_file
from zoolens.base.safety.untrusted import size_of
from zoolens.training.pairs.networks.framework import Array

_ARRAY: Final = 1  # the code of Flax' extension type
_BFLOAT16: Final = "bfloat16"


def read_tree(path: Path) -> dict[str, Array]:
    """The arrays by the keys that lead to them: "params/conv1/kernel"."""
    msgpack = _library()
    try:
        size_of(path)
        tree = msgpack.unpackb(path.read_bytes(), ext_hook=_array, raw=False)
        return dict(_flat(tree, ()))
    except (OSError, ValueError, TypeError, KeyError, msgpack.exceptions.UnpackException) as error:
        raise ModelError(f"{path.name} is no tree of arrays as Flax writes it: {first_line(error)}.") from error


def write_tree(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays whose names are keys joined by slashes, whole or not at all."""
    tree: dict[str, Any] = {}
    for name, array in arrays.items():
        *outer, last = name.split("/")
        place = tree
        for key in outer:
            place = place.setdefault(key, {})
        place[last] = array
    packed = _library().packb(tree, default=_packed, use_bin_type=True)
    with replaced_file(path) as file:
        file.write(packed)


def _flat(tree: Mapping[str, Any], before: tuple[str, ...]) -> Iterator[tuple[str, Array]]:
    if not isinstance(tree, Mapping):
        raise ValueError("it is no map of names")  # noqa: TRY004 - one kind of error for the whole file
    for key, value in tree.items():
        place = (*before, str(key))
        if isinstance(value, Mapping):
            yield from _flat(value, place)
        elif isinstance(value, np.ndarray):
            yield "/".join(place), value
        else:
            raise ValueError(f"{'/'.join(place)} is no array")  # noqa: TRY004 - one kind of error for the whole file


def _array(code: int, data: bytes) -> Array:
    if code != _ARRAY:
        raise ValueError(f"it holds an object of the kind {code}")
    shape, kind, content = _library().unpackb(data, raw=True)
    name = kind.decode()
    if name == _BFLOAT16:
        halves = np.frombuffer(content, np.uint16).astype(np.uint32) << 16
        return halves.view(np.float32).reshape(shape)
    dtype = np.dtype(name)
    if dtype.kind not in "fiub":
        raise ValueError(f"it holds values of the type {name}")
    return np.frombuffer(content, dtype).reshape(shape)


def _packed(value: Any) -> Any:
    msgpack = _library()
    return msgpack.ExtType(_ARRAY, msgpack.packb((value.shape, value.dtype.name, value.tobytes()), use_bin_type=True))


def _library() -> Any:
    try:
        import msgpack
    except ImportError as error:
        raise MissingDependency("Reading and writing .msgpack files", "msgpack", "jax") from error
    return msgpack
