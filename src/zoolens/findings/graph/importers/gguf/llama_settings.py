"""The settings of a llama and its relatives, from the metadata of a GGUF file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.llamacpp.gguf_file import GgufFile

_ROPE_BASE: Final = 10000.0  # where the file does not say
_NO_SCALING: Final = (None, "none")
# Whatever else stands under the architecture's name may change what is computed.
_KNOWN: Final = frozenset(
    {
        "block_count", "context_length", "embedding_length", "feed_forward_length", "vocab_size",
        "attention.head_count", "attention.head_count_kv", "attention.key_length", "attention.value_length",
        "attention.layer_norm_rms_epsilon", "attention.causal", "rope.dimension_count", "rope.freq_base",
        "rope.scaling.type", "rope.scaling.factor", "rope.scaling.original_context_length",
        "rope.scaling.finetuned", "tensor_data_layout",
    }
)  # fmt: skip


@dataclass(frozen=True)
class LlamaSettings:
    """Sizes of one network. `rope_scaling` is None where positions are taken as they are."""

    layers: int
    width: int
    inner: int
    heads: int
    key_heads: int
    head_width: int
    epsilon: float
    rope_base: float
    rope_scaling: str | None
    rope_factor: float


def read_settings(file: GgufFile) -> LlamaSettings:
    """The settings of a file; ModelError where one is absent, impossible or not known here."""
    own = f"{file.architecture}."
    strange = next((key for key in file.metadata if key.startswith(own) and key.removeprefix(own) not in _KNOWN), None)
    if strange is not None:
        raise ModelError(
            f"{file.name} has the setting {strange[:80]}, of which nothing is known here: "
            "its network may be another than that of its architecture."
        )
    if file.flag(f"{own}attention.causal") is False:
        raise ModelError(f"{file.name} is a {file.architecture} whose tokens see later ones, which is not known here.")
    width, heads = _positive(file, "embedding_length"), _positive(file, "attention.head_count")
    head_width = file.number(f"{own}attention.key_length") or width // heads
    _check_heads(file, head_width)
    scaling = file.text(f"{own}rope.scaling.type")
    key_heads = file.number(f"{own}attention.head_count_kv") or heads
    if key_heads < 1 or heads % key_heads:
        raise ModelError(f"{file.name} has {heads:,} heads, which cannot share {key_heads:,} heads of keys.")
    return LlamaSettings(
        layers=_positive(file, "block_count"),
        width=width,
        inner=_positive(file, "feed_forward_length"),
        heads=heads,
        key_heads=key_heads,
        head_width=head_width,
        epsilon=_real(file, "attention.layer_norm_rms_epsilon", None),
        rope_base=_real(file, "rope.freq_base", _ROPE_BASE),
        rope_scaling=None if scaling in _NO_SCALING else scaling,
        rope_factor=1.0 if scaling == "none" else _real(file, "rope.scaling.factor", 1.0),  # as llama.cpp does
    )


def _check_heads(file: GgufFile, head_width: int) -> None:
    own = file.architecture
    parts: Mapping[str, Any] = {
        key: file.number(f"{own}.{key}") for key in ("attention.value_length", "rope.dimension_count")
    }
    other = next((key for key, value in parts.items() if value not in (None, head_width)), None)
    if other is not None or head_width < 2 or head_width % 2:
        raise ModelError(
            f"{file.name} has heads of {head_width:,} numbers"
            f"{f' and {own}.{other} {parts[other]:,}' if other else ''}, which is not known here."
        )


def _positive(file: GgufFile, key: str) -> int:
    value = file.number(f"{file.architecture}.{key}")
    if value is None or value < 1:
        raise ModelError(f"{file.name} says no {file.architecture}.{key}, or an impossible one.")
    return value


def _real(file: GgufFile, key: str, default: float | None) -> float:
    value = file.metadata.get(f"{file.architecture}.{key}", default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise ModelError(f"{file.name} says no {file.architecture}.{key}, or an impossible one.")
    return float(value)
