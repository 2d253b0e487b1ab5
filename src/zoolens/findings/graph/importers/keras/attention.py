"""What Keras' attention is made of: products by einsum, with and without a learned kernel, and attention as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod, sqrt
from typing import Any, Final

from zoolens.findings.graph.importers.einsum import Einsum, spelled_out
from zoolens.findings.graph.importers.keras.keras_activations import activate
from zoolens.findings.graph.importers.keras.walk import KerasCall, KerasWalk, Ref, scalar_of
from zoolens.findings.graph.ir.model import Array, Shape

_HEADS_FIRST: Final = (0, 2, 1, 3)  # of (N, tokens, heads, width)


def _einsum_of(walk: KerasWalk, call: KerasCall) -> Einsum:
    def add(op: str, inputs: Sequence[str], shape: Shape, **attributes: Any) -> str:
        return walk.add(op, call, inputs=list(inputs), shape=shape, **attributes)

    return Einsum(add, walk.shape)


def einsum(walk: KerasWalk, call: KerasCall) -> str:
    spelled = spelled_out(str(call.target.subscripts), [len(walk.shape(value)) for value in call.values])
    if spelled is None or len(call.values) > 2:
        return walk.unknown(call)
    terms, wanted = spelled
    lowered = _einsum_of(walk, call)
    if len(terms) == 1:
        return lowered.one(call.value, terms[0], wanted)
    return lowered.two(call.values, terms[0], terms[1], wanted)


def einsum_dense(walk: KerasWalk, call: KerasCall) -> str:
    """A dense layer over several axes: those that are summed are one axis before it, those it makes one behind it."""
    layer = call.target
    shape = walk.shape(call.value)
    spelled = spelled_out(layer.equation, (len(shape), len(layer.kernel.shape)))
    if spelled is None:
        return walk.unknown(call)
    (given, kernel), wanted = spelled
    summed = "".join(letter for letter in given if letter in kernel and letter not in wanted)
    free = "".join(letter for letter in given if letter not in summed)
    made = "".join(letter for letter in kernel if letter not in summed)
    if set(made) & set(free) or set(free + made) != set(wanted) or len(free + made) != len(wanted):
        return walk.unknown(call)
    extents = {**dict(zip(given, shape, strict=True)), **dict(zip(kernel, map(int, layer.kernel.shape), strict=True))}
    lowered = _einsum_of(walk, call)
    turned = lowered.turned(call.value, given, free + summed)
    outer = tuple(extents[letter] for letter in free)
    width = prod(extents[letter] for letter in summed)
    fed = lowered.shaped(turned, (*outer, width))
    count = prod(extents[letter] for letter in made)
    order = [kernel.index(letter) for letter in made + summed]

    def arranged(values: Array) -> Array:
        return values.transpose(order).reshape(count, width)

    parameters = [walk.parameter("kernel", layer.kernel, arranged)]
    whole = layer.bias is not None and prod(map(int, layer.bias.shape)) == count
    if whole:
        parameters.append(walk.parameter("bias", layer.bias, lambda values: values.reshape(-1)))
    value = walk.add("dense", call, inputs=[fed], shape=(*outer, count), parameters=parameters)
    value = lowered.shaped(value, (*outer, *(extents[letter] for letter in made)))
    value = lowered.turned(value, free + made, wanted)
    if layer.bias is not None and not whole:
        bias = walk.learned_value(layer.bias, call.source)
        value = walk.add("add", call, inputs=[value, bias], shape=walk.shape(value))
    return activate(walk, call, value, layer.activation)


def dot_product_attention(walk: KerasWalk, call: KerasCall) -> str:
    """Attention of (N, tokens, heads, width); heads come first in the vocabulary."""
    values = [call.argument(place, name) for place, name in enumerate(("query", "key", "value"))]
    if not all(isinstance(value, Ref) for value in values) or getattr(call.target, "attn_logits_soft_cap", None):
        return walk.unknown(call)
    turned = [_heads_first(walk, call, value.name) for value in values]
    turned[1:] = [_repeated(walk, call, value, walk.shape(turned[0])[1]) for value in turned[1:]]
    extras = [call.argument(place, name) for place, name in ((3, "bias"), (4, "mask"))]
    given = [extra.name for extra in extras if isinstance(extra, Ref)]
    if len(given) > 1:
        return walk.unknown(call)
    query = walk.shape(turned[0])
    value = walk.shape(turned[2])
    scale = scalar_of(call.argument(5, "scale"))
    made = walk.add(
        "attention", call, inputs=[*turned, *given], shape=(*query[:3], value[3]), heads=query[1],
        scale=1 / sqrt(query[3]) if scale is None else scale, causal=bool(call.target.is_causal) or None,
    )  # fmt: skip
    return _heads_first(walk, call, made)


def _heads_first(walk: KerasWalk, call: KerasCall, value: str) -> str:
    """Heads and tokens change places."""
    shape = walk.shape(value)
    turned = tuple(shape[axis] for axis in _HEADS_FIRST)
    return walk.add("transpose", call, inputs=[value], shape=turned, perm=_HEADS_FIRST)


def _repeated(walk: KerasWalk, call: KerasCall, value: str, heads: int) -> str:
    """Heads of keys and values that several heads of queries share, once for each."""
    count, given, *rest = walk.shape(value)
    if given == heads:
        return value
    value = walk.add("reshape", call, inputs=[value], shape=(count, given, 1, *rest))
    value = walk.add("expand", call, inputs=[value], shape=(count, given, heads // given, *rest))
    return walk.add("reshape", call, inputs=[value], shape=(count, heads, *rest))
