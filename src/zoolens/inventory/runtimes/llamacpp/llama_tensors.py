"""What the tensors of a llama and its relatives are called in GGUF files and in transformers, and how rows are ordered.

Rotary positions turn pairs of numbers. In transformers a pair is a number of the first half of a head and one of the
second; in GGUF files of llamas the two are neighbours, so that the converter reorders the rows of queries and keys.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from zoolens.inventory.runtimes.llamacpp.gguf_values import Array

NEIGHBOURS: Final = frozenset({"llama"})  # architectures whose rotary pairs are neighbours in the file
# Whose tensors have these names, and rows in a known order; others scale, permute or add to them in their own ways.
KNOWN: Final = frozenset({"llama", "qwen2", "qwen3"})
_QUERY, _KEY = "self_attn.q_proj", "self_attn.k_proj"
_WHOLE: Final[Mapping[str, str]] = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
_IN_BLOCK: Final[Mapping[str, str]] = {
    "attn_norm": "input_layernorm",
    "attn_q": _QUERY,
    "attn_k": _KEY,
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_BLOCK: Final = re.compile(r"blk\.(\d{1,6})\.([a-z_]+)\.(weight|bias)")


def transformers_name(name: str) -> str | None:
    """What a tensor of a GGUF file is called in transformers; None where that is not known."""
    block = _BLOCK.fullmatch(name)
    if block is not None:
        own = _IN_BLOCK.get(block[2])
        return None if own is None else f"model.layers.{block[1]}.{own}.{block[3]}"
    stem, _, kind = name.rpartition(".")
    return f"{_WHOLE[stem]}.{kind}" if stem in _WHOLE else None


def turned_heads(name: str, heads: int, key_heads: int) -> int | None:
    """The number of heads of a tensor of queries or keys, by its name in transformers; None for any other."""
    if f".{_QUERY}." in name:
        return heads
    return key_heads if f".{_KEY}." in name else None


def in_halves(values: Array, heads: int) -> Array:
    """Rows of queries or keys with the pairs of each head in two halves, from pairs that are neighbours."""
    rows = values.shape[0] // heads
    return values.reshape(heads, rows // 2, 2, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)
