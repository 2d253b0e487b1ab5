"""Why two aligned layers differ by themselves. What only follows from an upstream difference is not a finding.

A map that is larger because a stride sits later, or an input that is wider because the layer before has more
kernels, is a consequence: it costs, and `cost_shares` books the cost where it comes from, but it is not listed again.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np

from zoolens.findings.graph.diff import settings
from zoolens.findings.graph.diff.alignment import LayerPair
from zoolens.findings.graph.diff.similarity import channels
from zoolens.findings.graph.ir.mask_values import mask_words
from zoolens.findings.graph.ir.model import Graph, Node
from zoolens.findings.graph.ir.recurrent_gates import added_to
from zoolens.findings.graph.ir.rotary_tables import RATES, ROTARY, rate_words, same_rates
from zoolens.findings.graph.ir.vocabulary import ACTIVATIONS, FIXED, NORMS, POOLS, WINDOWED
from zoolens.findings.graph.outline.blocks import LEARNED, BlockLayer, is_depthwise, resolution

INPUT_SIZE: Final = "input size"
INPUT_CHANNELS: Final = "input channels"
PREPROCESSING: Final = "preprocessing inside the network"
STRIDE_PLACEMENT: Final = "stride placement"
STRIDE: Final = "stride"
KERNEL: Final = "kernel"
WIDTH: Final = "width"
DEPTH: Final = "depth"
SHORTCUT: Final = "shortcut"
GROUPS: Final = "groups"
DILATION: Final = "dilation"
PADDING: Final = "padding"
BIAS: Final = "bias"
NORM: Final = "norm"
NORM_PARAMETERS: Final = "norm parameters"
EPSILON: Final = "norm epsilon"
NORM_PLACEMENT: Final = "norm placement"
ACTIVATION: Final = "activation"
POOLING: Final = "pooling"
LRN: Final = "local response normalisation"
GATE: Final = "squeeze-and-excitation"
HEAD: Final = "head"
OUTPUT: Final = "output activation"
CLASSES: Final = "classes"
FLATTEN: Final = "flatten order"
CONSTANT: Final = "constant"
SETTING: Final = "setting"  # of a layer, which then computes something else: heads, axes, a mode
TABLE: Final = "learned table"  # added, multiplied or put beside what is computed: position embedding, class token
OPERATOR: Final = "operator"
WIRING: Final = "wiring"
ORDER: Final = "block order"
SHARING: Final = "shared weights"
CONNECTIONS: Final = "connections"
AUXILIARY: Final = "further outputs"

_NO_MASK: Final = "numbers that are no mask"
_ROUNDED: Final = 0.1  # by how much extents may miss a ratio because they are whole numbers

# Causes that leave the number of multiply-accumulates alone and every layer in its place.
CONSTANTS: Final = frozenset(
    {EPSILON, PADDING, BIAS, NORM_PARAMETERS, CONSTANT, FLATTEN, OUTPUT, PREPROCESSING, WIRING}
)


@dataclass(frozen=True)
class LayerFinding:
    """One difference at one place. Findings with the same cause and group become one difference.

    `aspect` is the factor of the pair's cost that it explains: spatial, kernel, width, groups, bias, norm; or whole,
    for a layer without a partner.
    """

    cause: str
    row: int
    pair: LayerPair
    aspect: str
    values: tuple[Any, Any]
    group: Hashable = ()


@dataclass(frozen=True)
class PairContext:
    """What a comparison of two layers needs to know about where they are."""

    a: Graph
    b: Graph
    last_learned: frozenset[str]  # names of the last learned layer of each side
    row: int

    @property
    def grown(self) -> float:
        """How many times as many pixels b takes in as a; 1 where both take images of one size."""
        size_a = input_resolution(self.a)
        size_b = input_resolution(self.b)
        if size_a and size_a != size_b:
            return prod(size_b) / prod(size_a)
        return 1.0

    def same_inputs(self, a: Node, b: Node) -> bool:
        """Whether both layers are given values of the same shapes."""
        shapes_a = [self.a.by_name[name].shape for name in a.inputs]
        shapes_b = [self.b.by_name[name].shape for name in b.inputs]
        return shapes_a == shapes_b

    def extents(self, pair: LayerPair) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Resolution of what each side's layer works on."""
        return _given_resolution(pair.a, self.a), _given_resolution(pair.b, self.b)


def input_resolution(graph: Graph) -> tuple[int, ...]:
    """The size of the images that a network takes in; empty where it takes no maps."""
    return resolution(graph.inputs[0].shape) if graph.inputs else ()


def _given_resolution(layer: BlockLayer | None, graph: Graph) -> tuple[int, ...]:
    if layer is None or not layer.node.inputs:
        return ()
    return resolution(graph.by_name[layer.node.inputs[0]].shape)


def own_findings(pair: LayerPair, context: PairContext) -> Iterator[LayerFinding]:
    """What two aligned layers differ in by themselves; strides are left to `strides`."""
    assert pair.a is not None
    assert pair.b is not None
    a = pair.a.node
    b = pair.b.node
    for cause, aspect, values, group in _differences(pair, pair.a, pair.b, a, b, context):
        yield LayerFinding(cause, context.row, pair, aspect, values, group)


Raw = tuple[str, str, tuple[Any, Any], Hashable]


def _differences(
    pair: LayerPair, layer_a: BlockLayer, layer_b: BlockLayer, a: Node, b: Node, context: PairContext
) -> Iterator[Raw]:
    if a.op == "input":
        yield from _inputs(a, b)
    if a.op == b.op == "parameter" and channels(a) != channels(b) and prod(a.shape) != prod(b.shape):
        yield _other_table(channels(a), channels(b), context)
    differ = a.op != b.op or settings.operator(a) != settings.operator(b)
    if differ and not (settings.is_pointwise(a) and settings.is_pointwise(b)):
        yield _substitution(a, b)
    if a.op in LEARNED and b.op in LEARNED:
        yield from _learned(layer_a, a, b, context)
    if a.op == b.op == "recurrent_layer":
        yield from _gates(layer_a, a, b)
    if a.op in WINDOWED and b.op in WINDOWED:
        yield from _windows(pair, layer_a, a, b, context)
    if a.op in NORMS and a.op == b.op:
        yield from _norms(a, b, "")
    if a.op == b.op:
        yield from _choices(a, b, context)
    if a.op == b.op and a.op in FIXED and a.shape == b.shape:
        yield from _fixed_numbers(a, b)
    if a.op == "flatten" and a.get("order") != b.get("order"):
        yield FLATTEN, "", (a.get("order"), b.get("order")), ()


def _other_table(entries_a: int, entries_b: int, context: PairContext) -> Raw:
    ratio = entries_b / entries_a
    has_entry_for_every_place = context.grown != 1 and abs(ratio / context.grown - 1) < _ROUNDED
    if has_entry_for_every_place:
        return INPUT_SIZE, "width", (entries_a, entries_b), ()
    return WIDTH, "width", (entries_a, entries_b), ("", "parameter", 1, round(ratio, 4))


def _fixed_numbers(a: Node, b: Node) -> Iterator[Raw]:
    masks = (_mask(a), _mask(b)) if a.get("mask") or b.get("mask") else (None, None)
    numbers: dict[str, tuple[Any, Any]] = {"value": (a.get("value"), b.get("value")), "mask": masks}
    for name, values in numbers.items():
        if None not in values and not settings.equal(*values):
            cause = SETTING if name == "mask" else CONSTANT  # what a token sees is no detail
            yield cause, "", values, (a.op, name, *map(str, values))
    kinds, rates = (tuple(node.get(name) for node in (a, b)) for name in (ROTARY, RATES))
    if None in rates:
        return  # `rotary_gaps` says so
    if kinds[0] != kinds[1]:
        yield SETTING, "", kinds, (a.op, ROTARY, *kinds)
    elif not same_rates(*rates):
        words = rate_words(rates[0]), rate_words(rates[1])
        yield SETTING, "", words, (a.op, RATES, *words)


def _mask(node: Node) -> str | None:
    """Which places a mask hides; of numbers that are shown, whether they are one. None where no numbers are known."""
    shown = node.get("value")
    if node.get("mask") is not None:
        return str(node.get("mask"))
    if shown is None:
        return None
    values = np.asarray(shown)
    return (mask_words(values) or _NO_MASK) if values.dtype.kind in "bf" and values.ndim > 1 else None


def _inputs(a: Node, b: Node) -> Iterator[Raw]:
    size_a = resolution(a.shape)
    size_b = resolution(b.shape)
    if size_a != size_b:
        yield INPUT_SIZE, "spatial", (size_a, size_b), ()
    if channels(a) != channels(b) and len(a.shape) == len(b.shape) == 4:
        yield INPUT_CHANNELS, "width", (channels(a), channels(b)), ()


def _substitution(a: Node, b: Node) -> Raw:
    ops = (a.op, b.op)
    if "unknown" in ops or "parameter" in ops:
        named = settings.operator(a), settings.operator(b)
        return OPERATOR, "bias" if "parameter" in ops else "", named, named
    width = "width" if channels(a) != channels(b) else ""
    if a.op in ACTIVATIONS:
        return ACTIVATION, width, ops, ops
    if a.op in POOLS:
        return POOLING, width, ops, ops
    if a.op in NORMS:
        return NORM, "norm", ops, ops
    return OPERATOR, width, ops, ops


def _learned(layer: BlockLayer, a: Node, b: Node, context: PairContext) -> Iterator[Raw]:
    if {a.name, b.name} <= context.last_learned and channels(a) != channels(b):
        yield CLASSES, "width", (channels(a), channels(b)), ()
    elif channels(a) != channels(b) and not _follows_width(a, b, context):
        ratio = round(channels(b) / channels(a), 4)
        yield WIDTH, "width", (channels(a), channels(b)), (layer.path, layer.kind, layer.index, ratio)
    if not (is_depthwise(a) and is_depthwise(b)) and settings.groups(a) != settings.groups(b):
        values = (settings.groups(a), settings.groups(b))
        yield GROUPS, "groups", values, values
    biased = (a.parameter("bias") is not None, b.parameter("bias") is not None)
    if biased[0] != biased[1]:
        yield BIAS, "bias", biased, (layer.kind, biased)
    if settings.normed(a) != settings.normed(b):
        values_ = (settings.normed(a), settings.normed(b))
        yield NORM, "norm", values_, values_
    elif settings.normed(a):
        yield from _norms(a, b, "norm_")


def _gates(layer: BlockLayer, a: Node, b: Node) -> Iterator[Raw]:
    """The width of the states, and the gates that have a bias; two biases that add up are one."""
    hidden_a = a.get("hidden")
    hidden_b = b.get("hidden")
    if hidden_a != hidden_b:
        ratio = round(hidden_b / hidden_a, 4)
        yield WIDTH, "width", (hidden_a, hidden_b), (layer.path, layer.kind, layer.index, ratio)
    biased_a = _biases(a)
    biased_b = _biases(b)
    same_cell = all(a.get(setting) == b.get(setting) for setting in ("kind", "reset_first"))
    if same_cell and biased_a != biased_b:
        has = (bool(biased_a - biased_b), bool(biased_b - biased_a))
        yield BIAS, "bias", has, (layer.kind, has)


def _biases(node: Node) -> set[str]:
    roles = [tensor.role for tensor in node.parameters if tensor.role.endswith("bias")]
    first = bool(node.get("reset_first"))
    return {added_to(role, str(node.get("kind")), reset_first=first) or role for role in roles}


def _follows_width(a: Node, b: Node, context: PairContext) -> bool:
    """A depthwise convolution has as many channels as it is given; so has what scales channels in a gate."""
    if is_depthwise(a) and is_depthwise(b):
        return True
    return _scales_channels(a, context.a) and _scales_channels(b, context.b)


def _scales_channels(node: Node, graph: Graph) -> bool:
    user = graph.sole_consumer(node.name)
    while user is not None and (user.op in ACTIVATIONS or user.op in ("reshape", "expand")):
        user = graph.sole_consumer(user.name)
    return user is not None and user.op == "mul" and len(user.inputs) > 1


def _norms(a: Node, b: Node, prefix: str) -> Iterator[Raw]:
    epsilon_a = a.get("epsilon")
    epsilon_b = b.get("epsilon")
    if epsilon_a is not None and epsilon_b is not None and not settings.equal(epsilon_a, epsilon_b):
        yield EPSILON, "", (epsilon_a, epsilon_b), (f"{epsilon_a:.4g}", f"{epsilon_b:.4g}")
    for role in ("scale", "shift"):
        has = (a.parameter(prefix + role) is not None, b.parameter(prefix + role) is not None)
        if has[0] != has[1]:
            yield NORM_PARAMETERS, "norm", (role, has), (role, has)


def _windows(pair: LayerPair, layer: BlockLayer, a: Node, b: Node, context: PairContext) -> Iterator[Raw]:
    kernel_a = settings.kernel(a)
    kernel_b = settings.kernel(b)
    if kernel_a != kernel_b:
        yield KERNEL, "kernel", (kernel_a, kernel_b), (layer.path, layer.kind, layer.index, kernel_a, kernel_b)
    spread = (settings.dilation(a), settings.dilation(b))
    if spread[0] != spread[1]:
        yield DILATION, "spatial", spread, spread
    if kernel_a == kernel_b and spread[0] == spread[1] and settings.stride(a) == settings.stride(b):
        yield from _padding(pair, a, b, context)
    added = (settings.output_pads(a), settings.output_pads(b))
    if added[0] != added[1] and a.op == b.op and context.same_inputs(a, b):
        yield SETTING, "", added, (a.op, "output_pads", *added)


def _padding(pair: LayerPair, a: Node, b: Node, context: PairContext) -> Iterator[Raw]:
    pads_a = settings.pads(a)
    pads_b = settings.pads(b)
    extents = context.extents(pair)
    if pads_a != pads_b and extents[0] != extents[1] and _follows_extents(a, b, extents):
        if context.grown != 1:
            yield INPUT_SIZE, "spatial", (pads_a, pads_b), ()
    elif pads_a != pads_b:
        yield PADDING, "spatial", (pads_a, pads_b), (a.op, settings.kernel(a), settings.stride(a), pads_a, pads_b)
    if a.op == "avg_pool" and b.op == "avg_pool" and (any(pads_a) or any(pads_b)):
        counted = (bool(a.get("count_pad")), bool(b.get("count_pad")))
        if counted[0] != counted[1]:
            yield CONSTANT, "", counted, (a.op, "count_pad", counted)


def _follows_extents(a: Node, b: Node, extents: tuple[tuple[int, ...], tuple[int, ...]]) -> bool:
    """Whether one padding rule (SAME, "ceil", or up to a multiple of a window) explains the pads of both sides on maps
    of different extents."""
    both = list(zip((a, b), extents, strict=True))
    if all(settings.pads(node) == settings.same_padding(node, given) for node, given in both):
        return True
    if set(settings.kernel(a)) == {1}:  # nothing is gained by padding a 1×1 but a number of places
        return _begins(a) == _begins(b)
    symmetric = (*_begins(a), *_begins(a))
    smaller = (*_begins(a), *map(min, _ends(a), _ends(b)))
    for base in (symmetric, smaller):
        if all(settings.pads(node) == settings.ceil_padding(node, given, base) for node, given in both):
            return True
    return False


def _begins(node: Node) -> tuple[int, ...]:
    return settings.pads(node)[: len(settings.kernel(node))]


def _ends(node: Node) -> tuple[int, ...]:
    return settings.pads(node)[len(settings.kernel(node)) :]


def _choices(a: Node, b: Node, context: PairContext) -> Iterator[Raw]:
    choices = settings.CHOICES.get(a.op, {})
    if context.same_inputs(a, b):
        choices = {**choices, **settings.PLACES.get(a.op, {})}
    for name, default in choices.items():
        value_a = a.get(name, default)
        value_b = b.get(name, default)
        if settings.equal(value_a, value_b):
            continue
        cause = CONSTANT if settings.is_constant(name, value_a, value_b) else SETTING
        if a.op == "lrn":
            cause = LRN
        yield cause, "", (value_a, value_b), (a.op, name, str(value_a), str(value_b))
