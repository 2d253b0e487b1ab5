"""Attention as one operator: that of ONNX (from opset 23) and those that ONNX Runtime fuses a network's own into.

They are read as products with learned matrices, attention over (N, heads, tokens, width), and arrangements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from zoolens.base.errors import ModelError
from zoolens.findings.graph.importers.constants import Constant
from zoolens.findings.graph.importers.onnx.onnx_layers import learned_parameters
from zoolens.findings.graph.importers.onnx.translation import OnnxCall
from zoolens.findings.graph.ir.model import Array

Rule = Callable[[OnnxCall], None]
_MASKED: Final = -10_000.0  # what ONNX Runtime adds to the score of a token that is masked


def _as_heads(call: OnnxCall, value: str, heads: int) -> str:
    """(N, tokens, width) as (N, heads, tokens, width of a head)."""
    shape = call.state.shape(value)
    if len(shape) == 4:
        return value
    batch, tokens, width = shape
    if heads < 1 or width % heads:
        raise ModelError(f"{call.source[:60]!r} cannot divide a width of {width:,} among {heads:,} heads.")
    split = call.add("reshape", (value,), shape=(batch, tokens, heads, width // heads))
    return call.add("transpose", (split,), perm=(0, 2, 1, 3))


def _as_tokens(call: OnnxCall, value: str) -> str:
    batch, heads, tokens, width = call.state.shape(value)
    turned = call.add("transpose", (value,), perm=(0, 2, 1, 3))
    return call.add("reshape", (turned,), shape=(batch, tokens, heads * width))


def _attend(call: OnnxCall, parts: Sequence[str], bias: Sequence[str], *, causal: bool, scale: float | None) -> str:
    query, key, value = parts
    heads = call.state.shape(query)[1]
    key, value = (_shared_heads(call, part, heads) for part in (key, value))
    shape = (*call.state.shape(query)[:3], call.state.shape(value)[-1])
    inputs = (query, key, value, *bias)
    return call.add("attention", inputs, shape=shape, heads=heads, scale=scale, causal=causal or None)


def _shared_heads(call: OnnxCall, value: str, heads: int) -> str:
    """Keys or values that groups of heads share, once for each head."""
    batch, own, tokens, width = call.state.shape(value)
    if own == heads:
        return value
    if not own or heads % own:
        raise ModelError(f"{call.source[:60]!r} has {heads:,} heads of queries and {own:,} of keys.")
    single = call.add("reshape", (value,), shape=(batch, own, 1, tokens, width))
    wide = call.add("expand", (single,), shape=(batch, own, heads // own, tokens, width))
    return call.add("reshape", (wide,), shape=(batch, heads, tokens, width))


def _scale(call: OnnxCall) -> float | None:
    return call.get("scale") or None


# --- ONNX


def _attention(call: OnnxCall) -> None:
    """Queries, keys, values, mask, past keys and values; three or four axes."""
    if call.get("softcap", 0.0) or call.given(6) is not None or (len(call.outputs) > 3 and call.outputs[3]):
        call.unknown("with other outputs, lengths or limits")
        return
    flat = len(call.shape(0)) == 3
    counts = (call.get("q_num_heads", 0), call.get("kv_num_heads", 0), call.get("kv_num_heads", 0))
    query, key, value = (_as_heads(call, call.live(place), heads) for place, heads in enumerate(counts))
    key = _after_past(call, key, 4)
    value = _after_past(call, value, 5)
    bias = [call.live(3)] if call.given(3) is not None else []
    causal = bool(call.get("is_causal", 0))
    made = _attend(call, (query, key, value), bias, causal=causal, scale=_scale(call))
    call.answer(_as_tokens(call, made) if flat else made, key, value)


def _after_past(call: OnnxCall, value: str, position: int) -> str:
    if call.given(position) is None:
        return value
    return call.add("concat", (call.live(position), value), axis=2)


def _rotary(positions: int, cosines: int, sines: int) -> Rule:
    """Halves of each head turned by angles that depend on the position: (x·cos - y·sin, x·sin + y·cos)."""

    def rotate(call: OnnxCall) -> None:
        flat = len(call.shape(0)) == 3
        heads = call.get("num_heads", 0)
        if call.get("interleaved", 0) or call.get("rotary_embedding_dim", 0) or (flat and not heads):
            call.unknown("of interleaved or partial heads", call.shape(0))
            return
        value = _as_heads(call, call.live(0), heads)
        width = call.state.shape(value)[-1]
        cosine, sine = (_angles(call, place, positions) for place in (cosines, sines))
        x, y = (call.cut(value, [(3, start, start + width // 2, 1)]) for start in (0, width // 2))
        first = call.add("sub", (call.add("mul", (x, cosine)), call.add("mul", (y, sine))))
        second = call.add("add", (call.add("mul", (x, sine)), call.add("mul", (y, cosine))))
        made = call.add("concat", (first, second), axis=3)
        call.answer(_as_tokens(call, made) if flat else made)

    return rotate


def _angles(call: OnnxCall, table: int, positions: int) -> str:
    """The table's rows of the positions, as (N, 1, tokens, half a head)."""
    if call.given(positions) is None:
        value = call.live(table)
    else:
        value = call.add("gather", (call.live(table), call.live(positions)), axis=0)
    batch, tokens, width = call.state.shape(value)
    return call.add("reshape", (value,), shape=(batch, 1, tokens, width))


# --- ONNX Runtime


def _fused_attention(call: OnnxCall) -> None:
    """Input, one matrix for queries, keys and values, their biases, mask, past, and what is added to the scores."""
    kernel = call.constant(1)
    if kernel is None or len(kernel.shape) != 2 or call.is_computed(2):
        call.unknown("with a computed kernel or bias")
    else:
        packed_attention(call, kernel, call.constant(2), mask=3, past=4, added=5)


def packed_attention(
    call: OnnxCall, kernel: Constant, bias: Constant | None, *, mask: int, past: int, added: int
) -> None:
    if call.given(past) is not None or call.get("do_rotary", 0):
        call.unknown("that remembers or rotates")
        return
    sizes = call.integers("qkv_hidden_sizes") or [kernel.shape[1] // 3] * 3
    heads = call.get("num_heads", 1)
    parts = []
    start = 0
    for size in sizes:
        parameters = call.learned_layer(_columns(kernel, start, size), _rows(bias, start, size))
        projected = call.add("dense", (call.live(0),), parameters=parameters)
        parts.append(_as_heads(call, projected, heads))
        start += size
    biases = _biases(call, mask, added)
    causal = bool(call.get("unidirectional", 0))
    call.answer(_as_tokens(call, _attend(call, parts, biases, causal=causal, scale=_scale(call))))


def _columns(kernel: Constant, start: int, size: int) -> Constant:
    """A part of the columns of a matrix (in, out) as a dense kernel (out, in)."""

    def load() -> Array:
        return kernel.load()[:, start : start + size].T

    return Constant((size, kernel.shape[0]), kernel.dtype, f"{kernel.key}[{start}:{start + size}]", load)


def _rows(bias: Constant | None, start: int, size: int) -> Constant | None:
    if bias is None:
        return None
    return Constant(
        (size,), bias.dtype, f"{bias.key}[{start}:{start + size}]", lambda: bias.load()[start : start + size]
    )


def _biases(call: OnnxCall, mask: int, added: int) -> list[str]:
    """What is added to the scores: a bias by position, and a large negative number for tokens that are masked."""
    biases = []
    if call.given(mask) is not None:
        shape = call.shape(mask)
        if len(shape) == 1:
            kept = call.add("unknown", (call.live(mask),), shape=(1, 1, 1, 1), source_op="mask by length", macs=0)
        else:
            kept = call.add("reshape", (call.live(mask),), shape=(shape[0], *(1,) * (4 - len(shape)), *shape[1:]))
        hidden = call.add("sub", (call.add("cast", (kept,)),), scalar=1.0, reverse=True)
        biases.append(call.add("mul", (hidden,), scalar=call.get("mask_filter_value", _MASKED)))
    if call.given(added) is not None:
        biases.append(call.live(added))
    return [call.add("add", biases)] if len(biases) > 1 else biases


def _multi_head(call: OnnxCall) -> None:
    """Queries, keys, values, their biases, mask of keys, what is added to the scores, past keys and values."""
    if call.given(1) is None or call.given(2) is None or call.given(6) is not None or len(call.outputs) > 1:
        call.unknown("that is packed or remembers", call.shape(0))
        return
    heads = call.get("num_heads", 1)
    bias = call.constant(3)
    start = 0
    if call.given(3) is not None and (bias is None or any(len(call.shape(place)) != 3 for place in range(3))):
        call.unknown("with a computed bias, or one of values by heads", call.shape(0))
        return
    parts = []
    for place in range(3):
        value = call.live(place)
        size = call.state.shape(value)[-1]
        part = _rows(bias, start, size)
        if part is not None:
            shift = (call.state.parameter("shift", part),)
            value = call.add("affine", (value,), parameters=shift, axis=2)
        parts.append(_as_heads(call, value, heads))
        start += size
    biases = _biases(call, 4, 5)
    causal = bool(call.get("unidirectional", 0))
    call.answer(_as_tokens(call, _attend(call, parts, biases, causal=causal, scale=_scale(call))))


def _embeddings(call: OnnxCall) -> None:
    """Tokens, segments, their tables and that of positions, a norm, mask, positions; also answers with the sum."""
    words, places, segments = (call.constant(position) for position in (2, 3, 4))
    learned = learned_parameters(call, scale=5, shift=6)
    if words is None or places is None or learned is None or (segments is None and call.given(1) is not None):
        call.unknown("with computed tables")
        return
    value = _looked_up(call, words, 0)
    if call.given(8) is not None:
        place = _looked_up(call, places, 8)
    else:
        tokens = call.shape(0)[1]
        place = call.cut(call.state.materialised(places), [(0, 0, tokens, 1)])
        place = call.add("reshape", (place,), shape=(1, tokens, places.shape[1]))
    total = call.add("add", (value, place))
    if segments is not None and call.given(1) is not None:
        total = call.add("add", (total, _looked_up(call, segments, 1)))
    normed = call.add("layer_norm", (total,), parameters=learned, axes=(2,), epsilon=call.get("epsilon", 1e-12))
    mask = call.add("unknown", (), shape=(1,), source_op=f"{call.kind} (length of the mask)", macs=0)
    call.answer(normed, mask, total)


def _looked_up(call: OnnxCall, table: Constant, position: int) -> str:
    parameters = (call.state.parameter("table", table),)
    return call.add("embedding", (call.live(position),), parameters=parameters)


ATTENTION: Final[dict[str, Rule]] = {"Attention": _attention, "RotaryEmbedding": _rotary(3, 1, 2)}
FUSED_ATTENTION: Final[dict[str, Rule]] = {
    "Attention": _fused_attention,
    "MultiHeadAttention": _multi_head,
    "RotaryEmbedding": _rotary(1, 2, 3),
    "EmbedLayerNormalization": _embeddings,
}
