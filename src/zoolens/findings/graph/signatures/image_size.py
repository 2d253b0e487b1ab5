"""A canonical graph at another image size, without going back to its source.

Shapes are worked out anew from the input on. Pads that a rule of the source made (SAME, or windows that hang over)
are made again by that rule. Where something binds the network to its size, that is said in one sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from zoolens.base.errors import ModelError
from zoolens.findings.graph.ir.model import Graph, Node, Shape, checked
from zoolens.findings.graph.ir.shapes import RULES, output_shape
from zoolens.findings.graph.ir.sliding_windows import ceil_pads, same_pads, spread


def resized(graph: Graph, size: tuple[int, int]) -> Graph:
    """The graph at this height and width; ModelError where it cannot be had."""
    images = [node for node in graph.inputs if len(node.shape) == 4]
    if not images:
        raise ModelError(f"{graph.name} has no image among its inputs: it cannot be resized.")
    original = _Original(graph, _pads_as_same(graph))
    shapes: dict[str, Shape] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        nodes.append(_resized_node(original, node, shapes, size))
        shapes[node.name] = nodes[-1].shape
    return checked(replace(graph, nodes=tuple(nodes)))


@dataclass(frozen=True)
class _Original:
    graph: Graph
    same: bool  # the source pads by the rule SAME

    def old(self, node: Node) -> tuple[Shape, ...]:
        return tuple(self.graph.by_name[name].shape for name in node.inputs)


def _resized_node(original: _Original, node: Node, shapes: Mapping[str, Shape], size: tuple[int, int]) -> Node:
    if node.op == "input":
        if len(node.shape) == 4:
            return replace(node, shape=(*node.shape[:2], *size))
        return node
    given = tuple(shapes[name] for name in node.inputs)
    if given == original.old(node):
        return node
    try:
        return _changed(original, node, given)
    except ModelError as error:
        was = next(image.shape for image in original.graph.inputs if len(image.shape) == 4)
        raise ModelError(
            f"{original.graph.name} is bound to {was[2]}×{was[3]} by {(node.source or node.name)[:60]!r} ({node.op}): "
            f"{error.message}",
            hint="Build or import it at the size you want.",
        ) from error


def _changed(original: _Original, node: Node, given: tuple[Shape, ...]) -> Node:
    if node.op in _SPECIAL:
        return replace(node, shape=_SPECIAL[node.op](node, original.old(node)[0], given[0]))
    if node.op not in RULES:
        return replace(node, shape=_unruled(node, original.old(node)[0], given[0]))
    if node.op in ("conv", "max_pool", "avg_pool"):
        node = _repadded(node, original.old(node)[0], given[0], same=original.same)
    elif node.op == "slice":
        node = _recut(node, original.old(node)[0], given[0])
    return replace(node, shape=output_shape(node.op, given, node.attributes, node.parameters))


# --- pads that follow from the size


def _window(node: Node, extents: Shape) -> tuple[Shape, Shape, Shape]:
    kernel = node.get("kernel")
    count = len(extents)
    return tuple(kernel), spread(node.get("stride"), count, 1), spread(node.get("dilation"), count, 1)


def _pads_as_same(graph: Graph) -> bool:
    """Whether some convolution has the uneven pads that only SAME makes."""
    for node in graph.nodes:
        pads = tuple(node.get("pads") or ())
        if node.op == "conv" and pads[: len(pads) // 2] != pads[len(pads) // 2 :]:
            extents = graph.by_name[node.inputs[0]].shape[2:]
            if pads == same_pads(extents, *_window(node, extents)):
                return True
    return False


def _repadded(node: Node, old: Shape, new: Shape, *, same: bool) -> Node:
    pads = tuple(node.get("pads") or ())
    half = len(pads) // 2
    window = _window(node, old[2:])
    if same and any(pads) and pads == same_pads(old[2:], *window):
        return node.with_attributes(pads=same_pads(new[2:], *window))
    even = pads[:half] * 2
    if node.op == "conv" or pads == even or pads != ceil_pads(old[2:], *window, even):
        return node
    return node.with_attributes(pads=ceil_pads(new[2:], *window, even))


def _recut(node: Node, old: Shape, new: Shape) -> Node:
    axis = node.get("axis")
    stop = node.get("stop")
    if old[axis] == new[axis]:
        return node
    if stop < old[axis]:
        raise ModelError(f"it takes {stop - node.get('start'):,} of {old[axis]:,}.")
    return node.with_attributes(stop=new[axis])


# --- shapes that are not a matter of arithmetic


def _reshaped(node: Node, old: Shape, new: Shape) -> Shape:
    """Axes that are split or merged among themselves: those that grew may be merged, not split."""
    extents: list[int] = []
    at = done = 0
    while at < len(old) or done < len(node.shape):
        last = at + 1
        until = done + 1
        while prod(old[at:last]) != prod(node.shape[done:until]):
            if last > len(old) and until > len(node.shape):
                raise ModelError("its axes are mixed.")
            if prod(old[at:last]) < prod(node.shape[done:until]) and last <= len(old):
                last += 1
            else:
                until += 1
        extents += _regrouped(old[at:last], new[at:last], node.shape[done:until])
        at, done = last, until
    return tuple(extents)


def _regrouped(old: Shape, new: Shape, target: Shape) -> Shape:
    if old == new:
        return target
    if len(target) == 1:
        return (prod(new),)
    longer = [axis for axis, extent in enumerate(target) if extent != 1]
    if len(longer) == 1:
        return tuple(prod(new) if axis == longer[0] else 1 for axis in range(len(target)))
    raise ModelError(f"it splits {prod(old):,} numbers into {'×'.join(map(str, target))}.")


def _expanded(node: Node, old: Shape, new: Shape) -> Shape:
    """Axes that were repeated keep their extent, the others follow the input."""
    start = len(node.shape) - len(old)
    tail = [now if was == wide else wide for was, wide, now in zip(old, node.shape[start:], new, strict=True)]
    return (*node.shape[:start], *tail)


def _rescaled(node: Node, old: Shape, new: Shape) -> Shape:
    extents = []
    for was, wide, now in zip(old, node.shape, new, strict=True):
        if was != now and (now * wide) % was:
            raise ModelError(f"it resizes {was:,} to {wide:,}, which says nothing about {now:,}.")
        extents.append(wide if was == now else now * wide // was)
    return tuple(extents)


def _unruled(node: Node, old: Shape, new: Shape) -> Shape:
    if node.shape == old:
        return new
    raise ModelError("what it makes of another size is not known.")


_SPECIAL: Final[dict[str, Callable[[Node, Shape, Shape], Shape]]] = {
    "reshape": _reshaped,
    "expand": _expanded,
    "resize": _rescaled,
}
