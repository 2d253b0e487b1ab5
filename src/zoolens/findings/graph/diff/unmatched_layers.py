"""Why a layer has no partner: an extra block, an extra layer, a norm elsewhere, a gate, a final softmax."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping

from zoolens.findings.graph.diff import diff_causes, settings
from zoolens.findings.graph.diff.alignment import Alignment, LayerPair
from zoolens.findings.graph.diff.diff_causes import LayerFinding
from zoolens.findings.graph.diff.similarity import joins_values
from zoolens.findings.graph.ir.model import Node
from zoolens.findings.graph.ir.vocabulary import ACTIVATIONS, NORMS, POOLS
from zoolens.findings.graph.outline.blocks import LEARNED, Block, BlockLayer, resolution
from zoolens.findings.graph.outline.stages import SCALING

ARRANGEMENT = frozenset(
    {"reshape", "transpose", "slice", "gather", "expand", "flatten", "output_of", "tile", "roll", "constant"}
)

Reason = tuple[str, Hashable]


def absent_findings(alignment: Alignment) -> Iterator[LayerFinding]:
    """For every layer that has no partner."""
    resized = any(_is_resized(pair) for pair in alignment.pairs)
    for side in (0, 1):
        reasons: dict[str, Reason] = _by_size(alignment, side) if resized else {}
        nodes = {layer.node.name: layer.node for pair in alignment.pairs if (layer := (pair.a, pair.b)[side])}
        redundant = {node.name for node in nodes.values() if _is_redundant(node, nodes)}
        for number, row in enumerate(alignment.rows):
            block = (row.a, row.b)[side]
            alone = [pair for pair in row.pairs if (pair.a, pair.b)[1 - side] is None]
            if block is not None and alone:
                whole = (row.a, row.b)[1 - side] is None
                yield from _of_row(block, alone, number, reasons, redundant, whole=whole)


def _of_row(
    block: Block, alone: list[LayerPair], number: int, reasons: dict[str, Reason], redundant: set[str], *, whole: bool
) -> Iterator[LayerFinding]:
    gates = _gate_members(block, {pair.either.node.name for pair in alone})
    opened = not whole and any(_closes_shortcut(pair.either) for pair in alone)
    for pair in alone:
        node = pair.either.node
        follows = node.op in ACTIVATIONS or node.op in NORMS
        inherited = reasons.get(node.inputs[0]) if follows and node.inputs else reasons.get(node.name)
        if node.name in redundant and not inherited:
            inherited = diff_causes.NORM_PARAMETERS, "affine"
        if opened and pair.either.path == "shortcut":
            inherited = diff_causes.SHORTCUT, ()
        cause, group = inherited or _reason(block, pair.either, whole=whole, gate=node.name in gates)
        if node.op in LEARNED or inherited or cause == diff_causes.GATE:
            reasons[node.name] = cause, group
        values = (pair.a is not None, pair.b is not None)
        shared = cause in (diff_causes.WIRING, diff_causes.INPUT_SIZE)
        yield LayerFinding(cause, number, pair, "whole", values, () if shared else (values, group))


def _is_resized(pair: LayerPair) -> bool:
    """Whether this is the input, of another image size."""
    if pair.a is None or pair.b is None or pair.a.node.op != "input":
        return False
    return resolution(pair.a.node.shape) != resolution(pair.b.node.shape)


def _by_size(alignment: Alignment, side: int) -> dict[str, Reason]:
    """Layers that only the image size calls for: pads up to a multiple of a window, and pools down to a fixed size."""
    reasons: dict[str, Reason] = {}
    partners = alignment.reverse if side else alignment.partner
    for pair in alignment.pairs:
        layer, other = (pair.a, pair.b) if side == 0 else (pair.b, pair.a)
        if layer is None or other is not None or not layer.node.inputs:
            continue
        node = layer.node
        partner = partners.get(node.inputs[0])
        fitted = partner is not None and resolution(partner.shape) == resolution(node.shape)
        if node.op == "pad" or (node.op in POOLS and node.op != "max_pool" and fitted):
            reasons[node.name] = diff_causes.INPUT_SIZE, ()
    return reasons


def _is_redundant(node: Node, nodes: Mapping[str, Node]) -> bool:
    """A learned scale and shift right after a norm that has its own (Caffe writes batch norm so)."""
    if node.op != "affine" or not node.inputs:
        return False
    before = nodes.get(node.inputs[0])
    return before is not None and (before.op == "batch_norm" or settings.normed(before) == "batch")


def _reason(block: Block, layer: BlockLayer, *, whole: bool, gate: bool) -> Reason:
    node = layer.node
    if block.stage == "auxiliary":
        return diff_causes.AUXILIARY, ()
    if block.stage == "input":
        scales = node.op in SCALING
        return (diff_causes.PREPROCESSING, ()) if scales else (diff_causes.OPERATOR, settings.operator(node))
    if whole and _holds_table_only(block):
        return diff_causes.TABLE, (block.output.op, block.stage)
    if whole and not block.plain and block.kind != "gate":
        return diff_causes.DEPTH, ("block", block.kind, block.stage)
    if gate:
        return diff_causes.GATE, ()
    if node.op in ("softmax", "log_softmax", "sigmoid") and block.stage == "head":
        return diff_causes.OUTPUT, node.op
    if node.op in POOLS:
        return diff_causes.POOLING, (node.op, layer.path == "shortcut", block.stage if block.stage == "head" else "")
    if node.op in ("add", "concat", "mul"):
        if _closes_shortcut(layer):
            return (diff_causes.SHORTCUT, ())
        return (diff_causes.OPERATOR, (node.op, node.get("scalar")))
    return _by_op(block, layer)


def _holds_table_only(block: Block) -> bool:
    """Whether all that a block does is to join a learned table to what comes in."""
    ops = [layer.node.op for layer in block.layers]
    joins = [layer.node for layer in block.layers if joins_values(layer.node)]
    rest = {*ops} - ARRANGEMENT - {"parameter"} - {node.op for node in joins}
    return "parameter" in ops and len(joins) == 1 and not rest


def _closes_shortcut(layer: BlockLayer) -> bool:
    """Whether it adds a second value to the main path; a number that is added is none."""
    return layer.node.op == "add" and layer.path == "" and len(layer.node.inputs) > 1


def _by_op(block: Block, layer: BlockLayer) -> Reason:
    node = layer.node
    if node.op in LEARNED:
        if block.stage == "head":
            return diff_causes.HEAD, node.op
        if layer.path == "shortcut":
            return diff_causes.SHORTCUT, "conv"
        return diff_causes.DEPTH, ("layer", node.op, settings.kernel(node), layer.path)
    if node.op == "parameter":
        return diff_causes.TABLE, ("alone", node.shape)
    if node.op == "constant" and node.parameters and _is_computed_with(node, block):
        return diff_causes.OPERATOR, settings.operator(node)
    if node.op in ACTIVATIONS:
        return diff_causes.ACTIVATION, node.op
    if node.op in NORMS:
        return diff_causes.NORM, node.op
    if node.op == "lrn":
        return diff_causes.LRN, ()
    if node.op in ARRANGEMENT:
        return (diff_causes.WIRING, ())
    return (diff_causes.OPERATOR, settings.operator(node))


def _is_computed_with(constant: Node, block: Block) -> bool:
    """Whether a constant is a mask, a term or a factor; others only say where values go."""
    users = [layer.node for layer in block.layers if constant.name in layer.node.inputs]
    return any(user.op not in ARRANGEMENT for user in users)


def _gate_members(block: Block, alone: set[str]) -> set[str]:
    """Partnerless layers between a global pool and a multiplication of one block."""
    layers = [layer.node for layer in block.layers if layer.node.name in alone]
    below: set[str] = set()
    for node in layers:
        if node.op in ("global_avg_pool", "mean") or any(name in below for name in node.inputs):
            below.add(node.name)
    above: set[str] = set()
    for node in reversed(layers):
        if (node.op == "mul" and node.name in below) or node.name in above:
            above.add(node.name)
            above.update(name for name in node.inputs if name in below)
    return above & below
