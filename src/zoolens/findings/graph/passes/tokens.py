"""Arrangements in one form, parts cut out before they are arranged, and the rows that attention gives.

Sources split heads, join windows and turn maps into tokens in many ways: (N, C, H, W) → (N, H, W, C) → (N, H·W, C) is
also (N, C, H·W) → (N, H·W, C). Each chain of reshapes and transposes gets its normal form here.
"""

from __future__ import annotations

from dataclasses import replace

from zoolens.findings.graph.ir.model import Graph, Node
from zoolens.findings.graph.passes.arrangements import (
    Arrangement,
    ArrangementChain,
    Atoms,
    as_node,
    chain,
    emit_steps,
    steps,
    unchanged,
)
from zoolens.findings.graph.passes.editor import Editor, rewrite


def unify_tokens(graph: Graph) -> Graph:
    return rewrite(graph, {"reshape": _normal, "transpose": _normal, "slice": _cut_first, "dense": _on_rows})


def _normal(node: Node, editor: Editor) -> Node | str:
    chained = chain(node, editor)
    wanted = steps(chained.arrangement)
    if len(wanted) > len(chained.path) or wanted == chained.spelling:
        return node
    return as_node(node, chained.source, chained.arrangement, editor)


def _cut_first(node: Node, editor: Editor) -> Node | str:
    """A part of an arranged value is the arrangement of a part, where the cut goes through whole outermost atoms."""
    chained = chain(editor.maker(node.inputs[0]), editor)
    arrangement = chained.arrangement
    atoms = arrangement.target[node.get("axis")]
    if not chained.path or len(atoms) != 1 or node.get("step", 1) != 1:
        return node
    axis = next((number for number, own in enumerate(arrangement.source) if own[:1] == atoms), None)
    if axis is None:
        return node
    inner = arrangement.extent(arrangement.source[axis][1:])
    start, stop = (inner * node.get(end) for end in ("start", "stop"))
    shape = (*arrangement.start[:axis], stop - start, *arrangement.start[axis + 1 :])
    part = editor.emit(
        "slice", (chained.source,), shape, base=node.name, source=node.source, axis=axis, start=start, stop=stop
    )
    return as_node(node, part, _of_part(arrangement, atoms[0], (stop - start) // inner, shape, node), editor)


def _of_part(arrangement: Arrangement, atom: int, extent: int, start: tuple[int, ...], node: Node) -> Arrangement:
    def kept(axes: tuple[Atoms, ...]) -> tuple[Atoms, ...]:
        if extent > 1:
            return axes
        return tuple(tuple(own for own in axis if own != atom) for axis in axes)

    extents = (*arrangement.extents[:atom], extent, *arrangement.extents[atom + 1 :])
    return Arrangement(extents, kept(arrangement.source), kept(arrangement.target), start, node.shape)


def _on_rows(node: Node, editor: Editor) -> Node | str:
    """A dense layer works on rows of (N, tokens, channels): those of attention with its heads joined, or as they were.

    What only regroups the rows comes after it.
    """
    chained = chain(editor.maker(node.inputs[0]), editor)
    joined = _rows(chained, editor)
    if joined is None or node.shape[:-1] == joined.shape[:-1]:
        return node
    source = emit_steps(chained.source, steps(joined), editor, base=node.name, source=node.source)
    shape = (*joined.shape[:-1], node.shape[-1])
    made = editor.emit(
        "dense", (source,), shape, base=node.name, source=node.source, parameters=node.parameters, **node.attributes
    )
    return replace(node, op="reshape", inputs=(made,), attributes={}, parameters=())


def _rows(chained: ArrangementChain, editor: Editor) -> Arrangement | None:
    """The arrangement as (N, tokens, channels), where its rows are in this order already."""
    arrangement = chained.arrangement
    if not chained.path or not arrangement.target[-1:]:
        return None
    lead = tuple(atom for axis in arrangement.target[:-1] for atom in axis)
    source = arrangement.source
    target = arrangement.target
    if len(arrangement.start) == 3 and source[-1] == target[-1] and lead == source[0] + source[1]:
        return unchanged(arrangement.start)
    if editor.made_by(chained.source, "attention") is None or len(arrangement.start) != 4:
        return None
    batch, heads, tokens, width = arrangement.source
    if arrangement.target[-1] != heads + width or lead != batch + tokens:
        return None
    count, _, rows, _ = arrangement.start
    shape = (count, rows, arrangement.extent(heads + width))
    return replace(arrangement, target=(batch, tokens, heads + width), shape=shape)
