"""Whether a graph, whose shapes are those of one example, can be written for any number of examples.

It can where the first axis of every value that depends on an input has the examples outermost: as it is (N), or with
a fixed number of parts of each (N × windows). A reshape keeps that, for it never changes the order of numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from zoolens.findings.graph.ir.model import Graph, Node, Shape
from zoolens.findings.graph.ir.vocabulary import ACTIVATIONS, ARITHMETIC, FUNCTIONS, NOISE, POOLS, REDUCTIONS

_BY_EXAMPLE: Final = ACTIVATIONS | NOISE | POOLS | FUNCTIONS | {
    "conv", "conv_transpose", "dense", "batch_norm", "group_norm", "instance_norm", "lrn", "embedding",
    "channel_shuffle", "space_to_depth", "depth_to_space", "resize",
}  # fmt: skip


@dataclass(frozen=True)
class _Case:
    """One node: its own shape, and those of its inputs that carry the batch and of those that do not."""

    node: Node
    shapes: tuple[Shape, ...]
    carries: tuple[bool, ...]

    @property
    def lead(self) -> int:
        return next(shape[0] for shape, carries in zip(self.shapes, self.carries, strict=True) if carries)


def carriers(graph: Graph) -> frozenset[str] | None:
    """The values whose first axis is the batch; None where some value mixes it with others."""
    batched: set[str] = set()
    for node in graph.nodes:
        if node.op == "input":
            if node.shape[:1] != (1,):
                return None
            batched.add(node.name)
            continue
        carries = tuple(name in batched for name in node.inputs)
        if not any(carries):
            continue
        shapes = tuple(graph.by_name[name].shape for name in node.inputs)
        if not node.shape or not _keeps(_Case(node, shapes, carries)):
            return None
        batched.add(node.name)
    ends = all(name in batched and graph.by_name[name].shape[0] == 1 for name in graph.outputs)
    return frozenset(batched) if ends else None


def _keeps(case: _Case) -> bool:
    rule = _RULES.get(case.node.op)
    if rule is not None:
        return rule(case)
    return case.node.op in _BY_EXAMPLE and len(case.carries) == 1


def _always(case: _Case) -> bool:
    return True


def _aligned(case: _Case) -> bool:
    """Element by element: batch against batch, and what is fixed is the same for every example."""
    return all(
        (len(shape) == len(case.node.shape) and shape[0] == case.node.shape[0])
        if carries
        else (len(shape) < len(case.node.shape) or shape[0] == 1)
        for shape, carries in zip(case.shapes, case.carries, strict=True)
    )


def _off_axis(case: _Case) -> bool:
    return bool(case.node.get("axis", len(case.node.shape) - 1) != 0)


def _off_axes(case: _Case) -> bool:
    axes = case.node.get("axes", ())
    return 0 not in ((axes,) if isinstance(axes, int) else axes)


def _matmul(case: _Case) -> bool:
    if len(case.node.shape) > 2:
        return _aligned(case)
    return case.carries == (True, False) and not case.node.get("transpose_a")


def _attention(case: _Case) -> bool:
    leads = {shape[0] for shape in case.shapes[:3]}
    same = all(case.carries[:3]) and len(leads) == 1
    if not same:
        return False
    for mask, carries in zip(case.shapes[3:], case.carries[3:], strict=True):
        wanted = case.lead if carries else 1
        if len(mask) >= 4 and mask[0] != wanted:
            return False
    return True


def _concat(case: _Case) -> bool:
    leads = {shape[0] for shape, carries in zip(case.shapes, case.carries, strict=True) if carries}
    return _off_axis(case) and len(leads) == 1 and (all(case.carries) or leads == {1})


def _gather(case: _Case) -> bool:
    if case.carries[0]:
        return not any(case.carries[1:]) and case.node.get("axis", 0) != 0
    return bool(case.node.get("axis", 0) == 0) and case.node.shape[0] == case.lead


def _pad(case: _Case) -> bool:
    pads: Sequence[int] = case.node.get("pads")
    return not pads[0] and not pads[len(pads) // 2]


_RULES: Final[dict[str, Callable[[_Case], bool]]] = {
    **dict.fromkeys(("reshape", "flatten"), _always),
    **dict.fromkeys((*ARITHMETIC, "compare", "where", "expand"), _aligned),
    **dict.fromkeys(("slice", "softmax", "log_softmax", "affine"), _off_axis),
    **dict.fromkeys((*REDUCTIONS, "layer_norm", "rms_norm", "l2_normalize", "roll"), _off_axes),
    "matmul": _matmul,
    "attention": _attention,
    "concat": _concat,
    "gather": _gather,
    "pad": _pad,
    "transpose": lambda case: case.node.get("perm")[0] == 0,
    "tile": lambda case: case.node.get("repeats")[0] == 1,
}
