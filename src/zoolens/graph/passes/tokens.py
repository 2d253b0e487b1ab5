"""Arrangements in one spelling, parts cut out before they are arranged, and the rows that attention gives.

Sources split heads, join windows and turn maps into tokens in many ways: (N, C, H, W) → (N, H, W, C) → (N, H·W, C) is
also (N, C, H·W) → (N, H·W, C). Each chain of reshapes and transposes gets its normal form here.
"""

from __future__ import annotations

from dataclasses import replace

from zoolens.graph.model import Graph, Node
from zoolens.graph.passes.arrangements import (
    Arrangement,
    ArrangementChain,
    Atoms,
    as_node,
    chain,
    emit_steps,
    steps,
    unchanged,
)
from zoolens.graph.passes.editor import Editor, rewrite


def unify_tokens(graph: Graph) -> Graph:
    return rewrite(graph, {"reshape": _normal, "transpose": _normal, "slice": _cut_first, "dense": _on_rows})


def _normal(node: Node, editor: Editor) -> Node | str:
    found = chain(node, editor)
    wanted = steps(found.arrangement)
    if len(wanted) > len(found.path) or wanted == found.spelling:
        return node
    return as_node(node, found.source, found.arrangement, editor)


def _cut_first(node: Node, editor: Editor) -> Node | str:
    """A part of an arranged value is the arrangement of a part, where the cut goes through whole outermost atoms."""
    found = chain(editor.maker(node.inputs[0]), editor)
    one, atoms = found.arrangement, found.arrangement.target[node.get("axis")]
    if not found.path or len(atoms) != 1 or node.get("step", 1) != 1:
        return node
    axis = next((number for number, own in enumerate(one.source) if own[:1] == atoms), None)
    if axis is None:
        return node
    inner = one.extent(one.source[axis][1:])
    start, stop = (inner * node.get(end) for end in ("start", "stop"))
    shape = (*one.start[:axis], stop - start, *one.start[axis + 1 :])
    part = editor.emit(
        "slice", (found.source,), shape, base=node.name, source=node.source, axis=axis, start=start, stop=stop
    )
    return as_node(node, part, _of_part(one, atoms[0], (stop - start) // inner, shape, node), editor)


def _of_part(one: Arrangement, atom: int, extent: int, start: tuple[int, ...], node: Node) -> Arrangement:
    def kept(axes: tuple[Atoms, ...]) -> tuple[Atoms, ...]:
        return tuple(tuple(own for own in axis if own != atom or extent > 1) for axis in axes)

    extents = (*one.extents[:atom], extent, *one.extents[atom + 1 :])
    return Arrangement(extents, kept(one.source), kept(one.target), start, node.shape)


def _on_rows(node: Node, editor: Editor) -> Node | str:
    """A dense layer works on rows of (N, tokens, channels): those of attention with its heads joined, or as they were.

    What only regroups the rows comes after it.
    """
    found = chain(editor.maker(node.inputs[0]), editor)
    joined = _rows(found, editor)
    if joined is None or node.shape[:-1] == joined.shape[:-1]:
        return node
    source = emit_steps(found.source, steps(joined), editor, base=node.name, source=node.source)
    shape = (*joined.shape[:-1], node.shape[-1])
    made = editor.emit(
        "dense", (source,), shape, base=node.name, source=node.source, parameters=node.parameters, **node.attributes
    )
    return replace(node, op="reshape", inputs=(made,), attributes={}, parameters=())


def _rows(found: ArrangementChain, editor: Editor) -> Arrangement | None:
    """The arrangement as (N, tokens, channels), where its rows are in this order already."""
    one = found.arrangement
    if not found.path or not one.target[-1:]:
        return None
    lead = tuple(atom for axis in one.target[:-1] for atom in axis)
    if len(one.start) == 3 and one.source[-1] == one.target[-1] and lead == one.source[0] + one.source[1]:
        return unchanged(one.start)
    if editor.made_by(found.source, "attention") is None or len(one.start) != 4:
        return None
    batch, heads, tokens, width = one.source
    if one.target[-1] != heads + width or lead != batch + tokens:
        return None
    count, _, rows, _ = one.start
    return replace(one, target=(batch, tokens, heads + width), shape=(count, rows, one.extent(heads + width)))
