"""Each difference as one sentence for an engineer. Two names stand for the two sides throughout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from zoolens.graph.diff import causes, settings
from zoolens.graph.diff.align import Alignment
from zoolens.graph.diff.findings import Difference
from zoolens.graph.diff.normwords import bias, epsilon, norm, norm_parameters, norm_placement
from zoolens.graph.diff.phrases import (
    Names,
    all_values,
    at,
    instead,
    node_of,
    number,
    op_of,
    other,
    owner,
    pad_words,
    pool_word,
    values_of,
    window,
)
from zoolens.graph.diff.places import blocks_of, where
from zoolens.graph.diff.shares import INTERPLAY
from zoolens.graph.diff.stridewords import placement

PAIR: Final = 2
_UNSAID: Final = {("gelu", "approximate"): "exact", ("attention", "scale"): "1/√width"}  # what an absent one means


def sentence(difference: Difference, alignment: Alignment, names: Names) -> str:
    if difference.cause == INTERPLAY:
        return "cost that follows from several of these together"
    return _SAY.get(difference.cause, _generic)(difference, alignment, names)


def _input_size(difference: Difference, alignment: Alignment, names: Names) -> str:
    one, two = map(window, values_of(difference))
    return f"input {instead(one, two, names)}"


def _width(difference: Difference, alignment: Alignment, names: Names) -> str:
    values = all_values(difference)
    unit = "kernels" if difference.findings[0].pair.a and difference.findings[0].pair.a.kind == "conv" else "features"
    if len(values) == 1:
        one, two = values[0]
        return at(difference, alignment, f"{two:,} {unit} in {names[1]} instead of {one:,} in {names[0]}")
    one, two = ", ".join(f"{v:,}" for v, _ in values[:4]), ", ".join(f"{v:,}" for _, v in values[:4])
    ratio = values[0][1] / values[0][0]
    return at(
        difference, alignment, f"{ratio:.3g} × as many {unit} in {names[1]} ({two} instead of {one} in {names[0]})"
    )


def _classes(difference: Difference, alignment: Alignment, names: Names) -> str:
    one, two = values_of(difference)
    return f"{two:,} classes in {names[1]} instead of {one:,} in {names[0]}"


def _kernel(difference: Difference, alignment: Alignment, names: Names) -> str:
    one, two = map(window, values_of(difference))
    return at(difference, alignment, f"a {two} window in {names[1]} instead of {one} in {names[0]}")


def _stride(difference: Difference, alignment: Alignment, names: Names) -> str:
    one, two = (max(value) for value in values_of(difference))
    return at(difference, alignment, f"stride {instead(one, two, names)}")


def _plain_values(word: str) -> Callable[[Difference, Alignment, Names], str]:
    def say(difference: Difference, alignment: Alignment, names: Names) -> str:
        one, two = (window(value) if isinstance(value, tuple) else value for value in values_of(difference))
        return at(difference, alignment, f"{word} {instead(one, two, names)}")

    return say


def _groups(difference: Difference, alignment: Alignment, names: Names) -> str:
    one, two = (f"{value} groups" if value > 1 else "no groups" for value in values_of(difference))
    return at(difference, alignment, f"{two} in {names[1]}, {one} in {names[0]}")


def _padding(difference: Difference, alignment: Alignment, names: Names) -> str:
    one, two = (pad_words(value) for value in values_of(difference))
    return at(difference, alignment, f"{two} in {names[1]}, {one} in {names[0]}")


def _activation(difference: Difference, alignment: Alignment, names: Names) -> str:
    if difference.findings[0].aspect == "whole":
        return at(difference, alignment, f"{op_of(difference.findings[0])} only in {owner(difference, names)}")
    one, two = values_of(difference)
    return at(difference, alignment, f"{two} in {names[1]}, {one} in {names[0]}")


def _pooling(difference: Difference, alignment: Alignment, names: Names) -> str:
    first = difference.findings[0]
    if first.aspect != "whole":
        one, two = first.values
        return at(difference, alignment, f"{pool_word(two)} in {names[1]}, {pool_word(one)} in {names[0]}")
    layer = first.pair.a or first.pair.b
    on = " on the shortcut" if layer and layer.path == "shortcut" else ""
    place = where(difference.findings, alignment)
    place = place.split(" of ", 1)[1] if on and " of " in place else place
    return f"{place}: {pool_word(op_of(first))}{on} in {owner(difference, names)}, none in {other(difference, names)}"


def _depth(difference: Difference, alignment: Alignment, names: Names) -> str:
    first = difference.findings[0]
    row = alignment.rows[first.row]
    side = owner(difference, names)
    block = row.a or row.b
    if (row.a is None or row.b is None) and block is not None and not block.plain:
        count = len({one.row for one in difference.findings})
        kind = f"{block.kind} block" if block.kind != "transition" else "transition"
        place = block.stage if block.stage.startswith("stage") else f"the {block.stage}"
        return f"{place}: {count} more {kind}{'s' if count > 1 else ''} in {side}"
    layers = [one for one in difference.findings if node_of(one).parameter("kernel")] or list(difference.findings)
    node = node_of(layers[0])
    what = (
        f"{window(settings.kernel(node))} conv"
        if node.op == "conv"
        else "dense layer"
        if node.op == "dense"
        else node.op
    )
    count = len(layers)
    return f"{where(layers, alignment)}: {count} more {what}{'s' if count > 1 else ''} in {side}"


def _lrn(difference: Difference, alignment: Alignment, names: Names) -> str:
    if difference.findings[0].aspect == "whole":
        count = len(difference.findings)
        return f"no local response normalisation in {other(difference, names)} ({count} in {owner(difference, names)})"
    return _constant(difference, alignment, names)


def _gate(difference: Difference, alignment: Alignment, names: Names) -> str:
    rows = len({one.row for one in difference.findings})
    return f"squeeze-and-excitation in {rows} block{'s' if rows > 1 else ''} only in {owner(difference, names)}"


def _head(difference: Difference, alignment: Alignment, names: Names) -> str:
    layers = [one for one in difference.findings if node_of(one).parameter("kernel")]
    what = f"{len(layers)} more {op_of(difference.findings[0])} layer{'s' if len(layers) > 1 else ''}"
    return f"{where(layers, alignment)}: {what} in {owner(difference, names)}"


def _output(difference: Difference, alignment: Alignment, names: Names) -> str:
    final = op_of(difference.findings[0]).replace("_", " ")
    return f"a final {final} in {owner(difference, names)}, raw scores in {other(difference, names)}"


def _shortcut(difference: Difference, alignment: Alignment, names: Names) -> str:
    ops = [op_of(one) for one in difference.findings]
    if "add" not in ops:
        return at(difference, alignment, f"a convolution on the shortcut only in {owner(difference, names)}")
    done = "removed" if difference.findings[0].pair.a else "added"
    convs = ops.count("conv")
    along = f" (with {convs} convolution{'s' if convs > 1 else ''} on it)" if convs else ""
    return f"{blocks_of(difference.findings, alignment)}: shortcut {done} in {names[1]}{along}"


def _order(difference: Difference, alignment: Alignment, names: Names) -> str:
    if len(difference.findings) == PAIR:
        return f"{blocks_of(difference.findings, alignment, exact=True)}: swapped in {names[1]}"
    return f"{blocks_of(difference.findings, alignment)}: in another order in {names[1]}"


def _preprocessing(difference: Difference, alignment: Alignment, names: Names) -> str:
    steps = ", ".join(op_of(one).replace("_", " ") for one in difference.findings)
    return f"preprocessing inside the network in {owner(difference, names)} (right after the input: {steps})"


def _flatten(difference: Difference, alignment: Alignment, names: Names) -> str:
    one, two = (value or "NCHW" for value in values_of(difference))
    return f"maps are flattened in the order {instead(one, two, names)}: the weights after it are permuted"


def _constant(difference: Difference, alignment: Alignment, names: Names) -> str:
    group = difference.findings[0].group
    if isinstance(group, tuple) and group[1] == "count_pad":
        counts = names[0] if values_of(difference)[0] else names[1]
        return at(difference, alignment, f"padding counts in the average only in {counts}")
    if isinstance(group, tuple) and group[1] == "pad_value":
        one, two = ("−∞" if value is None else f"{value:g}" for value in values_of(difference))
        return at(difference, alignment, f"max-pool padded with {instead(one, two, names)}")
    name = str(group[1]) if isinstance(group, tuple) else "setting"
    op = op_of(difference.findings[0]).replace("_", " ")
    one, two = (_setting(op, name, value) for value in values_of(difference))
    return at(difference, alignment, f"{op} {name.replace('_', ' ')} {instead(one, two, names)}")


def _setting(op: str, name: str, value: Any) -> str:
    if value is None:
        return _UNSAID.get((op, name), "none")
    return number(value) if isinstance(value, float) else str(value)


def _auxiliary(difference: Difference, alignment: Alignment, names: Names) -> str:
    return f"further outputs in {owner(difference, names)} ({len(difference.findings)} layers)"


def _wiring(difference: Difference, alignment: Alignment, names: Names) -> str:
    counts = Counter((0 if one.pair.a else 1, op_of(one)) for one in difference.findings)
    parts = [f"{count} {op.replace('_', ' ')} only in {names[side]}" for (side, op), count in sorted(counts.items())]
    return f"values are arranged otherwise, which costs nothing: {', '.join(parts)}"


def _generic(difference: Difference, alignment: Alignment, names: Names) -> str:
    if difference.findings[0].aspect == "whole":
        what = settings.operator(node_of(difference.findings[0]))
        return at(difference, alignment, f"{what} only in {owner(difference, names)}")
    one, two = values_of(difference)
    return at(difference, alignment, f"{instead(one, two, names)}")


_SAY: Final[dict[str, Callable[[Difference, Alignment, Names], str]]] = {
    causes.INPUT_SIZE: _input_size,
    causes.INPUT_CHANNELS: _plain_values("input channels:"),
    causes.PREPROCESSING: _preprocessing,
    causes.STRIDE_PLACEMENT: placement,
    causes.STRIDE: _stride,
    causes.KERNEL: _kernel,
    causes.WIDTH: _width,
    causes.DEPTH: _depth,
    causes.SHORTCUT: _shortcut,
    causes.ORDER: _order,
    causes.GROUPS: _groups,
    causes.DILATION: _plain_values("dilation"),
    causes.PADDING: _padding,
    causes.BIAS: bias,
    causes.NORM: norm,
    causes.EPSILON: epsilon,
    causes.NORM_PARAMETERS: norm_parameters,
    causes.WIRING: _wiring,
    causes.NORM_PLACEMENT: norm_placement,
    causes.ACTIVATION: _activation,
    causes.POOLING: _pooling,
    causes.LRN: _lrn,
    causes.GATE: _gate,
    causes.HEAD: _head,
    causes.OUTPUT: _output,
    causes.CLASSES: _classes,
    causes.FLATTEN: _flatten,
    causes.CONSTANT: _constant,
    causes.AUXILIARY: _auxiliary,
}
