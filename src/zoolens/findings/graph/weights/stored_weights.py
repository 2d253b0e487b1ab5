"""The weight tensors of a GGUF file, or of a safetensors file of a llama, under the names of transformers.

Rows of queries and keys come in the order of transformers, whatever the file has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ModelError
from zoolens.base.safety.untrusted import open_regular
from zoolens.findings.graph.weights.rounding import FLOATS, TYPES, Array, Steps, float_steps, steps_of
from zoolens.inventory.runtimes.llamacpp.gguf_file import GgufTensor, read_gguf
from zoolens.inventory.runtimes.llamacpp.gguf_values import decoded
from zoolens.inventory.runtimes.llamacpp.llama_tensors import NEIGHBOURS, in_halves, transformers_name, turned_heads
from zoolens.inventory.runtimes.model_files.safetensors_file import SafeTensor, read_safetensors, safetensors_pieces

_MOST_VALUES: Final = 1 << 21  # of one piece
_IGNORED: Final = ("rotary_emb.inv_freq", "rope_freqs.weight")  # computed from settings


@dataclass(frozen=True)
class StoredTensor:
    """A tensor of a file, and how it is read."""

    name: str
    shape: tuple[int, ...]
    type: str
    bits: float
    path: Path
    place: GgufTensor | SafeTensor
    heads: int | None = None  # whose rows are reordered

    @property
    def size(self) -> int:
        return self.place.size

    @property
    def head_rows(self) -> int:
        """Rows that have to be read together."""
        return max(1, self.shape[0] // self.heads) if self.heads else 1

    def pieces(self, rows: int, *, steps: bool) -> Iterator[tuple[Array, Steps | None]]:
        """The values, so many rows at a time, with the steps of their type."""
        if isinstance(self.place, SafeTensor):
            for values in safetensors_pieces(self.path, self.place, rows):
                yield values, float_steps(values, self.type) if steps and self.type in FLOATS else None
            return
        for raw in self._raw(rows):
            values = decoded(raw, TYPES[self.type])
            found = self._steps(raw, values) if steps else None
            yield self._ordered(values), None if found is None else found.arranged(self._ordered)

    def _ordered(self, values: NDArray[Any]) -> Any:
        """Rows in the order of transformers."""
        if self.heads is None:
            return values
        if len(self.shape) == 1:  # a bias is one row of a file
            return in_halves(values.reshape(-1, 1), self.heads).reshape(values.shape)
        return in_halves(values, len(values) // self.head_rows)

    def _steps(self, raw: NDArray[np.uint8], values: Array) -> Steps | None:
        return float_steps(values, self.type) if self.type in FLOATS else steps_of(raw, values, self.type)

    def _raw(self, rows: int) -> Iterator[NDArray[np.uint8]]:
        count = self.size // self.shape[-1]
        row_bytes = self.place.nbytes // count
        with open_regular(self.path) as file:
            file.seek(self.place.offset)
            for begin in range(0, count, rows):
                wanted = min(rows, count - begin)
                content = file.read(wanted * row_bytes)
                if len(content) < wanted * row_bytes:
                    raise ModelError(f"{self.path.name} ends within its tensor {self.name[:80]!r}.")
                yield np.frombuffer(content, np.uint8).reshape(wanted, row_bytes)


def piece_rows(a: StoredTensor, b: StoredTensor) -> int:
    """Rows that are read at a time, which both sides must agree on."""
    together = max(a.head_rows, b.head_rows)
    width = a.shape[-1] if a.shape else 1
    return max(1, _MOST_VALUES // max(1, width * together)) * together


def stored_weights(path: Path) -> dict[str, StoredTensor]:
    """The tensors of a file by their names in transformers."""
    found = _of_gguf(path) if path.suffix == ".gguf" else _of_safetensors(path)
    return {name: tensor for name, tensor in found.items() if not name.endswith(_IGNORED)}


def _of_gguf(path: Path) -> dict[str, StoredTensor]:
    file = read_gguf(path)
    queries = file.number(f"{file.architecture}.attention.head_count") or 0
    keys = file.number(f"{file.architecture}.attention.head_count_kv") or queries
    tensors = {}
    for tensor in file.tensors:
        name = transformers_name(tensor.name) or tensor.name
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
