"""Differences in definition: layers and their settings.

Which layer of one side stands for which of the other is found by `graph.diff`, at a size where every map has
more than one place; what the layers are is read from the facts at the size the networks are trained on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from zoolens.findings.graph.diff import diff_causes
from zoolens.findings.graph.diff.cost_shares import INTERPLAY
from zoolens.findings.graph.diff.diff_findings import Difference
from zoolens.findings.graph.diff.phrases import pad_words, plural, window
from zoolens.findings.graph.diff.report import Diff
from zoolens.training.crosstrain.training.diff.recipe_findings import Finding, Item, Same, compared, named, tallied
from zoolens.training.crosstrain.training.diff.recipe_layers import TITLES, WEIGHTED, WINDOWS, title_of
from zoolens.training.pairs.reading.side_facts import LayerFact, PaddingFact, SideFacts

Pair = tuple[LayerFact | None, LayerFact | None]

# Told here from the facts, or only a consequence of another arrangement of axes.
_TOLD: Final = frozenset(
    {
        diff_causes.EPSILON,
        diff_causes.BIAS,
        diff_causes.PADDING,
        diff_causes.STRIDE_PLACEMENT,
        diff_causes.OUTPUT,
        diff_causes.HEAD,
        diff_causes.FLATTEN,
        diff_causes.WIRING,
        INTERPLAY,
    }
)


_FEW_RATES: Final = 3


def aligned(diff: Diff, a: SideFacts, b: SideFacts) -> list[Pair]:
    """Weighted layers and windows beside each other; those without a partner beside None."""
    sides = [{layer.name: layer for layer in facts.layers if layer.op in WINDOWS | {*WEIGHTED}} for facts in (a, b)]
    pairs: list[Pair] = []
    for pair in diff.alignment.pairs:
        first = sides[0].pop(pair.a.node.source, None) if pair.a else None
        second = sides[1].pop(pair.b.node.source, None) if pair.b else None
        if first is not None or second is not None:
            pairs.append((first, second))
    return [*pairs, *((side, None) for side in sides[0].values()), *((None, second) for second in sides[1].values())]


def counts(a: SideFacts, b: SideFacts) -> Iterator[Finding]:
    counters = [Counter(map(title_of, facts.layers)) for facts in (a, b)]
    for title in dict.fromkeys(TITLES.values()):
        if counters[0][title] or counters[1][title]:
            few = [named([layer.name for layer in facts.layers if title_of(layer) == title]) for facts in (a, b)]
            evidence = f"only {few[0] or few[1]}" if not all(few) else ""
            numbers = (str(counters[0][title]), str(counters[1][title]))
            yield compared("layers", f"number of {title}", *numbers, evidence=evidence)


def others(diff: Diff) -> Iterator[Finding]:
    """What the graphs differ in beyond the settings that have a section of their own."""
    for difference in diff.differences:
        if difference.cause not in _TOLD:
            sides = [named(_sources(difference, side)) or "nothing" for side in (0, 1)]
            yield Item(
                "layers", f"{difference.cause}: {difference.text}", sides[0], sides[1], layers=_affected(difference)
            )


def _sources(difference: Difference, side: int) -> list[str]:
    layers = [(finding.pair.a, finding.pair.b)[side] for finding in difference.findings]
    return list(dict.fromkeys(layer.node.source or layer.node.name for layer in layers if layer))


def _affected(difference: Difference) -> int:
    return max(len(_sources(difference, side)) for side in (0, 1))


def biases(a: SideFacts, b: SideFacts, diff: Diff) -> Iterator[Finding]:
    for op in WEIGHTED:
        sides = [[layer for layer in facts.layers if layer.op == op] for facts in (a, b)]
        if not all(sides):
            continue
        with_bias = [[layer for layer in side if "bias" in layer.learned] for side in sides]
        texts = [_bias_text(some, len(side)) for some, side in zip(with_bias, sides, strict=True)]
        extra = sum(len(side) for side in with_bias) - 2 * min(len(side) for side in with_bias)
        yield compared("bias", f"{TITLES[op]} with a bias", *texts, evidence=_void(diff, op), layers=extra)


def _bias_text(layers: list[LayerFact], total: int) -> str:
    if not layers:
        return f"none of {total}"
    return f"{len(layers)} of {total}, {sum(layer.learned['bias'] for layer in layers):,} parameters"


def _void(diff: Diff, op: str) -> str:
    """Biases that only one side has, and a norm takes out again."""
    both = [(pair.a.node, pair.b.node) for pair in diff.alignment.pairs if pair.a and pair.b and pair.a.node.op == op]
    nodes = [a if a.parameter("bias") else b for a, b in both if bool(a.parameter("bias")) != bool(b.parameter("bias"))]
    void = sum(bool(node.get("norm")) for node in nodes)
    return f"after {void} of the {len(nodes)} a batch norm follows, which subtracts the bias again" if void else ""


def dropouts(a: SideFacts, b: SideFacts) -> Iterator[Finding]:
    sides = [[layer for layer in facts.layers if layer.op == "dropout"] for facts in (a, b)]
    rates = [[_rate(layer) for layer in side if layer.rate is not None] for side in sides]
    texts = [f"{plural(len(rate), 'layer')}, {_rates(rate)}" if rate else "none" for rate in rates]
    where = "; ".join(named([layer.name for layer in side]) for side in sides if side)
    yield compared("dropout", "dropout layers", *texts, evidence=where, layers=max(map(len, sides)))


def _rate(layer: LayerFact) -> str:
    return f"{layer.rate:g} ({layer.units})" if layer.units else f"{layer.rate:g}"


def _rates(rates: list[str]) -> str:
    """Each rate with its count, or only the ends of many, as of branches that are dropped more often with depth."""
    if len(set(rates)) <= _FEW_RATES:
        return f"rate {tallied(rates)}"
    ends = sorted(rates, key=lambda text: float(text.split()[0]))
    return f"rates from {ends[0]} to {ends[-1]}"


def strides(diff: Diff) -> Iterator[Finding]:
    moved = [difference for difference in diff.differences if difference.cause == diff_causes.STRIDE_PLACEMENT]
    for difference in moved:
        yield Item(
            "stride",
            "where blocks stride",
            _striding(difference, 0),
            _striding(difference, 1),
            difference.text,
            _affected(difference),
        )
    if not moved:
        striding = sum(max(node.get("stride", (1,))) > 1 for node in diff.a if node.op in WINDOWS)
        yield Same("stride", "where strided layers stand", plural(striding, "layer"))


def _striding(difference: Difference, side: int) -> str:
    layers = [(finding.pair.a, finding.pair.b)[side] for finding in difference.findings]
    nodes = [layer.node for layer in layers if layer and max(layer.node.get("stride", (1,))) > 1]
    windows = tallied(window(node.get("kernel", ())) for node in nodes)
    return f"on the {windows} ({named([node.source for node in nodes])})"


def paddings(pairs: list[Pair], a: SideFacts, b: SideFacts) -> Iterator[Finding]:
    both = [
        (left, right) for left, right in pairs if left and right and left.op in WINDOWS and left.kernel == right.kernel
    ]
    groups: dict[tuple[object, ...], list[tuple[LayerFact, LayerFact]]] = {}
    for left, right in both:
        if left.pads != right.pads and left.stride == right.stride:
            groups.setdefault((left.op, left.kernel, left.stride, left.pads, right.pads), []).append((left, right))
    for members in groups.values():
        left, right = members[0]
        what = f"padding of {window(left.kernel)} {TITLES[left.op]} with stride {left.stride[0]}"
        where = named([f"{first.name} | {second.name}" for first, second in members])
        yield Item("padding", what, pad_words(left.pads), pad_words(right.pads), where, len(members))
    equal = len(both) - sum(map(len, groups.values()))
    if equal:
        yield Same("padding", "padding of single layers", plural(equal, "layer"))
    if a.padding is None or b.padding is None:
        return
    affected = sum(map(len, groups.values()))
    here = f"{affected} aligned layers" if affected else "no two aligned layers of these networks"
    yield compared(
        "padding",
        "what a padded 3×3 layer with stride 2 reads beyond an even map",
        _rule(a.padding),
        _rule(b.padding),
        evidence=f"measured on a live layer of each; {here} differ in padding",
        layers=affected,
    )


def _rule(rule: PaddingFact) -> str:
    sides = [name for name, rows in (("top and left", rule.before), ("bottom and right", rule.after)) if rows]
    return f"{' and '.join(sides) or 'nothing'} ({rule.asked})"
