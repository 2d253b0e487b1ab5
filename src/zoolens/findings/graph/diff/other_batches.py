"""Files that may be made for different batch sizes.

An importer reads images at batch 1 whatever a file says. Of other inputs nobody can tell whether the first axis is a
batch, time steps or tokens: where nothing but its extent differs, it is not known whether that is another network.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from zoolens.base.verdicts import Gap
from zoolens.findings.graph.ir.model import Graph, Shape

_REMEDY: Final = "Export both networks with the same extents of their inputs."


def batch_gaps(a: Graph, b: Graph, names: tuple[str, str]) -> tuple[Gap, ...]:
    """What is not understood about two networks whose inputs differ in the first extent alone."""
    shapes = [[node.shape for node in graph.inputs] for graph in (a, b)]
    if shapes[0] == shapes[1] or not _same_but_first(*shapes):
        return ()
    made_for = " and ".join(f"{_words(found)} in {name}" for found, name in zip(shapes, names, strict=True))
    return (Gap(f"the first extent of inputs, which may be a batch ({made_for})", 1, _REMEDY),)


def _same_but_first(a: Sequence[Shape], b: Sequence[Shape]) -> bool:
    """Whether all inputs have the same shapes but for the first extent."""
    if len(a) != len(b):
        return False
    return all(one and other and one[1:] == other[1:] for one, other in zip(a, b, strict=True))


def _words(shapes: Sequence[Shape]) -> str:
    return ", ".join("×".join(map(str, shape)) for shape in shapes)
