"""Tiny language models in GGUF files, written by hand: random weights, and answers that numpy computes as well."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoolens.inventory.runtimes.runtime import ModelFiles

Array = NDArray[np.float32]

VOCABULARY, WIDTH, INNER, LAYERS, HEADS, KEY_HEADS, CONTEXT = 64, 32, 48, 2, 4, 2, 600
_ROPE_BASE, _EPSILON, _ALIGNMENT = 10000.0, 1e-5, 32
_STRING, _ARRAY = 8, 9
_HEAD = WIDTH // HEADS


def tokens() -> list[str]:
    """A vocabulary of single bytes as GPT-2 writes them, with one merged token and two control tokens at its end."""
    letters = [chr(code) for code in range(ord("!"), ord("!") + VOCABULARY - 5)]
    return [*letters, "Ġ", "Ċ", "AB", "<s>", "</s>"]


def metadata() -> dict[str, Any]:
    """What llama.cpp asks of a llama. Texts are str; numbers are numpy's, whose type is that of the file."""
    return {
        "general.architecture": "llama",
        "general.name": "tiny",
        "general.file_type": np.uint32(0),
        "llama.block_count": np.uint32(LAYERS),
        "llama.context_length": np.uint32(CONTEXT),
        "llama.embedding_length": np.uint32(WIDTH),
        "llama.feed_forward_length": np.uint32(INNER),
        "llama.attention.head_count": np.uint32(HEADS),
        "llama.attention.head_count_kv": np.uint32(KEY_HEADS),
        "llama.attention.layer_norm_rms_epsilon": np.float32(_EPSILON),
        "llama.rope.freq_base": np.float32(_ROPE_BASE),
        "llama.rope.dimension_count": np.uint32(_HEAD),
        "llama.vocab_size": np.uint32(VOCABULARY),
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens(),
        "tokenizer.ggml.token_type": np.array([1] * (VOCABULARY - 2) + [3, 3], np.int32),
        "tokenizer.ggml.merges": ["A B"],
        "tokenizer.ggml.bos_token_id": np.uint32(VOCABULARY - 2),
        "tokenizer.ggml.eos_token_id": np.uint32(VOCABULARY - 1),
        "tokenizer.ggml.add_bos_token": np.bool_(False),
    }


def weights(seed: int = 7) -> dict[str, Array]:
    random = np.random.default_rng(seed)

    def drawn(*shape: int) -> Array:
        return random.normal(0, 0.3, shape).astype(np.float32)

    tensors = {"token_embd.weight": drawn(VOCABULARY, WIDTH), "output_norm.weight": 1 + drawn(WIDTH)}
    for layer in range(LAYERS):
        shapes = {
            "attn_norm": (WIDTH,),
            "attn_q": (WIDTH, WIDTH),
            "attn_k": (_HEAD * KEY_HEADS, WIDTH),
            "attn_v": (_HEAD * KEY_HEADS, WIDTH),
            "attn_output": (WIDTH, WIDTH),
            "ffn_norm": (WIDTH,),
            "ffn_gate": (INNER, WIDTH),
            "ffn_up": (INNER, WIDTH),
            "ffn_down": (WIDTH, INNER),
        }
        tensors |= {f"blk.{layer}.{name}.weight": drawn(*shape) for name, shape in shapes.items()}
    return tensors


def gguf(folder: Path, *, seed: int = 7, name: str = "tiny.gguf", **changed: Any) -> ModelFiles:
    """A whole model in float32. `changed`: metadata by key, with __ for a dot; None leaves a key out."""
    entries = metadata() | {key.replace("__", "."): value for key, value in changed.items()}
    path = folder / name
    path.write_bytes(gguf_bytes({key: value for key, value in entries.items() if value is not None}, weights(seed)))
    return ModelFiles("gguf", {"model": path})


def gguf_bytes(entries: Mapping[str, Any], tensors: Mapping[str, Array]) -> bytes:
    """A file with these metadata and these tensors in float32."""
    head = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(entries))]
    head += [_text(key) + _typed(value) for key, value in entries.items()]
    contents: list[bytes] = []
    offset = 0
    for name, values in tensors.items():
        extents = values.shape[::-1]
        head.append(_text(name) + struct.pack(f"<I{len(extents)}QIQ", len(extents), *extents, 0, offset))
        contents.append(_padded(values.tobytes()))
        offset += len(contents[-1])
    return _padded(b"".join(head)) + b"".join(contents)


def reference(ids: Sequence[int], tensors: Mapping[str, Array] | None = None) -> NDArray[np.float64]:
    """The logits of one text, computed in float64."""
    own = {name: values.astype(np.float64) for name, values in (tensors or weights()).items()}
    states = own["token_embd.weight"][list(ids)]
    for layer in range(LAYERS):
        part = {name: own[f"blk.{layer}.{name}.weight"] for name in _LAYER}
        states = states + _attention(_norm(states, part["attn_norm"]), part)
        inner = _norm(states, part["ffn_norm"])
        gate = inner @ part["ffn_gate"].T
        states = states + (gate / (1 + np.exp(-gate)) * (inner @ part["ffn_up"].T)) @ part["ffn_down"].T
    # The embedding is used again where a file has no output.weight.
    answer: NDArray[np.float64] = _norm(states, own["output_norm.weight"]) @ own["token_embd.weight"].T
    return answer


_LAYER = ("attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down")


def _attention(states: NDArray[np.float64], part: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
    count = len(states)
    queries = _turned((states @ part["attn_q"].T).reshape(count, HEADS, _HEAD))
    keys = _turned((states @ part["attn_k"].T).reshape(count, KEY_HEADS, _HEAD)).repeat(HEADS // KEY_HEADS, axis=1)
    values = (states @ part["attn_v"].T).reshape(count, KEY_HEADS, _HEAD).repeat(HEADS // KEY_HEADS, axis=1)
    scores = np.einsum("qhd,khd->hqk", queries, keys) / np.sqrt(_HEAD)
    scores[:, np.triu(np.ones((count, count), bool), 1)] = -np.inf
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares /= shares.sum(axis=-1, keepdims=True)
    answer: NDArray[np.float64] = np.einsum("hqk,khd->qhd", shares, values).reshape(count, -1) @ part["attn_output"].T
    return answer


def _turned(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rotary positions; neighbours are a pair, as in llama's GGUF files."""
    rates = _ROPE_BASE ** (-np.arange(0, _HEAD, 2) / _HEAD)
    angles = np.arange(len(vectors))[:, None, None] * rates
    turned = np.empty_like(vectors)
    turned[..., 0::2] = vectors[..., 0::2] * np.cos(angles) - vectors[..., 1::2] * np.sin(angles)
    turned[..., 1::2] = vectors[..., 0::2] * np.sin(angles) + vectors[..., 1::2] * np.cos(angles)
    return turned


def _norm(states: NDArray[np.float64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
    answer: NDArray[np.float64] = states / np.sqrt((states**2).mean(axis=-1, keepdims=True) + _EPSILON) * weight
    return answer


def _typed(value: Any) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", _STRING) + _text(value)
    if isinstance(value, list):
        return struct.pack("<IIQ", _ARRAY, _STRING, len(value)) + b"".join(map(_text, value))
    kind = {"uint32": 4, "int32": 5, "float32": 6, "bool": 7, "uint64": 10}[value.dtype.name]
    content = np.asarray(value).tobytes()
    return (
        struct.pack("<IIQ", _ARRAY, kind, len(value)) + content if np.ndim(value) else struct.pack("<I", kind) + content
    )


def _text(value: str) -> bytes:
    content = value.encode()
    return struct.pack("<Q", len(content)) + content


def _padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % _ALIGNMENT)
