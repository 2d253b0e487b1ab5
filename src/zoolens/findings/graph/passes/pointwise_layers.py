"""Layers that treat every place the same do not care how places are arranged: they are applied to the map itself.

A source may cut a map into windows, or join its places to tokens, before or after a norm, a dense layer or a sum.
Here the arrangement sinks through them, down to the operator that needs it (attention) or the one that undoes it.
Raw graphs are rewritten, before the layout is unified: a dense layer on a map is then known to be a convolution.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any, Final

from zoolens.findings.graph.ir.model import Graph, Node, Shape
from zoolens.findings.graph.ir.vocabulary import ACTIVATIONS, ARITHMETIC, FIXED
from zoolens.findings.graph.passes.arrangements import (
    STEPS,
    Arrangement,
    ArrangementChain,
    ArrangementStep,
    Atoms,
    as_node,
    chain,
    emit_steps,
    reshaped,
    steps,
)
from zoolens.findings.graph.passes.axis_labels import KEEPING, Labels, labels
from zoolens.findings.graph.passes.editor import Editor

_MAPS: Final = ("NHWC", "NCHW")
_LAST: Final = 3  # axis of the channels of a map, when they come last
_TOKENS: Final = 3  # axes of places that were joined to one axis, channels last
_TURN: Final = (0, 2, 3, 1)  # from channels first to channels last
_ARRANGING: Final = {*STEPS, "slice"}  # places are arranged by these alone; patches are strided slices
_POINTWISE: Final = (ACTIVATIONS - {"prelu"}) | (ARITHMETIC - {"pow"}) | {
    "dense", "layer_norm", "rms_norm", "affine", "erf",  # by which exporters spell out a GELU
}  # fmt: skip

Cut = tuple[Shape, tuple[ArrangementStep, ...]]


def join_places(graph: Graph) -> Graph:
    if graph.ops.isdisjoint(_ARRANGING):
        return graph
    known = {name: axes for name, axes in labels(graph).items() if axes in _MAPS}
    return _Places(graph, known).rewritten() if known else graph


class _Places:
    def __init__(self, graph: Graph, known: Labels) -> None:
        self.graph = graph
        self.known = known  # the maps, and what their axes are; more are found on the way
        self.cut: dict[Cut, None] = {}  # how places of maps were arranged, in the order of the graph
        self.editor = Editor(graph)

    def rewritten(self) -> Graph:
        for node in self.graph.nodes:
            here = self.editor.renewed(node)
            result = self._rewrite(here)
            self.editor.accept(here, result)
            if isinstance(result, Node):
                self._learn(result)
        return self.editor.finished()

    def _learn(self, node: Node) -> None:
        axes = node.axes or self._kept_axes(node)
        if axes in _MAPS and len(node.shape) == len(axes):
            self.known.setdefault(node.name, axes)

    def _kept_axes(self, node: Node) -> str:
        if node.op not in KEEPING and node.op != "dense":
            return ""
        kept = {self.known[name] for name in node.inputs if name in self.known}
        axes = kept.pop() if len(kept) == 1 else ""
        return axes if node.op != "dense" or axes.endswith("C") else ""

    def _rewrite(self, node: Node) -> Node | str:
        if node.op in STEPS:
            return self._step(node)
        if node.op == "concat":
            return self._patches(node)
        if node.op in _POINTWISE and self._on_last_axis(node):
            return self._sunk(node)
        return node

    def _step(self, node: Node) -> Node | str:
        """Back on a map: what was arranged and is arranged back is gone; what is a map again is known as one."""
        chained = chain(node, self.editor, self.known.__contains__)
        axes = self.known.get(chained.source, "")
        if not axes:
            return self._put_back(node, chained)
        self._remember(chained.arrangement, axes)
        shorter = len(steps(chained.arrangement)) < len(chained.path)
        result = as_node(node, chained.source, chained.arrangement, self.editor) if shorter else node
        if isinstance(result, Node):
            return replace(result, axes=result.axes or map_axes(chained.arrangement, axes))
        return result

    def _remember(self, arrangement: Arrangement, axes: str) -> None:
        last = channels_last(arrangement, axes)
        if last is not None:
            self.cut[_cut(last)] = None

    def _put_back(self, node: Node, chained: ArrangementChain) -> Node:
        """What attention made of the places of a map is a map again once they are arranged back or joined to tokens."""
        arrangement = chained.arrangement
        for start in dict.fromkeys(start for start, _ in self.cut):
            same_batch = arrangement.shape[:1] == start[:1]
            channels = arrangement.shape[-1]
            whole = reshaped(arrangement, (*start[:-1], channels)) if same_batch else None
            last = channels_last(whole.inverse, "NHWC") if whole is not None else None
            if whole is None or last is None or _cut(last) not in self.cut:
                continue
            if whole.shape == arrangement.shape:
                return replace(node, axes="NHWC")
            if len(arrangement.shape) == _TOKENS:
                made = emit_steps(chained.source, steps(whole), self.editor, base=node.name, source=node.source)
                self.editor.absorb(replace(self.editor.maker(made), axes="NHWC"))
                self.known[made] = "NHWC"
                return replace(node, op="reshape", inputs=(made,), attributes={})
        return node

    def _on_last_axis(self, node: Node) -> bool:
        last = len(node.shape) - 1
        return node.get("axis", last) == last and tuple(node.get("axes", (last,))) == (last,)

    def _arranged(self, name: str) -> tuple[str, Arrangement] | None:
        """The map with its channels last that a value is an arrangement of, channels last and whole; else None."""
        if name in self.known:
            return None
        chained = chain(self.editor.maker(name), self.editor, self.known.__contains__)
        axes = self.known.get(chained.source, "")
        arrangement = channels_last(chained.arrangement, axes) if axes else None
        if arrangement is None or axes == "NHWC":
            return (chained.source, arrangement) if arrangement else None
        source = self.editor.emit("transpose", (chained.source,), arrangement.start, base=name, perm=_TURN)
        self.known[source] = "NHWC"
        return source, arrangement

    def _sunk(self, node: Node) -> Node | str:
        if not node.inputs or all(self.editor.maker(name).op not in STEPS for name in node.inputs):
            return node
        maps = [self._arranged(name) for name in node.inputs]
        first = next((arranged for arranged in maps if arranged is not None), None)
        if first is None or (len(maps) > 1 and node.shape != first[1].shape):
            return node
        operands = [self._operand(name, arranged, first[1]) for name, arranged in zip(node.inputs, maps, strict=True)]
        inputs = [name for name in operands if name is not None]
        if len(inputs) < len(operands):
            return node
        arranged = _with_channels(first[1], node.shape[-1])
        made = self.editor.emit(
            node.op, inputs, arranged.start, base=node.name, source=node.source, parameters=node.parameters,
            **_on_map(node),
        )  # fmt: skip
        self.known[made] = "NHWC"
        return as_node(node, made, arranged, self.editor)

    def _operand(self, name: str, arranged: tuple[str, Arrangement] | None, wanted: Arrangement) -> str | None:
        """What takes part on the map in the place of an operand; None if that is unknown."""
        if arranged is not None:
            same = arranged[1].start == wanted.start and steps(arranged[1]) == steps(wanted)
            return arranged[0] if same else None
        maker = self.editor.maker(name)
        channels = maker.shape[-1:] == wanted.shape[-1:] and prod(maker.shape) == wanted.shape[-1]
        if channels and maker.op in FIXED:
            if len(maker.shape) == 1:
                return name
            return self.editor.emit("reshape", (name,), maker.shape[-1:], base=name)
        if maker.shape != wanted.shape:
            return None
        return emit_steps(name, steps(wanted.inverse), self.editor, base=name, source=maker.source)

    def _patches(self, node: Node) -> Node | str:
        """A concat of every second row and column (patch merging) only arranges: places become channels."""
        cuts = [_strided(name, self.editor) for name in node.inputs]
        root = cuts[0][0]
        block = cuts[0][2]
        axes = self.known.get(root, "")
        if not axes or block < 2 or any((name, size) != (root, block) for name, _, size in cuts):
            return node
        rows = axes.index("H")
        columns = axes.index("W")
        offsets = [(starts.get(rows, 0), starts.get(columns, 0)) for _, starts, _ in cuts]
        by_row = [(i, j) for i in range(block) for j in range(block)]
        shape = self.editor.maker(root).shape
        if node.get("axis") != axes.index("C") or shape[rows] % block or shape[columns] % block:
            return node
        for inner, order in (((1, 3), by_row), ((3, 1), [(i, j) for j, i in by_row])):
            if offsets == order:
                arrangement = _merging(shape, axes, block, inner, node)
                result = as_node(node, root, arrangement, self.editor)
                return replace(result, axes=axes) if isinstance(result, Node) else result
        return node


def map_axes(arrangement: Arrangement, axes: str) -> str:
    """The axes of an arrangement of a map, if it is a map again: rows of rows, columns of columns; else ""."""
    if len(arrangement.shape) != len(axes) or arrangement.shape[0] != arrangement.start[0]:
        return ""
    rows, columns = (arrangement.source[axes.index(name)] for name in "HW")
    places = arrangement.target[1:]
    letters = ("H" if _begins(own, rows) else "W" if _begins(own, columns) else "C" for own in places)
    text = f"N{''.join(letters)}"
    return text if text in _MAPS else ""


def channels_last(arrangement: Arrangement, axes: str) -> Arrangement | None:
    """The arrangement as one of the map with its channels last; None if it does not leave them last and whole."""
    channels = arrangement.source[axes.index("C")]
    if not channels or arrangement.target[-1:] != (channels,):
        return None
    if axes == "NHWC":
        return arrangement
    return replace(
        arrangement,
        source=tuple(arrangement.source[axis] for axis in _TURN),
        start=tuple(arrangement.start[axis] for axis in _TURN),
    )


def _cut(arrangement: Arrangement) -> Cut:
    """How the places of a map are arranged, whatever its channels."""
    places = _with_channels(arrangement, 1)
    return places.start, steps(places)


def _begins(own: Atoms, whole: Atoms) -> bool:
    return bool(own) and whole[: len(own)] == own


def _with_channels(arrangement: Arrangement, channels: int) -> Arrangement:
    """Return the arrangement of the places with another number of channels."""
    atom = arrangement.target[-1][0]
    atoms = (atom,) if channels > 1 else ()
    extents = (*arrangement.extents[:atom], channels, *arrangement.extents[atom + 1 :])
    source, target = ((*axes[:-1], atoms) for axes in (arrangement.source, arrangement.target))
    start, shape = ((*axes[:-1], channels) for axes in (arrangement.start, arrangement.shape))
    return Arrangement(extents, source, target, start, shape)


def _on_map(node: Node) -> dict[str, Any]:
    moved = dict(node.attributes)
    if "axis" in moved:
        moved["axis"] = _LAST
    if "axes" in moved:
        moved["axes"] = (_LAST,)
    return moved


def _strided(name: str, editor: Editor) -> tuple[str, dict[int, int], int]:
    """What a value takes every nth row and column of: the root, the first ones by axis, and n."""
    starts: dict[int, int] = {}
    node = editor.maker(name)
    step = node.get("step", 1)
    while node.op == "slice" and node.get("step", 1) == step > 1 and node.get("axis") not in starts:
        starts[node.get("axis")] = node.get("start")
        node = editor.maker(node.inputs[0])
    return node.name, starts, step if len(starts) == 2 else 1


def _merging(shape: tuple[int, ...], axes: str, block: int, inner: Atoms, node: Node) -> Arrangement:
    """Atoms 0 and 1 are the rows, 2 and 3 the columns, 4 the channels; 1 and 3, in this order, join the channels."""
    rows, columns, channels = (shape[axes.index(name)] for name in "HWC")
    extents = (rows // block, block, columns // block, block, channels)
    before: dict[str, Atoms] = {"N": (), "H": (0, 1), "W": (2, 3), "C": (4,)}
    after: dict[str, Atoms] = {"N": (), "H": (0,), "W": (2,), "C": (*inner, 4)}
    source, target = (tuple(names[name] for name in axes) for names in (before, after))
    return Arrangement(extents, _without_ones(source, extents), _without_ones(target, extents), shape, node.shape)


def _without_ones(axes: tuple[Atoms, ...], extents: tuple[int, ...]) -> tuple[Atoms, ...]:
    kept = {atom for atom, extent in enumerate(extents) if extent > 1}
    return tuple(tuple(atom for atom in axis if atom in kept) for axis in axes)
