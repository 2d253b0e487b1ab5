"""The network of a llama and its relatives, between the tensors of a GGUF file.

Rows of queries and keys are put into the order that they have in transformers, so that both files become one graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.findings.graph.importers.gguf.llama_settings import LlamaSettings
from zoolens.findings.graph.ir.builder import GraphBuilder
from zoolens.findings.graph.ir.model import Array, Parameter, Shape
from zoolens.inventory.runtimes.llamacpp.gguf_file import GgufFile, GgufTensor
from zoolens.inventory.runtimes.llamacpp.gguf_values import tensor_values
from zoolens.inventory.runtimes.llamacpp.llama_tensors import NEIGHBOURS, in_halves

_FREQUENCIES: Final = "rope_freqs.weight"  # what each pair's rate is divided by, as Llama 3.1 has it
_RULES: Final = (None, "linear")  # by which positions are stretched, of those that are known here


@dataclass(frozen=True)
class Family:
    """How networks of an architecture differ."""

    head_norms: bool = False  # queries and keys are normed within each head


FAMILIES: Final[Mapping[str, Family]] = {
    "llama": Family(),  # also Mistral, SmolLM, TinyLlama and others that converters file under it
    "qwen2": Family(),
    "qwen3": Family(head_norms=True),
}


class LlamaNetwork:
    """Writes the nodes of one network. Every tensor of the file must be used."""

    def __init__(self, path: Path, file: GgufFile, settings: LlamaSettings, *, weights: bool) -> None:
        self.builder = GraphBuilder(path.stem, keep_weights=weights)
        self._path, self._file, self._settings = path, file, settings
        self._family = FAMILIES[file.architecture]
        self._tensors = {tensor.name: tensor for tensor in file.tensors}
        self._unused = set(self._tensors)
        self._length = 0
        self._turns: tuple[str, str] = ("", "")
        self.tables: dict[str, Array] = {}  # what turns queries and keys, by the names of the nodes

    def build(self, length: int) -> str:
        """Adds all nodes for a text of so many tokens; the name of the logits."""
        self._length = length
        width = self._settings.width
        vocabulary = self._known("token_embd.weight").shape[0]
        tokens = self.builder.add("input", (), (1, length), name="tokens", source="tokens")
        table = self._parameter("table", "token_embd.weight", (vocabulary, width))
        states = self.builder.add("embedding", (tokens,), (1, length, width), source="token_embd", parameters=(table,))
        for layer in range(self._settings.layers):
            states = self._layer(f"blk.{layer}.", states)
        states = self._norm("output_norm", states)
        # Without a tensor of its own the output takes the table of tokens again.
        own = "output" if "output.weight" in self._tensors else "token_embd"
        logits = self._dense(own, states, vocabulary, source="output")
        self._check_all_used()
        return logits

    def _layer(self, block: str, states: str) -> str:
        attended = self._attention(block, self._norm(f"{block}attn_norm", states))
        states = self._sum(f"{block}attn_residual", states, attended)
        inner = self._settings.inner
        normed = self._norm(f"{block}ffn_norm", states)
        gate = self._dense(f"{block}ffn_gate", normed, inner)
        gate = self.builder.add("silu", (gate,), self.builder.shapes[gate], source=f"{block}ffn_act")
        up = self._dense(f"{block}ffn_up", normed, inner)
        joined = self.builder.add("mul", (gate, up), self.builder.shapes[up], source=f"{block}ffn_mul")
        down = self._dense(f"{block}ffn_down", joined, self._settings.width)
        return self._sum(f"{block}ffn_residual", states, down)

    def _attention(self, block: str, states: str) -> str:
        own = self._settings
        self._turns = self._rotations(block)
        queries = self._heads(f"{block}attn_q", states, own.heads, turned=True)
        keys = self._heads(f"{block}attn_k", states, own.key_heads, turned=True)
        values = self._heads(f"{block}attn_v", states, own.key_heads, turned=False)
        shape = (1, own.heads, self._length, own.head_width)
        attended = self.builder.add(
            "attention",
            (queries, keys, values),
            shape,
            source=f"{block}attn",
            heads=own.heads,
            scale=own.head_width**-0.5,
            causal=True,
        )
        rows = self._turned_axes(attended, f"{block}attn_rows")
        joined = (1, self._length, own.heads * own.head_width)
        rows = self.builder.add("reshape", (rows,), joined, source=f"{block}attn_rows")
        return self._dense(f"{block}attn_output", rows, own.width)

    def _heads(self, name: str, states: str, heads: int, *, turned: bool) -> str:
        """Queries, keys or values as (1, heads, tokens, width)."""
        width = self._settings.head_width
        arrange = (
            (lambda values: in_halves(values, heads)) if turned and self._file.architecture in NEIGHBOURS else None
        )
        made = self._dense(name, states, heads * width, arrange=arrange)
        made = self.builder.add("reshape", (made,), (1, self._length, heads, width), source=f"{name}_heads")
        if turned and self._family.head_norms:
            made = self._norm(f"{name}_norm", made)
        made = self._turned_axes(made, f"{name}_heads")
        return self._rotated(name, made) if turned else made

    def _turned_axes(self, name: str, source: str) -> str:
        """The value with its axes of tokens and heads exchanged."""
        first, second, third, fourth = self.builder.shapes[name]
        shape = (first, third, second, fourth)
        return self.builder.add("transpose", (name,), shape, source=source, perm=(0, 2, 1, 3))

    def _rotated(self, name: str, made: str) -> str:
        """Rotary positions: x·cos + (−second half, first half)·sin."""
        add, shape = self.builder.add, self.builder.shapes[made]
        half = shape[-1] // 2
        cut = (*shape[:-1], half)
        source = f"{name}_rope"
        cosines, sines = self._turns
        first = add("slice", (made,), cut, source=source, axis=3, start=0, stop=half)
        second = add("slice", (made,), cut, source=source, axis=3, start=half, stop=2 * half)
        negative = add("neg", (second,), cut, source=source)
        other = add("concat", (negative, first), shape, source=source, axis=3)
        straight = add("mul", (made, cosines), shape, source=source)
        crossed = add("mul", (other, sines), shape, source=source)
        return add("add", (straight, crossed), shape, source=source)

    def _rotations(self, block: str) -> tuple[str, str]:
        """The constants by which positions turn, cosines and sines. Each layer has its own, as in graphs of torch."""
        shape = (1, 1, self._length, self._settings.head_width)
        made = []
        for name in ("rope_cos", "rope_sin"):
            values = self._turn_values.get(name)
            tensor = self.builder.parameter("value", shape, f"{block}{name}", values)
            made.append(self.builder.leaf("constant", tensor, source=f"{block}{name}"))
            if values is not None:
                self.tables[made[-1]] = values
        return made[0], made[1]

    @cached_property
    def _turn_values(self) -> Mapping[str, Array]:
        """Cosines and sines; none where only the structure is wanted and the rule of positions is not known."""
        self._unused.discard(_FREQUENCIES)
        if not self.builder.keep_weights and self._settings.rope_scaling not in _RULES:
            return {}
        angles = self._angles()[None, None]
        return {"rope_cos": np.cos(angles).astype(np.float32), "rope_sin": np.sin(angles).astype(np.float32)}

    def _angles(self) -> Array:
        own = self._settings
        if own.rope_scaling not in _RULES:
            raise ModelError(
                f"{self._path.name} stretches positions by the rule {own.rope_scaling[:40]!r}, whose values are not "
                "known here."
            )
        rates = own.rope_base ** (-np.arange(0, own.head_width, 2) / own.head_width)
        if _FREQUENCIES in self._tensors:
            rates = rates / self._values(_FREQUENCIES, (own.head_width // 2,))
        angles = np.arange(self._length)[:, None] / own.rope_factor * rates
        return np.concatenate([angles, angles], axis=1)

    def _norm(self, name: str, states: str) -> str:
        shape = self.builder.shapes[states]
        scale = self._parameter("scale", f"{name}.weight", shape[-1:])
        epsilon = self._settings.epsilon
        return self.builder.add(
            "rms_norm", (states,), shape, source=name, parameters=(scale,), epsilon=epsilon, axes=(len(shape) - 1,)
        )

    def _dense(
        self,
        name: str,
        states: str,
        outputs: int,
        *,
        source: str | None = None,
        arrange: Callable[[Array], Array] | None = None,
    ) -> str:
        shape = self.builder.shapes[states]
        parameters = [self._parameter("kernel", f"{name}.weight", (outputs, shape[-1]), arrange)]
        if f"{name}.bias" in self._tensors:
            parameters.append(self._parameter("bias", f"{name}.bias", (outputs,), arrange))
        return self.builder.add(
            "dense", (states,), (*shape[:-1], outputs), source=source or name, parameters=parameters
        )

    def _sum(self, name: str, left: str, right: str) -> str:
        return self.builder.add("add", (left, right), self.builder.shapes[left], source=name)

    def _parameter(
        self, role: str, name: str, shape: Shape, arrange: Callable[[Array], Array] | None = None
    ) -> Parameter:
        self._known(name, shape)
        return self.builder.arranged_parameter(role, shape, name, lambda: self._values(name, shape), arrange)

    def _values(self, name: str, shape: Shape) -> Any:
        if name in self.builder.weights:
            return self.builder.weights[name]  # the table of tokens is used twice
        return tensor_values(self._path, self._known(name, shape))

    def _known(self, name: str, shape: Shape | None = None) -> GgufTensor:
        """The tensor of this name, which must have this shape."""
        tensor = self._tensors.get(name)
        if tensor is None:
            raise ModelError(f"{self._path.name} lacks the tensor {name[:80]!r} of a {self._file.architecture}.")
        self._unused.discard(name)
        if shape is not None and tensor.shape != tuple(shape):
            found, wanted = ("×".join(map(str, extents)) for extents in (tensor.shape, shape))
            raise ModelError(
                f"The tensor {name[:80]!r} of {self._path.name} is {found}; its settings make it {wanted}."
            )
        return tensor

    def _check_all_used(self) -> None:
        if self._unused:
            first = min(self._unused)
            raise ModelError(
                f"{self._path.name} has the tensor {first[:80]!r}, which a {self._file.architecture} as it is known "
                f"here does not have{f', and {len(self._unused) - 1} more' if len(self._unused) > 1 else ''}."
            )
