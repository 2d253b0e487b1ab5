"""The weight tensors of a GGUF file, or of a safetensors file of a llama, under the names of transformers.

Rows of queries and keys come in the order of transformers, whatever the file has.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ModelError
from zoolens.base.safety.untrusted import open_regular
from zoolens.findings.graph.weights.rounding import FLOATS, Array, Steps, float_steps, steps_of
from zoolens.inventory.runtimes.llamacpp.gguf_file import GgufFile, GgufTensor, read_gguf
from zoolens.inventory.runtimes.llamacpp.gguf_values import decoded
from zoolens.inventory.runtimes.llamacpp.llama_tensors import (
    KNOWN,
    NEIGHBOURS,
    in_halves,
    transformers_name,
    turned_heads,
)
from zoolens.inventory.runtimes.model_files.safetensors_file import SafeTensor, read_safetensors, safetensors_values
from zoolens.inventory.runtimes.model_files.stored_rows import stored_rows

_MOST_VALUES: Final = 1 << 21  # of one piece
# Computed from settings, and therefore ignored where one file has them alone.
COMPUTED: Final = re.compile(r"rope_freqs\.weight|(?:model\.(?:layers\.\d+\.self_attn\.)?)?rotary_emb\.inv_freq")


@dataclass(frozen=True)
class LoadedTensor:
    """A tensor that is read as a whole, because its file does not keep it row by row."""

    size: int
    load: Callable[[], NDArray[Any]]


@dataclass(frozen=True)
class StoredTensor:
    """A tensor of a file, and how it is read."""

    name: str
    shape: tuple[int, ...]
    type: str
    bits: float
    path: Path
    place: GgufTensor | SafeTensor | LoadedTensor
    heads: int | None = None  # whose rows are reordered

    @property
    def size(self) -> int:
        return self.place.size

    @property
    def head_rows(self) -> int:
        """Rows that have to be read together."""
        return max(1, self.shape[0] // self.heads) if self.heads else 1

    @property
    def whole_numbers(self) -> bool:
        """Whether it holds whole numbers or truth values, such as a mask, and no weights."""
        return self.type not in FLOATS and (
            not isinstance(self.place, GgufTensor) or (self.type.startswith("I") and self.place.type.block == 1)
        )

    def arranged_as(self, other: StoredTensor) -> StoredTensor:
        """With the shape of the other, where they differ in axes of extent 1 alone and this one is read as a whole."""
        own, wanted = ([extent for extent in shape if extent != 1] for shape in (self.shape, other.shape))
        return replace(self, shape=other.shape) if own == wanted and isinstance(self.place, LoadedTensor) else self

    def content(self) -> bytes:
        """A digest of all bytes."""
        if isinstance(self.place, LoadedTensor):
            return hashlib.sha256(self.place.load().tobytes()).digest()
        hasher = hashlib.sha256()
        with open_regular(self.path) as file:
            file.seek(self.place.offset)
            left = self.place.nbytes
            while left > 0 and (piece := file.read(min(left, _MOST_VALUES))):
                hasher.update(piece)
                left -= len(piece)
        if left:
            raise ModelError(f"{self.path.name} ends within its tensor {self.name[:80]!r}.")
        return hasher.digest()

    def pieces(self, rows: int, *, steps: bool) -> Iterator[tuple[Array, Steps | None]]:
        """The values, so many rows at a time, with the steps of their type."""
        if isinstance(self.place, LoadedTensor):
            yield from self._loaded_pieces(self.place, rows, steps=steps)
            return
        for raw in stored_rows(self.path, self.place, rows):
            values = self._values(raw)
            found = self._steps(raw, values) if steps else None
            yield self._ordered(values), None if found is None else found.arranged(self._ordered)

    def _loaded_pieces(self, place: LoadedTensor, rows: int, *, steps: bool) -> Iterator[tuple[Array, Steps | None]]:
        values = place.load().reshape(-1, self.shape[-1] if self.shape else 1)
        for begin in range(0, len(values), rows):
            with np.errstate(over="ignore"):
                piece = np.ascontiguousarray(values[begin : begin + rows], np.float32)
            yield piece, float_steps(piece, self.type) if steps else None

    def _values(self, raw: NDArray[np.uint8]) -> Array:
        if isinstance(self.place, GgufTensor):
            return decoded(raw, self.place.type)
        return safetensors_values(raw, self.type)

    def _ordered(self, values: NDArray[Any]) -> Any:
        """Rows in the order of transformers."""
        if self.heads is None:
            return values
        if len(self.shape) == 1:  # a bias is one row of a file
            return in_halves(values.reshape(-1, 1), self.heads).reshape(values.shape)
        return in_halves(values, len(values) // self.head_rows)

    def _steps(self, raw: NDArray[np.uint8], values: Array) -> Steps | None:
        return float_steps(values, self.type) if self.type in FLOATS else steps_of(raw, values, self.type)


def piece_rows(a: StoredTensor, b: StoredTensor) -> int:
    """Rows that are read at a time, which both sides must agree on."""
    together = math.lcm(a.head_rows, b.head_rows)
    width = a.shape[-1] if a.shape else 1
    return max(1, _MOST_VALUES // max(1, width * together)) * together


def stored_weights(path: Path) -> dict[str, StoredTensor]:
    """The tensors of a file, by their names in transformers where these are known."""
    return _of_gguf(path, read_gguf(path)) if path.suffix == ".gguf" else _of_safetensors(path)


def both_weights(a: Path, b: Path) -> tuple[dict[str, StoredTensor], dict[str, StoredTensor]]:
    """The tensors of two files under the same names; ModelError where names or rows cannot be matched."""
    unlike = {name for path in (a, b) if path.suffix == ".gguf" and (name := read_gguf(path).architecture) not in KNOWN}
    if unlike and (a.suffix != b.suffix or read_gguf(a).architecture != read_gguf(b).architecture):
        raise ModelError(
            f"The weights of {a.name} and {b.name} are not compared: how other files name and order the tensors of "
            f"{' and '.join(sorted(unlike))!s:.80} is not known.",
            hint=f"Known are {', '.join(sorted(KNOWN))}, and two GGUF files of one architecture.",
        )
    ours, theirs = stored_weights(a), stored_weights(b)
    for own, other in ((ours, theirs), (theirs, ours)):
        for name in [name for name in own if name not in other and COMPUTED.fullmatch(name)]:
            del own[name]
    return ours, theirs


def _of_gguf(path: Path, file: GgufFile) -> dict[str, StoredTensor]:
    known = file.architecture in KNOWN
    queries = file.number(f"{file.architecture}.attention.head_count") or 0
    keys = file.number(f"{file.architecture}.attention.head_count_kv") or queries
    tensors: dict[str, StoredTensor] = {}
    for tensor in file.tensors:
        name = (transformers_name(tensor.name) if known else None) or tensor.name
        if name in tensors:
            raise ModelError(f"{path.name} has two tensors that are {name[:80]!r}.")
        heads = turned_heads(name, queries, keys) if file.architecture in NEIGHBOURS else None
        if heads is not None and (heads < 1 or tensor.shape[0] % (2 * heads)):
            raise ModelError(f"The tensor {tensor.name[:80]!r} of {path.name} cannot be divided into {heads:,} heads.")
        tensors[name] = StoredTensor(name, tensor.shape, tensor.type.name, tensor.type.bits, path, tensor, heads)
    return tensors


def _of_safetensors(path: Path) -> dict[str, StoredTensor]:
    return {
        name: StoredTensor(name, tensor.shape, tensor.type, 8 * tensor.nbytes / max(1, tensor.size), path, tensor)
        for name, tensor in read_safetensors(path).items()
    }
