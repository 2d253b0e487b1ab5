"""Tables of rotary positions and masks of attention whose numbers nobody knows here: two networks may differ in them.

The base of the positions, and what a token sees, are in these numbers alone. Where they are not known, neither
agreement nor a difference is proved by what stands in their place.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import Final

from zoolens.base.verdicts import Gap
from zoolens.findings.graph.diff.diff_causes import SETTING, LayerFinding
from zoolens.findings.graph.diff.diff_findings import Difference
from zoolens.findings.graph.ir.mask_values import LONGER_TEXTS
from zoolens.findings.graph.ir.model import Graph, Node
from zoolens.findings.graph.ir.rotary_tables import RATES
from zoolens.findings.graph.ir.vocabulary import FIXED, VIEWS

_UNLEARNED: Final = frozenset({"constant"})
_ARRANGING: Final = VIEWS | {"concat", "neg"}
_REMEDY: Final = "`zoolens diverge` runs both on the same inputs and compares their layers."


def unknown_numbers(a: Graph, b: Graph, names: tuple[str, str]) -> tuple[Gap, ...]:
    """What is not known of rotary positions and masks, and how much of all of them that is."""
    tables = (gap for graph, name in zip((a, b), names, strict=True) for gap in _unknown_tables(graph, name))
    return (*tables, *unknown_masks(a, b, names), *_longer_texts(a, b, names))


def unknown_masks(a: Graph, b: Graph, names: tuple[str, str]) -> tuple[Gap, ...]:
    """The part of this that the graphs themselves must say: stored values do not tell masks from learned tables."""
    return tuple(gap for graph, name in zip((a, b), names, strict=True) for gap in _masks_without_numbers(graph, name))


def _longer_texts(a: Graph, b: Graph, names: tuple[str, str]) -> Iterator[Gap]:
    """Settings that a text of this length does not show, where the two sides do not have the same."""
    told = [str(graph.facts.get(LONGER_TEXTS) or "") for graph in (a, b)]
    if told[0] != told[1]:
        for words, name in zip(told, names, strict=True):
            if words:
                yield Gap(f"what longer texts show ({words}) in {name}", 1)


def _unknown_tables(graph: Graph, name: str) -> Iterator[Gap]:
    tables = _tables(graph, _fixed(graph, FIXED))
    rateless = [node for node in tables.values() if node.get(RATES) is None]
    if rateless:
        yield Gap(
            f"the numbers of {len(rateless):,} of {len(tables):,} tables of rotary positions in {name}", 1, _REMEDY
        )


def _masks_without_numbers(graph: Graph, name: str) -> Iterator[Gap]:
    """Biases that are computed from learned tables are no masks: tables are compared as weights."""
    fixed = _fixed(graph, _UNLEARNED)
    masks = {each.inputs[3] for each in graph if each.op == "attention" and len(each.inputs) == 4}
    unknown = [mask for mask in masks if mask in fixed and not _says_numbers(_root(mask, graph))]
    if unknown:
        yield Gap(f"the numbers of {len(unknown):,} of {len(masks):,} masks of attention in {name}", 1, _REMEDY)


def _says_numbers(root: Node) -> bool:
    return root.op in _UNLEARNED and (root.get("mask") is not None or root.get("value") is not None)


def beside_unknown_numbers(
    found: Sequence[Difference], open_: Sequence[Difference], a: Graph, b: Graph
) -> tuple[list[Difference], list[Difference]]:
    """Return proved and open differences: which constants there are, how they are computed and arranged, and whether
    attention is causal by a setting, proves nothing."""
    fixed = _fixed(a, FIXED), _fixed(b, FIXED)
    rest = [each for each in found if all(_rests_on(finding, fixed) for finding in each.findings)]
    return [difference for difference in found if difference not in rest], [*rest, *open_]


def _rests_on(finding: LayerFinding, fixed: tuple[set[str], set[str]]) -> bool:
    pair = finding.pair
    if finding.cause == SETTING and finding.group[:2] == ("attention", "causal"):  # type: ignore[index]
        return any(layer is not None and len(layer.node.inputs) == 4 for layer in (pair.a, pair.b))
    layers = zip((pair.a, pair.b), fixed, strict=True)
    return all(layer.node.name in own for layer, own in layers if layer is not None)


def _root(name: str, graph: Graph) -> Node:
    node = graph.by_name[name]
    while node.op in VIEWS and node.inputs:
        node = graph.by_name[node.inputs[0]]
    return node


def _fixed(graph: Graph, leaves: Container[str]) -> set[str]:
    """Values that depend on leaves of these kinds alone."""
    fixed: set[str] = set()
    for node in graph:
        if node.op in leaves or (node.inputs and fixed.issuperset(node.inputs)):
            fixed.add(node.name)
    return fixed


def _tables(graph: Graph, fixed: set[str]) -> dict[str, Node]:
    """What queries and keys are multiplied with: x·cosines + (x with its halves exchanged)·sines, in any spelling."""
    found: dict[str, Node] = {}
    for node in graph:
        terms = [graph.by_name[name] for name in node.inputs] if node.op in ("add", "sub") else []
        if len(terms) != 2 or any(term.op != "mul" or len(term.inputs) != 2 for term in terms):
            continue
        tables = [name for term in terms for name in term.inputs if name in fixed]
        turned = [_sources(name, graph) for term in terms for name in term.inputs if name not in fixed]
        if len(tables) == len(turned) == 2 and turned[0] == turned[1]:
            found.update((name, graph.by_name[name]) for name in tables)
    return found


def _sources(name: str, graph: Graph) -> set[str]:
    """What a value is arranged from."""
    found, seen, waiting = set(), {name}, [name]
    while waiting:
        node = graph.by_name[waiting.pop()]
        if node.op not in _ARRANGING:
            found.add(node.name)
            continue
        fresh = set(node.inputs) - seen
        seen |= fresh
        waiting.extend(fresh)
    return found
