"""Tables of rotary positions and masks of attention whose numbers nobody knows here: two networks may differ in them.

The base of the positions, and what a token sees, are in these numbers alone. Where they are not known, neither
agreement nor a difference is proved by what stands in their place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from zoolens.base.verdicts import Gap
from zoolens.findings.graph.diff.diff_causes import SETTING, LayerFinding
from zoolens.findings.graph.diff.diff_findings import Difference
from zoolens.findings.graph.ir.model import Graph, Node
from zoolens.findings.graph.ir.rotary_tables import RATES
from zoolens.findings.graph.ir.vocabulary import FIXED, VIEWS

_ARRANGING: Final = VIEWS | {"concat", "neg"}
_REMEDY: Final = "`zoolens diverge` runs both on the same inputs and compares their layers."


def unknown_numbers(a: Graph, b: Graph, names: tuple[str, str]) -> tuple[Gap, ...]:
    """What is not known of rotary positions and masks, and how much of all of them that is."""
    return tuple(gap for graph, name in zip((a, b), names, strict=True) for gap in _gaps(graph, name))


def _gaps(graph: Graph, name: str) -> Iterator[Gap]:
    fixed = _fixed(graph)
    tables = _tables(graph, fixed)
    rateless = [node for node in tables.values() if node.get(RATES) is None]
    if rateless:
        yield Gap(
            f"the numbers of {len(rateless):,} of {len(tables):,} tables of rotary positions in {name}", 1, _REMEDY
        )
    masks = {each.inputs[3] for each in graph if each.op == "attention" and len(each.inputs) == 4}
    computed = [mask for mask in masks if mask in fixed and _root(mask, graph).op not in FIXED]
    if computed:
        yield Gap(f"the numbers of {len(computed):,} of {len(masks):,} masks of attention in {name}", 1, _REMEDY)


def beside_unknown_numbers(
    found: Sequence[Difference], open_: Sequence[Difference], a: Graph, b: Graph
) -> tuple[list[Difference], list[Difference]]:
    """Return proved and open differences: which constants there are, how they are computed and arranged, and whether
    attention is causal by a setting, proves nothing."""
    fixed = _fixed(a), _fixed(b)
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


def _fixed(graph: Graph) -> set[str]:
    """Values that depend on no input."""
    fixed: set[str] = set()
    for node in graph:
        if node.op in FIXED or (node.inputs and fixed.issuperset(node.inputs)):
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
