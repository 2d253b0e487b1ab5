"""Which tensors of a running model are which values of its canonical graph.

A point of a runtime names an operator or a tensor of the file; the importer knows which node of the raw graph makes
it. From there to the canonical graph, where passes have joined and moved nodes, values are followed by their numbers:
both graphs are computed in float64 on a real, on a random and on a much larger random input, and a value of the one is
a value of the other only where they agree on all: the large one drives activations into saturation, without which a
value before and behind one could not be told apart. So a name that means something else after a pass is never taken for
its old self.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.base.numerics.deviation import deviation_of_finite
from zoolens.base.numerics.sequence_alignment import best_pairs
from zoolens.findings.divergence.evaluation import Grid
from zoolens.findings.graph.ir.model import Array, Graph, Node, Shape
from zoolens.findings.graph.ir.vocabulary import FIXED
from zoolens.findings.graph.passes.axis_labels import canonical_order, labels
from zoolens.findings.graph.reference.interpreter import node_values
from zoolens.inventory.runtimes.observing import CapturePoint

_ALIKE: Final = 1e-4  # of the length: what two projections of equal values may differ by; passes compute weights anew
_LARGE: Final = 30.0  # times the spread of the real input
_LAST_TO_SECOND: Final = {3: (0, 2, 1), 4: (0, 3, 1, 2), 5: (0, 4, 1, 2, 3)}
_SPOKEN: Final = {  # what frameworks call an operator, in lower case
    "conv": ("conv",), "dense": ("dense", "linear", "fc", "gemm", "matmul", "innerproduct", "fullyconnected"),
    "max_pool": ("maxpool", "pool"), "avg_pool": ("avgpool", "pool"), "relu": ("relu",), "batch_norm": ("bn", "batch"),
}  # fmt: skip
_SKIPPED: Final = FIXED | {"reshape", "flatten"}

Order = tuple[int, ...]
Alike = dict[str, list[tuple[str, Order]]]  # by canonical node
Marks = tuple[tuple[float, float, float], ...]  # for each input: two projections of a value, and its length


@dataclass(frozen=True)
class Observed:
    """A point of a runtime that holds the value of a node. `order` brings the file's axes into the graph's."""

    point: CapturePoint
    node: str
    file_shape: Shape
    order: Order
    shape: Shape
    grid: Grid | None = None

    def value(self, captured: Array) -> Array:
        """What was captured for the first sample, as real numbers in the axes of the graph."""
        array = np.asarray(captured)
        # A tensor of the right size is one sample already, whichever its first axis is: transformers of torch have
        # the steps before the batch.
        is_one_sample = array.size == prod(self.shape)
        if not is_one_sample and array.ndim == len(self.file_shape) and self.shape[:1] == (1,):
            array = array[:1]
        if array.size != prod(self.shape):
            raise ModelError(
                f"The tensor {self.point.name[:60]!r} was captured in the shape {array.shape}, not {self.file_shape}."
            )
        if array.dtype.kind not in "iub":
            real = array.astype(np.float64)
        elif self.grid is None:
            real = array.astype(np.int64)  # whole numbers, such as places in a table: they are not rounded
        else:
            real = (array.astype(np.float64) - self.grid.zero) * self.grid.step
        if real.ndim == len(self.order) and self._in_file_axes(real.shape):
            real = real.transpose(self._turn())
        return real.reshape(self.shape)

    def _turn(self) -> Order:
        axes = self.point.axes
        if len(axes) == len(self.order) and set(axes) <= set("NCDHW"):
            return canonical_order(axes)
        return self.order

    def _in_file_axes(self, shape: Shape) -> bool:
        """A runtime may keep a tensor in another order than the file: then its shape is not the file's."""
        return bool(self.point.axes) or shape[1:] == self.file_shape[1:]


@dataclass(frozen=True)
class ObservablePoints:
    """What was found in a canonical graph: the values that points hold, in order of computation, and the grids of
    those that the file quantises."""

    points: dict[str, Observed]
    grids: dict[str, Grid]


def observable(
    raw: Graph,
    graph: Graph,
    points: Sequence[CapturePoint],
    inputs: Mapping[str, Array],
    tensors: Mapping[str, Grid] | None = None,
    known: Alike | None = None,
) -> ObservablePoints:
    """The nodes of the canonical graph whose values some point holds. `tensors`: grids of the file's tensors. `known`:
    what `alike` has found for these two graphs already."""
    quantised = tensors or {}
    held_by = holders(raw, points)
    makers: Mapping[str, str] = raw.facts.get("tensors", {})
    gridded = {node: quantised[tensor] for tensor, node in makers.items() if tensor in quantised}
    candidates = known if known is not None else alike(raw, graph, inputs)
    result = ObservablePoints({}, {})
    taken: set[str] = set()
    for node in graph.nodes:
        same = candidates.get(node.name, [])
        grid = next((gridded[name] for name, _ in same if name in gridded), None)
        if grid is not None:
            result.grids[node.name] = grid
        held = [(name, order) for name, order in same if name in held_by and name not in taken and node.op != "input"]
        if held:
            name, order = min(held, key=lambda candidate: not held_by[candidate[0]].kept)
            taken.add(name)
            point = held_by[name]
            own = next((quantised[key] for key in (point.tensor, point.name) if key in quantised), grid)
            result.points[node.name] = Observed(point, node.name, raw.by_name[name].shape, order, node.shape, own)
    return result


def in_order(
    graph: Graph, points: Sequence[CapturePoint], shown: Mapping[str, Array], inputs: Mapping[str, Array]
) -> dict[str, Observed]:
    """Points beside the nodes of a graph of another file: by their order, and by the shapes and values that they show
    for a sample of which the graph is given `inputs`. Single numbers, which programs compute with, are no layers."""
    shown = {name: array for name, array in shown.items() if np.ndim(array)}
    shapes = {name: (1, *array.shape[1:]) for name, array in shown.items()}
    nodes = [node for node in graph.nodes if node.op not in _SKIPPED and node.op != "input"]
    kept = [point for point in points if point.kept] or list(points)
    rows: list[Node | CapturePoint] = [*nodes]
    columns: list[Node | CapturePoint] = [point for point in kept if point.name in shapes]
    near = _nearness(graph, inputs, shown)
    pairs = best_pairs(rows, columns, lambda node, point: _fit(node, point, shapes, near))
    return {
        node.name: Observed(point, node.name, shapes[point.name], _order(node, point.name, shapes, near), node.shape)
        for node, point in pairs
        if isinstance(node, Node) and isinstance(point, CapturePoint)
    }


def _nearness(
    graph: Graph, inputs: Mapping[str, Array], shown: Mapping[str, Array]
) -> dict[tuple[str, str], tuple[float, Order]]:
    """How near each captured tensor comes to each value of the graph of its size (1 is equal, 0 is far), and in which
    order of its axes."""
    near: dict[tuple[str, str], tuple[float, Order]] = {}
    for node, value in node_values(graph, inputs):
        for name, array in shown.items():
            first = np.asarray(array[:1])
            if first.size == value.size and first.dtype.kind == "f":
                near[node.name, name] = max(_turned(first.astype(np.float64), value), key=lambda turned: turned[0])
    return near


def _turned(captured: Array, value: Array) -> Iterator[tuple[float, Order]]:
    """The nearness in each order of axes that has the shape of the value: as they are, or channels to the front."""
    plain = tuple(range(captured.ndim))
    for order in dict.fromkeys((plain, _LAST_TO_SECOND.get(captured.ndim, plain))):
        turned = captured.transpose(order)
        if order != plain and turned.shape[1:] != value.shape[1:]:
            yield -1.0, order
            continue
        error = deviation_of_finite(turned.reshape(value.shape), value).error
        yield max(0.0, 1 - error), order


def _fit(
    node: object, point: object, shapes: Mapping[str, Shape], near: Mapping[tuple[str, str], tuple[float, Order]]
) -> float:
    """Equal shapes fit, also with channels last; near values fit better, and a name that says what the node does."""
    if not isinstance(node, Node) or not isinstance(point, CapturePoint):
        return 0.0
    shape = shapes[point.name]
    channels_first = (shape[0], shape[-1], *shape[1:-1]) if len(shape) > 2 else shape
    same_size = prod(node.shape) == prod(shape[1:])
    if not same_size or node.shape[1:] not in (shape[1:], channels_first[1:]):
        return 0.0
    words = f"{point.name} {point.node}".lower()
    usual = _SPOKEN.get(node.op, (node.op.replace("_", ""),))
    spoken = any(word in words for word in usual)
    with_bias = node.parameter("bias") is not None and "bias" in words and "without" not in words
    whole = point.name == node.source or with_bias
    nearness, _ = near.get((node.name, point.name), (0.0, ()))
    return 1.0 + 2 * max(0.0, nearness) + 0.2 * spoken + 0.3 * whole


def _order(
    node: Node, point: str, shapes: Mapping[str, Shape], near: Mapping[tuple[str, str], tuple[float, Order]]
) -> Order:
    """The order of axes that the shapes demand; where they allow two, the one that comes nearer."""
    captured = shapes[point]
    plain = tuple(range(len(captured)))
    moved = _LAST_TO_SECOND.get(len(captured), plain)
    if node.shape[1:] != captured[1:]:
        return moved
    nearness, order = near.get((node.name, point), (0.0, plain))
    return order if nearness > 0.5 and len(order) == len(plain) else plain


def alike(raw: Graph, graph: Graph, inputs: Mapping[str, Array]) -> Alike:
    """Return, for each canonical node, the raw nodes that have its value, each with an order of axes."""
    axes = labels(raw)
    orders: dict[str, tuple[Order, ...]] = {}
    for node in raw.nodes:
        if node.op not in FIXED:
            orders[node.name] = tuple(_orders(node, axes.get(node.name, "")))
    whole: dict[str, tuple[Order, ...]] = {node.name: ((0,),) for node in graph.nodes if node.op not in _SKIPPED}
    # The last is large enough to drive activations into saturation: equal values must be equal there, too.
    feeds = [inputs, _random(inputs, 1.0), _random(inputs, _LARGE)]
    moved = [{name: _in_file_order(raw, graph, name, value) for name, value in feed.items()} for feed in feeds]
    longest = max((prod(node.shape) for node in (*raw.nodes, *graph.nodes)), default=1)
    vector = np.random.default_rng(0).standard_normal(longest)
    by_size: dict[int, list[tuple[str, Order, Marks]]] = {}
    for (name, order), marks in _marks(raw, moved, vector, orders).items():
        size = prod(raw.by_name[name].shape)
        by_size.setdefault(size, []).append((name, order, marks))
    place = {node.name: number for number, node in enumerate(raw.nodes)}
    for sized in by_size.values():
        sized.sort(key=lambda candidate: place[candidate[0]])
    found: Alike = {}
    for (name, _), mark in _marks(graph, feeds, vector, whole).items():
        candidates = by_size.get(prod(graph.by_name[name].shape), ())
        found[name] = [(other, order) for other, order, marks in candidates if _same(mark, marks)]
    return found


def holders(raw: Graph, points: Sequence[CapturePoint]) -> dict[str, CapturePoint]:
    """The point that holds the value of each raw node; one that the runtime makes anyway is preferred."""
    tensors: Mapping[str, str] = raw.facts.get("tensors", {})
    by_source = {node.source: node.name for node in raw.nodes if node.source}  # of several the last
    found: dict[str, CapturePoint] = {}
    for point in points:
        node = tensors.get(point.tensor) or tensors.get(point.name)
        if node is None and not tensors and point.name in raw.by_name:
            node = point.name
        if node is None and (not tensors or not point.tensor):
            node = by_source.get(point.node) or by_source.get(point.name)
        if node is None or node not in raw.by_name:
            continue
        known = found.get(node)
        if known is None or (point.kept and not known.kept):
            found[node] = point
    return found


def _random(inputs: Mapping[str, Array], size: float) -> dict[str, Array]:
    """A random input that is so many times as large as the real one; whole numbers are left as they are. One as large
    as the real one leaves activations neither dead nor all saturated."""
    generator = np.random.default_rng(1)
    random = dict(inputs)
    for name, value in inputs.items():
        if value.dtype.kind == "f":
            mean, spread = _mean_and_spread(value)
            random[name] = mean + size * spread * generator.standard_normal(value.shape)
    return random


def _mean_and_spread(value: Array) -> tuple[float, float]:
    """Mean and standard deviation of the finite numbers; a spread of 1 where all are the same."""
    finite = value[np.isfinite(value)]
    if not finite.size:
        return 0.0, 1.0
    return float(finite.mean()), float(finite.std()) or 1.0


def _in_file_order(raw: Graph, graph: Graph, name: str, value: Array) -> Array:
    axes = str(graph.facts.get("input_axes", {}).get(name, ""))
    shape = raw.by_name[name].shape
    if len(axes) == len(shape) == value.ndim:
        back = np.argsort(canonical_order(axes))
        value = np.ascontiguousarray(value.transpose(back))
    return value.reshape(shape)


def _orders(node: Node, axes: str) -> Iterator[Order]:
    rank = len(node.shape)
    if len(axes) == rank and rank:
        yield canonical_order(axes)
    plain = tuple(range(rank))
    if len(axes) != rank or canonical_order(axes) != plain:
        yield plain
    if rank in _LAST_TO_SECOND and not axes:
        yield _LAST_TO_SECOND[rank]


def _marks(
    graph: Graph,
    feeds: Sequence[Mapping[str, Array]],
    vector: Array,
    orders: Mapping[str, tuple[Order, ...]],
) -> dict[tuple[str, Order], Marks]:
    """The marks of these nodes' values in each order of axes; (0,) is the order they have."""
    marks: dict[tuple[str, Order], Marks] = {}
    for feed in feeds:
        for node, value in node_values(graph, feed):
            for order in orders.get(node.name, ()):
                turned = value if order == (0,) or value.ndim != len(order) else value.transpose(order)
                marks[node.name, order] = (*marks.get((node.name, order), ()), _mark(turned, vector))
    return marks


def _mark(value: Array, vector: Array) -> tuple[float, float, float]:
    """Two projections and the length. What is not finite counts as a number of its own kind; a value without any
    finite number has no length, since it may be any other such value."""
    flat = np.asarray(value, np.float64).reshape(-1)
    finite = np.isfinite(flat)
    if not finite.all():
        size = float(np.sqrt(np.mean(np.square(flat[finite])))) if finite.any() else 0.0
        flat = np.where(finite, flat, size * np.nan_to_num(flat, nan=2.0, posinf=3.0, neginf=-3.0))
    direction = vector[: flat.size]
    with np.errstate(all="ignore"):
        return float(flat @ direction), float(flat[::-1] @ direction), float(np.sqrt(flat @ flat))


def _same(first: Marks, second: Marks) -> bool:
    """Whether two values are equal; what is zero on every input may be any value, and is none."""
    if not any(length > 0 for _, _, length in first):
        return False
    for ours, theirs in zip(first, second, strict=True):
        _, _, length = ours
        if not all(abs(one - other) <= _ALIKE * length for one, other in zip(ours, theirs, strict=True)):
            return False  # also where one is no number
    return True
