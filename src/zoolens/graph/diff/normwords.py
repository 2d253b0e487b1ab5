"""Norms and biases that differ, in words."""

from __future__ import annotations

from zoolens.graph.diff import settings
from zoolens.graph.diff.align import Alignment
from zoolens.graph.diff.findings import Difference
from zoolens.graph.diff.phrases import Names, at, number, op_of, owner, values_of


def bias(difference: Difference, alignment: Alignment, names: Names) -> str:
    side = 0 if values_of(difference)[0] else 1
    nodes = [(one.pair.a, one.pair.b)[side] for one in difference.findings]
    total = sum(bias.size for layer in nodes if layer and (bias := layer.node.parameter("bias")))
    kind = difference.findings[0].pair.a.kind if difference.findings[0].pair.a else "layer"
    count = len(difference.findings)
    after = all(layer is not None and settings.normed(layer.node) for layer in nodes)
    void = "; a norm follows each, so they add nothing" if after else ""
    return f"{total:,} extra {kind} biases in {names[side]} ({count} layer{'s' if count > 1 else ''}{void})"


def norm(difference: Difference, alignment: Alignment, names: Names) -> str:
    values = values_of(difference)
    if difference.findings[0].aspect == "whole":
        op = op_of(difference.findings[0]).replace("_", " ")
        return at(difference, alignment, f"{len(difference.findings)} more {op} in {owner(difference, names)}")
    one, two = (_norm_word(value) for value in values)
    return at(difference, alignment, f"{two} in {names[1]}, {one} in {names[0]}")


def norm_parameters(difference: Difference, alignment: Alignment, names: Names) -> str:
    if difference.findings[0].aspect == "whole":
        count = len(difference.findings)
        return f"a further scale and shift after {count} norms in {owner(difference, names)}, which adds nothing"
    role, has = values_of(difference)
    letter = {"scale": "scale (gamma)", "shift": "shift (beta)"}[role]
    return f"{len(difference.findings)} norms without a learned {letter} in {names[0] if has[1] else names[1]}"


def _norm_word(value: str) -> str:
    words = {"": "no norm", "batch": "batch norm", "affine": "a norm folded to scale and shift"}
    return words.get(value, value.replace("_", " "))


def epsilon(difference: Difference, alignment: Alignment, names: Names) -> str:
    one, two = values_of(difference)
    node = difference.findings[0].pair.a.node if difference.findings[0].pair.a else None
    what = "BN" if node is None or node.op in ("conv", "dense", "batch_norm") else node.op.replace("_", " ")
    count = f"{len(difference.findings)} norm{'s' if len(difference.findings) > 1 else ''}"
    return f"{what} epsilon {number(two)} in {names[1]} vs {number(one)} in {names[0]} ({count})"


def norm_placement(difference: Difference, alignment: Alignment, names: Names) -> str:
    merged = next((one for one in difference.findings if one.aspect == "norm"), difference.findings[0])
    before, after = (names[1], names[0]) if merged.values[0] else (names[0], names[1])
    return f"norms and activations come before the convolutions in {before} (pre-activation), after them in {after}"
