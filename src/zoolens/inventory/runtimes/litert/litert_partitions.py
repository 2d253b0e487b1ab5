"""Which operators of a TFLite file XNNPACK's operators compute.

LiteRT hands sets of operators to XNNPACK. How it forms them from a given choice of operators is known, so that their
order of execution can be followed. Within a set XNNPACK keeps the order but leaves out what costs nothing, such as a
reshape, and calls operators by other names. So operators are matched kind by kind, where both sides have as many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from zoolens.inventory.runtimes.litert.litert_profiler import OperatorEvent
from zoolens.inventory.runtimes.litert.tflite_file import TfliteGraph

_MOST_OPERATORS: Final = 20_000  # of a file for which the sets are formed: the time grows with the square
# The beginning of XNNPACK's names, with the codes of the file's operators that are computed so.
_PRODUCTS: Final = frozenset({3, 4, 9, 67, 126})  # convolutions, dense layers and products of matrices
_KINDS: Final[Mapping[str, frozenset[int]]] = {
    "Convolution": _PRODUCTS,
    "Deconvolution": _PRODUCTS,
    "Fully Connected": _PRODUCTS,
    "Batch Matrix Multiply": _PRODUCTS,
    "Add": frozenset({0}),
    "Multiply": frozenset({18}),
    "Subtract": frozenset({41}),
    "Divide": frozenset({42}),
    "Average Pooling": frozenset({1}),
    "Max Pooling": frozenset({17}),
    "Mean": frozenset({40}),
    "Softmax": frozenset({25}),
    "Sigmoid": frozenset({14}),
    "Constant Pad": frozenset({34, 60}),
    "Resize Bilinear": frozenset({23}),
    "HardSwish": frozenset({117}),
    "Transpose": frozenset({39}),
    "Concatenate": frozenset({2}),
}


def file_operators(graph: TfliteGraph, events: Sequence[OperatorEvent]) -> list[int | None]:
    """For each event the place in the file of the operator that it computes; None where that is unknown."""
    if len(graph.operators) > _MOST_OPERATORS:
        return [None] * len(events)
    own = {event.index for event in events if not event.delegated and event.index is not None}
    partitions = [part for part in _partitions(graph, own) if part[0] not in own]
    runs = _runs(events)
    result = [None if event.delegated else event.index for event in events]
    if len(runs) == len(partitions):
        for run, partition in zip(runs, partitions, strict=True):
            for place, operator in _matched(graph, [(place, events[place].tag) for place in run], partition):
                result[place] = operator
    return result


def _partitions(graph: TfliteGraph, own: set[int]) -> list[list[int]]:
    """Sets of operators in the order in which they run: each has as many as can run at once, either only those that
    LiteRT computes itself (`own`) or only others."""
    missing = {index for operator in graph.operators for index in operator.outputs}
    left = list(range(len(graph.operators)))
    partitions: list[list[int]] = []
    while left:
        partition: list[int] = []
        grew = True
        while grew:
            grew = False
            for place in list(left):
                operator = graph.operators[place]
                ready = missing.isdisjoint(operator.inputs)
                if ready and (not partition or (place in own) == (partition[0] in own)):
                    partition.append(place)
                    left.remove(place)
                    missing.difference_update(operator.outputs)
                    grew = True
        # A graph that goes in a circle, which LiteRT does not open.
        if not partition:
            break
        partitions.append(partition)
    return partitions


def _runs(events: Sequence[OperatorEvent]) -> list[list[int]]:
    """Places of XNNPACK's events in the main graph, for each time that LiteRT called it: their numbers begin again at
    zero."""
    runs: list[list[int]] = []
    for place, event in enumerate(events):
        if not event.delegated or event.inner:
            continue
        if event.index == 0:
            runs.append([])
        if runs:
            runs[-1].append(place)
    return runs


def _matched(graph: TfliteGraph, run: Sequence[tuple[int, str]], partition: Sequence[int]) -> list[tuple[int, int]]:
    matched: list[tuple[int, int]] = []
    for codes in set(_KINDS.values()):
        events = [place for place, tag in run if _codes(tag) == codes]
        operators = [place for place in partition if graph.operators[place].code in codes]
        if len(events) == len(operators):
            matched += zip(events, operators, strict=True)
    return matched


def _codes(tag: str) -> frozenset[int] | None:
    return _KINDS.get(tag.partition(" (")[0])
