"""The sums through which all of a residual network passes: what its blocks hand on, such as the states of a language
model behind each layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from zoolens.findings.divergence.divergence_causes import number
from zoolens.findings.divergence.result import LayerFacts
from zoolens.findings.graph.ir.model import Graph
from zoolens.findings.graph.ir.vocabulary import LEAVES

_FEWEST: Final = 4  # sums: two blocks of a transformer
_SHOWN: Final = 6


def trunk_of(graph: Graph) -> frozenset[str]:
    """The sums that every path from an input to an output passes."""
    place = {node.name: number for number, node in enumerate(graph.nodes)}
    last_use = dict.fromkeys(place, -1)
    for node in graph.nodes:
        for name in node.inputs:
            last_use[name] = place[node.name]
    sums = []
    reached = -1  # the last node that uses something computed before
    for node in graph.nodes:
        if node.op in LEAVES and node.op != "input":
            continue  # constants are no part of a path
        if node.op == "add" and reached <= place[node.name]:
            sums.append(node.name)
        reached = max(reached, last_use[node.name])
    return frozenset(sums) if len(sums) >= _FEWEST else frozenset()


def growth_in_files(layers: Sequence[LayerFacts]) -> Iterator[str]:
    """Where what the two files say begins to differ, and how that grows from block to block."""
    known = [(fact, fact.layer.files) for fact in layers if fact.layer.files is not None]
    differing = [(fact, files) for fact, files in known if fact.layer.files_beyond]
    if not differing:
        return
    first, files = differing[0]
    yield (
        f"Of the values that a side shows, those of the two files and inputs, computed exactly, first differ at "
        f"{first.label}: relative difference {number(files.error)} (floor {number(first.layer.files_floor)})."
    )
    sums = [(fact, files) for fact, files in known if fact.in_trunk]
    if len(sums) < _FEWEST:
        return
    step = (len(sums) - 1) / (_SHOWN - 1)
    chosen = [sums[round(step * place)] for place in range(_SHOWN)] if len(sums) > _SHOWN else sums
    shown = ", ".join(f"{number(files.error)} at {fact.label}" for fact, files in chosen)
    yield f"Along the {len(sums)} sums through which everything passes, it is {shown}."
