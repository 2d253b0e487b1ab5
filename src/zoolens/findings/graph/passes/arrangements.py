"""The algebra of reshapes and transposes: what a chain of them does, whatever its form.

Every axis is a product of *atoms*, factors of extents that no step of the chain takes apart. A chain only puts the
atoms of its source in another order and joins them to other axes, so two chains do the same if the atoms agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import Any, Final

from zoolens.findings.graph.ir.model import Node, Shape, Value
from zoolens.findings.graph.passes.editor import Editor

Atoms = tuple[int, ...]
STEPS: Final = ("reshape", "transpose")
_LONGEST: Final = 16  # steps of one chain that are followed
_KEPT: Final = 1_024  # arrangements: networks repeat their blocks, and passes look at each again


@dataclass(frozen=True)
class Arrangement:
    """Atoms are numbered; `source` and `target` have those of each axis, outermost first. Extents of 1 have none."""

    extents: tuple[int, ...]
    source: tuple[Atoms, ...]
    target: tuple[Atoms, ...]
    start: Shape
    shape: Shape

    @property
    def inverse(self) -> Arrangement:
        return Arrangement(self.extents, self.target, self.source, self.shape, self.start)

    def extent(self, atoms: Iterable[int]) -> int:
        return prod(self.extents[atom] for atom in atoms)


@dataclass(frozen=True)
class ArrangementStep:
    op: str
    shape: Shape
    perm: tuple[int, ...] | None = None


def unchanged(shape: Shape) -> Arrangement:
    axes = tuple((axis,) if extent != 1 else () for axis, extent in enumerate(shape))
    return Arrangement(tuple(shape), axes, axes, tuple(shape), tuple(shape))


def turned(before: Arrangement, perm: Sequence[int]) -> Arrangement:
    shape = tuple(before.shape[axis] for axis in perm)
    return replace(before, target=tuple(before.target[axis] for axis in perm), shape=shape)


@lru_cache(maxsize=_KEPT)
def reshaped(before: Arrangement, shape: Shape) -> Arrangement | None:
    """Returns the axes after a reshape, None where the new axes cut through an extent in a way that no factor of it
    explains (6 as 4 and 9 as …)."""
    before = _joined(before)
    extents = list(before.extents)
    cut: dict[int, Atoms] = {}
    waiting = [atom for axis in before.target for atom in axis][::-1]
    target: list[Atoms] = []
    for extent in shape:
        atoms: list[int] = []
        missing = extent
        while missing > 1:
            if not waiting:
                return None
            atom = waiting.pop()
            if missing % extents[atom]:
                if extents[atom] % missing:
                    return None
                inner = len(extents)
                extents.append(extents[atom] // missing)
                extents[atom] = missing
                cut[atom] = (atom, inner)
                waiting.append(inner)
            missing //= extents[atom]
            atoms.append(atom)
        target.append(tuple(atoms))
    source = tuple(_with_cuts(axis, cut) for axis in before.source)
    if waiting:
        return None
    return Arrangement(tuple(extents), source, tuple(target), before.start, tuple(shape))


def _joined(before: Arrangement) -> Arrangement:
    """Atoms of one axis that are side by side again are one atom: 56 as 8·7 may next be 7·8."""
    follows = dict(pairwise(atom for axis in before.source for atom in axis))
    home = {atom: axis for axis, atoms in enumerate(before.source) for atom in atoms}
    extents = list(before.extents)
    first = last = -1
    gone: set[int] = set()
    for atom in (atom for axis in before.target for atom in axis):
        if follows.get(last) == atom and home[last] == home[atom]:
            extents[first] *= extents[atom]
            gone.add(atom)
        else:
            first = atom
        last = atom
    source, target = (
        tuple(tuple(own for own in axis if own not in gone) for axis in s) for s in (before.source, before.target)
    )
    return replace(before, extents=tuple(extents), source=source, target=target)


def _with_cuts(axis: Atoms, cut: dict[int, Atoms]) -> Atoms:
    atoms: list[int] = []
    waiting = list(axis[::-1])
    while waiting:
        atom = waiting.pop()
        if atom in cut:
            atom, inner = cut[atom]
            waiting.append(inner)
        atoms.append(atom)
    return tuple(atoms)


@dataclass(frozen=True)
class ArrangementChain:
    """A value, how it was arranged on the way here, and the nodes that did it, first to last."""

    source: str
    arrangement: Arrangement
    path: tuple[Node, ...]

    @property
    def spelling(self) -> tuple[ArrangementStep, ...]:
        return tuple(
            ArrangementStep(node.op, node.shape, tuple(node.get("perm")) if node.op == "transpose" else None)
            for node in self.path
        )


def chain(node: Node, editor: Editor, stop: Callable[[str], bool] = lambda _: False) -> ArrangementChain:
    """The arrangement that ends in a node, as far back as it can be followed, or to a value where `stop` holds."""
    path: list[Node] = []
    here = node
    while _arranges(here) and len(path) < _LONGEST and not (path and stop(here.name)):
        path.append(here)
        here = editor.maker(here.inputs[0])
    while path:
        arrangement = _followed(here.shape, path[::-1])
        if arrangement is not None:
            return ArrangementChain(here.name, arrangement, tuple(path[::-1]))
        here = path.pop()
    return ArrangementChain(node.name, unchanged(node.shape), ())


def _arranges(node: Node) -> bool:
    return node.op in STEPS or (node.op == "flatten" and node.get("order") is None)


def _followed(shape: Shape, path: Iterable[Node]) -> Arrangement | None:
    arrangement: Arrangement | None = unchanged(shape)
    for node in path:
        if arrangement is None:
            return None
        turns = node.op == "transpose"
        arrangement = turned(arrangement, node.get("perm")) if turns else reshaped(arrangement, node.shape)
    return arrangement


@lru_cache(maxsize=_KEPT)
def steps(arrangement: Arrangement) -> tuple[ArrangementStep, ...]:
    """The normal form: split and join axes, turn them, split and join again; what is not needed is left out.

    Axes of extent 1 are turned with the others where that spares splitting before or joining after.
    """
    groups = _groups(arrangement)
    order = [atom for axis in arrangement.source for atom in axis if atom in groups]
    wanted = [atom for axis in arrangement.target for atom in axis if atom in groups]
    if order == wanted:
        return () if arrangement.start == arrangement.shape else (ArrangementStep("reshape", arrangement.shape),)
    whole, joined = ((extent for extent in shape if extent > 1) for shape in (arrangement.start, arrangement.shape))
    sizes = {atom: arrangement.extent(groups[atom]) for atom in order}
    is_split = [*whole] == [*map(sizes.get, order)]
    is_joined = [*joined] == [*map(sizes.get, wanted)]
    if is_joined and not (is_split and len(arrangement.start) > len(arrangement.shape)):
        after = arrangement.shape
        keeps_rank = is_split and len(arrangement.start) == len(after)
        before = arrangement.start if keeps_rank else _after_ones(after, order, sizes)
    elif is_split:
        before = arrangement.start
        after = _after_ones(before, wanted, sizes)
    else:
        batch = (1,) if arrangement.start[0] == arrangement.shape[0] == 1 else ()
        before, after = ((*batch, *map(sizes.__getitem__, atoms)) for atoms in (order, wanted))
    return (
        *((ArrangementStep("reshape", before),) if before != arrangement.start else ()),
        ArrangementStep("transpose", after, _turn(before, order, after, wanted)),
        *((ArrangementStep("reshape", arrangement.shape),) if after != arrangement.shape else ()),
    )


def _after_ones(like: Shape, atoms: Sequence[int], sizes: Mapping[int, int]) -> Shape:
    """The extents of atoms behind as many axes of extent 1 as another shape has."""
    ones = [extent for extent in like if extent == 1]
    extents = [sizes[atom] for atom in atoms]
    return (*ones, *extents)


def _turn(before: Shape, order: Sequence[int], after: Shape, wanted: Sequence[int]) -> tuple[int, ...]:
    """For each axis after a transpose, the one before; axes of extent 1 keep their order among themselves."""
    ones = iter([axis for axis, extent in enumerate(before) if extent == 1])
    others = [axis for axis, extent in enumerate(before) if extent > 1]
    home = dict(zip(order, others, strict=True))
    atoms = iter(wanted)
    return tuple(next(ones) if extent == 1 else home[next(atoms)] for extent in after)


def _groups(arrangement: Arrangement) -> dict[int, Atoms]:
    """Atoms that stay side by side, and on one axis before or after, move as one; by the first of them."""
    home = {atom: axis for axis, atoms in enumerate(arrangement.source) for atom in atoms}
    place = {atom: axis for axis, atoms in enumerate(arrangement.target) for atom in atoms}
    follows = dict(pairwise(atom for axis in arrangement.target for atom in axis))
    groups: dict[int, Atoms] = {}
    first = -1
    for atom in (atom for axis in arrangement.source for atom in axis):
        last = groups[first][-1] if groups else -1
        together = groups and follows.get(last) == atom and (home[last] == home[atom] or place[last] == place[atom])
        if together:
            groups[first] = (*groups[first], atom)
        else:
            groups[atom] = (atom,)
            first = atom
    return groups


def emit_steps(name: str, wanted: Iterable[ArrangementStep], editor: Editor, *, base: str, source: str = "") -> str:
    """The value after these steps."""
    for step in wanted:
        perm: dict[str, Any] = {"perm": step.perm} if step.perm is not None else {}
        name = editor.emit(step.op, (name,), step.shape, base=base, source=source, **perm)
    return name


def as_node(node: Node, name: str, arrangement: Arrangement, editor: Editor) -> Node | str:
    """The node turned into the last step of an arrangement of the value `name`; the steps before it are added."""
    wanted = steps(arrangement)
    if not wanted:
        return name
    name = emit_steps(name, wanted[:-1], editor, base=node.name, source=node.source)
    last = wanted[-1]
    attributes: dict[str, Value] = {"perm": last.perm} if last.perm is not None else {}
    return replace(node, op=last.op, inputs=(name,), shape=last.shape, attributes=attributes, parameters=(), axes="")
