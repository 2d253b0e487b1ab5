"""Each difference as one sentence for an engineer: the only place where findings of a diff become words.

A and B stand for the names of the two sides throughout.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Final

from zoolens.base.phrases import first_few
from zoolens.findings.graph.diff import diff_causes, settings
from zoolens.findings.graph.diff.alignment import Alignment
from zoolens.findings.graph.diff.cost_shares import INTERPLAY
from zoolens.findings.graph.diff.diff_causes import LayerFinding
from zoolens.findings.graph.diff.diff_findings import Difference
from zoolens.findings.graph.diff.phrases import norm_word, number, pad_words, plural, pool_word, window
from zoolens.findings.graph.diff.place_names import blocks_of, where
from zoolens.findings.graph.diff.similarity import joins_values
from zoolens.findings.graph.diff.stride_sentences import on_shortcut, stride_placement
from zoolens.findings.graph.ir.model import Node
from zoolens.findings.graph.ir.rotary_tables import RATES, ROTARY

Names = tuple[str, str]
Say = Callable[[Difference, Alignment, Names], str]

PAIR: Final = 2
SHOWN_SHARING: Final = 3
_UNSAID: Final = {("gelu", "approximate"): "exact", ("attention", "scale"): "1/√width"}  # what an absent one means

_INTERPLAY: Final = {  # by the number of other differences
    0: "cost that no difference of a layer explains",
    1: "cost that follows from the other difference",
}
_GIVEN: Final = {"mask": "a mask", "state": "a first state", "cell": "a first cell"}  # beside the sequence


def sentence(difference: Difference, alignment: Alignment, names: Names, count: int) -> str:
    """`count`: how many differences there are, this one included."""
    if difference.cause == INTERPLAY:
        return _INTERPLAY.get(count - 1, "cost that follows from several of these together")
    return _SAY.get(difference.cause, _operator)(difference, alignment, names)


# --- what sentences are made of


def _instead(pair: tuple[Any, Any], names: Names, unit: str = "") -> str:
    of_a, of_b = pair
    name_a, name_b = names
    return f"{of_b}{unit} in {name_b} instead of {of_a} in {name_a}"


def _beside(pair: tuple[Any, Any], names: Names, unit: str = "") -> str:
    of_a, of_b = pair
    name_a, name_b = names
    return f"{of_b}{unit} in {name_b}, {of_a}{unit} in {name_a}"


def _owner(difference: Difference, names: Names) -> str:
    """Names the side that has the layers which the other lacks."""
    return names[0] if difference.findings[0].pair.a else names[1]


def _other(difference: Difference, names: Names) -> str:
    return names[1] if difference.findings[0].pair.a else names[0]


def _node(finding: LayerFinding) -> Node:
    return finding.pair.either.node


def _op(finding: LayerFinding) -> str:
    return _node(finding).op.replace("_", " ")


def _is_whole(difference: Difference) -> bool:
    """Whether layers are there on one side only."""
    return difference.findings[0].aspect == "whole"


def _values(
    words: str,
    read: Callable[[Any], object] = str,
    unit: str = "",
    *,
    join: Callable[[tuple[Any, Any], Names, str], str] = _instead,
    placed: bool = True,
) -> Say:
    """A sentence that names the place and both values, each as `read` reads it."""

    def say(difference: Difference, alignment: Alignment, names: Names) -> str:
        value_a, value_b = map(read, difference.findings[0].values)
        text = f"{words}{join((value_a, value_b), names, unit)}"
        return f"{where(difference.findings, alignment)}: {text}" if placed else text

    return say


# --- sizes of layers


def _width(difference: Difference, alignment: Alignment, names: Names) -> str:
    pairs = list(dict.fromkeys(finding.values for finding in difference.findings))
    first = difference.findings[0].pair.a
    unit = "kernels" if first and first.kind == "conv" else "features"
    place = where(difference.findings, alignment)
    if len(pairs) == 1:
        width_a, width_b = pairs[0]
        return f"{place}: {width_b:,} {unit} in {names[1]} instead of {width_a:,} in {names[0]}"
    width_a, width_b = (", ".join(f"{pair[side]:,}" for pair in pairs[:4]) for side in (0, 1))
    ratio = pairs[0][1] / pairs[0][0]
    return f"{place}: {ratio:.3g} × as many {unit} in {names[1]} ({width_b} instead of {width_a} in {names[0]})"


def _extents(value: Any) -> Any:
    return window(value) if isinstance(value, tuple) else value


# --- layers that one side lacks


def _depth(difference: Difference, alignment: Alignment, names: Names) -> str:
    first = difference.findings[0]
    row = alignment.rows[first.row]
    side = _owner(difference, names)
    block = row.a or row.b
    if (row.a is None or row.b is None) and block is not None and not block.plain:
        kind = f"{block.kind} block" if block.kind != "transition" else "transition"
        blocks = len({finding.row for finding in difference.findings})
        return f"{_stage_words(block.stage)}: {plural(blocks, f'more {kind}')} in {side}"
    learned = [finding for finding in difference.findings if _node(finding).parameter("kernel")]
    layers = learned or list(difference.findings)
    node = _node(layers[0])
    kernel = f"{window(settings.kernel(node))} " if node.op == "conv" else ""
    what = f"{kernel}{'dense layer' if node.op == 'dense' else node.op}"
    return f"{where(layers, alignment)}: {plural(len(layers), f'more {what}')} in {side}"


def _table(difference: Difference, alignment: Alignment, names: Names) -> str:
    nodes = [_node(finding) for finding in difference.findings]
    table = next(node for node in nodes if node.op == "parameter")
    join = next((node.op for node in nodes if joins_values(node)), "")
    rows = prod(table.shape[:-1])
    if join == "add" and rows > 1:
        what = "position embedding"
    elif join == "concat" and rows == 1:
        what = "class token"
    else:
        what = "learned numbers"
    block = alignment.rows[difference.findings[0].row].a or alignment.rows[difference.findings[0].row].b
    place = f"{_stage_words(block.stage)}: " if block else ""
    return f"{place}{what} ({window(table.shape)}) only in {_owner(difference, names)}"


def _stage_words(stage: str) -> str:
    return stage if stage.startswith("stage") else f"the {stage}"


def _head(difference: Difference, alignment: Alignment, names: Names) -> str:
    layers = [finding for finding in difference.findings if _node(finding).parameter("kernel")]
    what = plural(len(layers), f"more {_node(difference.findings[0]).op} layer")
    return f"{where(layers, alignment)}: {what} in {_owner(difference, names)}"


def _gate(difference: Difference, alignment: Alignment, names: Names) -> str:
    rows = len({finding.row for finding in difference.findings})
    return f"squeeze-and-excitation in {plural(rows, 'block')} only in {_owner(difference, names)}"


def _output(difference: Difference, alignment: Alignment, names: Names) -> str:
    final = _op(difference.findings[0])
    return f"a final {final} in {_owner(difference, names)}, raw scores in {_other(difference, names)}"


def _auxiliary(difference: Difference, alignment: Alignment, names: Names) -> str:
    return f"further outputs in {_owner(difference, names)} ({len(difference.findings)} layers)"


def _preprocessing(difference: Difference, alignment: Alignment, names: Names) -> str:
    steps = ", ".join(map(_op, difference.findings))
    return f"preprocessing inside the network in {_owner(difference, names)} (right after the input: {steps})"


def _shortcut(difference: Difference, alignment: Alignment, names: Names) -> str:
    ops = [_node(finding).op for finding in difference.findings]
    if "add" not in ops:
        place = where(difference.findings, alignment)
        return f"{place}: a convolution on the shortcut only in {_owner(difference, names)}"
    done = "removed" if difference.findings[0].pair.a else "added"
    convs = ops.count("conv")
    along = f" (with {plural(convs, 'convolution')} on it)" if convs else ""
    return f"{blocks_of(difference.findings, alignment)}: shortcut {done} in {names[1]}{along}"


def _activation(difference: Difference, alignment: Alignment, names: Names) -> str:
    place = where(difference.findings, alignment)
    first = difference.findings[0]
    if _is_whole(difference):
        return f"{place}: {_node(first).op} only in {_owner(difference, names)}"
    return f"{place}: {_beside(first.values, names)}"


def _pooling(difference: Difference, alignment: Alignment, names: Names) -> str:
    place = where(difference.findings, alignment)
    first = difference.findings[0]
    if not _is_whole(difference):
        pool_a, pool_b = map(pool_word, first.values)
        return f"{place}: {_beside((pool_a, pool_b), names)}"
    on = " on the shortcut" if on_shortcut(first) else ""
    place = place.split(" of ", 1)[1] if on and " of " in place else place
    pool = pool_word(_node(first).op)
    return f"{place}: {pool}{on} in {_owner(difference, names)}, none in {_other(difference, names)}"


def _operator(difference: Difference, alignment: Alignment, names: Names) -> str:
    place = where(difference.findings, alignment)
    first = difference.findings[0]
    if _is_whole(difference):
        amount = f" {number(scalar)}" if (scalar := _node(first).get("scalar")) is not None else ""
        return f"{place}: {settings.operator(_node(first))}{amount} only in {_owner(difference, names)}"
    return f"{place}: {_instead(first.values, names)}"


# --- order and arrangement


def _flatten(difference: Difference, alignment: Alignment, names: Names) -> str:
    order_a, order_b = (order or "NCHW" for order in difference.findings[0].values)
    return f"maps are flattened in the order {_instead((order_a, order_b), names)}: the weights after it are permuted"


def _order(difference: Difference, alignment: Alignment, names: Names) -> str:
    if len(difference.findings) == PAIR:
        return f"{blocks_of(difference.findings, alignment, exact=True)}: swapped in {names[1]}"
    return f"{blocks_of(difference.findings, alignment)}: in another order in {names[1]}"


def _sharing(difference: Difference, alignment: Alignment, names: Names) -> str:
    side = 0 if difference.findings[0].values[0] else 1
    layers: dict[str, dict[str, str]] = {}  # by the first layer that has the tensor, the others by node
    for finding in difference.findings:
        layer = (finding.pair.a, finding.pair.b)[side]
        if layer is not None:
            users = layers.setdefault(finding.values[side], {})
            users[layer.node.name] = layer.node.source or layer.node.name
    shared = [_shared_between(first, list(users.values())) for first, users in layers.items()]
    between = first_few(shared, SHOWN_SHARING, between="; ")
    return f"weights are shared in {names[side]} between {between}, and separate in {names[1 - side]}"


def _shared_between(first: str, users: Sequence[str]) -> str:
    """The layers that share a tensor; a layer that is called again is one layer."""
    others = [user for user in users if user != first]
    calls = len(users) - len(others) + 1
    return " and ".join([f"the {calls} calls of {first}" if calls > 1 else first, *others])


def _connections(difference: Difference, alignment: Alignment, names: Names) -> str:
    first = difference.findings[0]
    return f"{where(difference.findings, alignment)}: {_op(first)} takes other values in {names[1]} than in {names[0]}"


def _sides(finding: LayerFinding) -> int:
    """0: only a has it, 1: only b, 2: both."""
    if finding.pair.a is None:
        return 1
    return 2 if finding.pair.b is not None else 0


def _wiring(difference: Difference, alignment: Alignment, names: Names) -> str:
    counts = Counter((_sides(finding), _op(finding)) for finding in difference.findings)
    where_ = (f"only in {names[0]}", f"only in {names[1]}", "of another order")
    parts = [f"{count} {op} {where_[side]}" for (side, op), count in sorted(counts.items())]
    return f"values are arranged otherwise, which costs nothing: {', '.join(parts)}"


# --- norms, biases and constants


def _bias(difference: Difference, alignment: Alignment, names: Names) -> str:
    side = 0 if difference.findings[0].values[0] else 1
    layers = [(finding.pair.a, finding.pair.b)[side] for finding in difference.findings]
    biases = [tensor for layer in layers if layer for tensor in layer.node.parameters if tensor.role.endswith("bias")]
    total = sum(bias.size for bias in biases)
    first = difference.findings[0].pair.a
    after = all(layer is not None and settings.normed(layer.node) for layer in layers)
    void = "; a norm follows each, so they add nothing" if after else ""
    count = plural(len(layers), "layer")
    kind = first.kind.replace("_", " ") if first else "layer"
    return f"{total:,} extra {kind} biases in {names[side]} ({count}{void})"


def _norm(difference: Difference, alignment: Alignment, names: Names) -> str:
    place = where(difference.findings, alignment)
    first = difference.findings[0]
    if _is_whole(difference):
        return f"{place}: {len(difference.findings)} more {_op(first)} in {_owner(difference, names)}"
    norm_a, norm_b = map(norm_word, first.values)
    return f"{place}: {_beside((norm_a, norm_b), names)}"


def _norm_parameters(difference: Difference, alignment: Alignment, names: Names) -> str:
    count = len(difference.findings)
    if _is_whole(difference):
        return f"a further scale and shift after {count} norms in {_owner(difference, names)}, which adds nothing"
    role, has = difference.findings[0].values
    letter = {"scale": "scale (gamma)", "shift": "shift (beta)"}[role]
    return f"{count} norms without a learned {letter} in {names[0] if has[1] else names[1]}"


def _epsilon(difference: Difference, alignment: Alignment, names: Names) -> str:
    epsilon_a, epsilon_b = map(number, difference.findings[0].values)
    layer = difference.findings[0].pair.a
    merged = layer is None or layer.node.op in ("conv", "dense", "batch_norm")
    what = "BN" if layer is None or merged else layer.node.op.replace("_", " ")
    count = plural(len(difference.findings), "norm")
    return f"{what} epsilon {epsilon_b} in {names[1]} vs {epsilon_a} in {names[0]} ({count})"


def _norm_placement(difference: Difference, alignment: Alignment, names: Names) -> str:
    merged = next((finding for finding in difference.findings if finding.aspect == "norm"), difference.findings[0])
    before, after = (names[1], names[0]) if merged.values[0] else (names[0], names[1])
    return f"norms and activations come before the convolutions in {before} (pre-activation), after them in {after}"


def _lrn(difference: Difference, alignment: Alignment, names: Names) -> str:
    if not _is_whole(difference):
        return _constant(difference, alignment, names)
    count = len(difference.findings)
    return f"no local response normalisation in {_other(difference, names)} ({count} in {_owner(difference, names)})"


def _constant(difference: Difference, alignment: Alignment, names: Names) -> str:
    place = where(difference.findings, alignment)
    first = difference.findings[0]
    name = str(first.group[1]) if isinstance(first.group, tuple) else "setting"
    if name == "count_pad":
        return f"{place}: padding counts in the average only in {names[0] if first.values[0] else names[1]}"
    if name == "pad_value":
        value_a, value_b = ("−∞" if value is None else f"{value:g}" for value in first.values)
        return f"{place}: max-pool padded with {_instead((value_a, value_b), names)}"
    if name == ROTARY:
        return f"{place}: rotary positions take {_instead(first.values, names)}"
    if name == RATES:
        if first.values[0] == first.values[1]:
            return f"{place}: rotary positions turn by other rates in {names[1]} than in {names[0]}"
        return f"{place}: rotary positions turn by {_instead(first.values, names)}"
    op = _op(first)
    if name == "value":
        return f"{place}: other numbers in {names[1]} than in {names[0]}"
    value_a, value_b = (_setting(op, name, value) for value in first.values)
    return f"{place}: {op} {name.replace('_', ' ')} {_instead((value_a, value_b), names)}"


def _setting(op: str, name: str, value: Any) -> str:
    if value is None:
        return _UNSAID.get((op, name), "none")
    if (op, name) == ("recurrent layer", "given"):
        return " and ".join(_GIVEN[each] for each in value) or "nothing"
    return number(value) if isinstance(value, float) else str(value)


_SAY: Final[dict[str, Say]] = {
    diff_causes.INPUT_SIZE: _values("input ", window, placed=False),
    diff_causes.INPUT_CHANNELS: _values("input channels: ", _extents),
    diff_causes.PREPROCESSING: _preprocessing,
    diff_causes.STRIDE_PLACEMENT: stride_placement,
    diff_causes.STRIDE: _values("stride ", max),
    diff_causes.KERNEL: _values("a ", window, " window"),
    diff_causes.WIDTH: _width,
    diff_causes.DEPTH: _depth,
    diff_causes.SHORTCUT: _shortcut,
    diff_causes.ORDER: _order,
    diff_causes.SHARING: _sharing,
    diff_causes.GROUPS: _values("", lambda count: f"{count} groups" if count > 1 else "no groups", join=_beside),
    diff_causes.DILATION: _values("dilation ", _extents),
    diff_causes.PADDING: _values("", pad_words, join=_beside),
    diff_causes.BIAS: _bias,
    diff_causes.NORM: _norm,
    diff_causes.EPSILON: _epsilon,
    diff_causes.NORM_PARAMETERS: _norm_parameters,
    diff_causes.WIRING: _wiring,
    diff_causes.CONNECTIONS: _connections,
    diff_causes.NORM_PLACEMENT: _norm_placement,
    diff_causes.ACTIVATION: _activation,
    diff_causes.POOLING: _pooling,
    diff_causes.LRN: _lrn,
    diff_causes.GATE: _gate,
    diff_causes.HEAD: _head,
    diff_causes.OUTPUT: _output,
    diff_causes.CLASSES: _values("", "{:,}".format, " classes", placed=False),
    diff_causes.FLATTEN: _flatten,
    diff_causes.CONSTANT: _constant,
    diff_causes.SETTING: _constant,
    diff_causes.TABLE: _table,
    diff_causes.AUXILIARY: _auxiliary,
}
