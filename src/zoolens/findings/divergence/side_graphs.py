"""What can be compared inside a side: its graph, and the tensors of its model that can be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from zoolens.base import plugins
from zoolens.base.errors import UnsupportedAbility, ZoolensError
from zoolens.findings.divergence.evaluation import with_grids
from zoolens.findings.divergence.holes import Extents, with_holes
from zoolens.findings.divergence.points import Alike, in_order, observable
from zoolens.findings.divergence.quantisation import quantised_tensors
from zoolens.findings.divergence.sides import Feeds, Side
from zoolens.findings.graph.ir.file_operators import with_file_operators
from zoolens.findings.graph.ir.model import Array, Graph
from zoolens.findings.graph.structures.weighted_graph import canonical_with_facts, raw_graph
from zoolens.findings.measure.jobs import Job
from zoolens.inventory.manifests.digests import digest
from zoolens.inventory.runtimes.observing import CapturePoint

_TOGETHER: Final = 16  # points that are read at a time where their sizes are not known
_COPIES: Final = 3  # of a captured tensor: itself and as float64
_FITTING: Final = 0.5  # of the layers with weights that must have a tensor of their shape


def with_graph(side: Side, feeds: Feeds, other: Side | None = None) -> Side:
    """The side with its graph, if that can be read; the very same where the other side has the same files. Extents that
    the file leaves open are those of `feeds`, which the manifest and the sample have fixed."""
    if other is not None and other.graph is not None and same_files(side.job, other.job):
        return replace(side, raw=other.raw, graph=other.graph, holes=other.holes)

    def read(extents: Extents) -> Graph:
        return with_file_operators(raw_graph(side.job.entry, side.job.asset, extents))

    try:
        opened = with_holes(side, read, feeds)
        assert opened.raw is not None
        graph = canonical_with_facts(opened.raw)
    except ZoolensError as error:
        return side.noting(f"{side.label}: {error.message}")
    return replace(opened, graph=graph)


def same_files(a: Job, b: Job) -> bool:
    if a.asset.format != b.asset.format or a.paths.keys() != b.paths.keys():
        return False
    return all(path == b.paths[role] or digest(path) == digest(b.paths[role]) for role, path in a.paths.items())


def with_points(side: Side, index: int, known: Alike | None = None) -> Side:
    """The side with the tensors inside its model that can be read, and the grids of those that its file quantises,
    both found in its graph. `known`: which values of its two graphs are the same, where that was found already."""
    points: tuple[CapturePoint, ...] = ()
    try:
        every = side.subject.session.capture_points()
        points = tuple(point for point in every if point.kept) or every  # reading others changes the computation
    except (UnsupportedAbility, NotImplementedError):
        side = side.noting(_cannot_capture(side))
    except ZoolensError as error:
        side = side.noting(f"{side.label}: {error.message}")
    tensors = quantised_tensors(side.job.asset.format, side.job.paths)
    if not points and not tensors:
        return side
    assert side.raw is not None
    assert side.graph is not None
    observed = observable(side.raw, side.graph, points, side.real_inputs(side.feeds(index)), tensors, known)
    readable = replace(side, points=observed.points, graph=with_grids(side.graph, observed.grids))
    return _without_integers(readable, index) if tensors else readable


def with_borrowed_graph(side: Side, other: Side, index: int, memory: int) -> Side:
    """The side held against the graph of the other one, since its own cannot be read. Tensors are aligned by their
    order and shapes, which a runtime that computes another network would not bear. The side as it is where too few
    fit."""
    assert other.graph is not None
    try:
        points = side.subject.session.capture_points()
        shown, left_out = captured_within(side, side.feeds(index), points, memory)
        fitting = in_order(other.graph, points, shown, other.real_inputs(other.feeds(index)))
    except (UnsupportedAbility, NotImplementedError):
        return side.noting(_cannot_capture(side))
    except ZoolensError as error:
        return side.noting(f"{side.label}: its layers were not compared. {error.message}")
    if left_out:
        note = (
            f"{side.label}: {left_out} of the {len(points)} tensors that it shows were not read, since all of them "
            "together exceed the memory budget; --memory raises it."
        )
        side = side.noting(note)
    learned = [node for node in other.graph.nodes if node.parameters]
    if len(fitting) < _FITTING * len(learned):
        note = (
            f"{side.label}: only {len(fitting)} of its tensors have the shape of a layer of {other.label}, which has "
            f"{len(learned)} layers with weights: the two are networks of different structure."
        )
        return replace(side.noting(note), foreign=True)
    note = (
        f"{side.label}: its graph cannot be read, so that it is held against the graph of {other.label}, tensor by "
        "tensor in order, shape and value."
    )
    return replace(side.noting(note), graph=other.graph, raw=other.raw, borrowed=True, points=fitting)


def captured_within(
    side: Side, feeds: Feeds, points: Sequence[CapturePoint], memory: int
) -> tuple[dict[str, Array], int]:
    """What a few points at a time show, until the budget is spent; and how many points were left out."""
    shown: dict[str, Array] = {}
    for start in range(0, len(points), _TOGETHER):
        held = sum(array.nbytes for array in shown.values())
        if held * _COPIES > memory:
            return shown, len(points) - start
        names = tuple(point.name for point in points[start : start + _TOGETHER])
        shown |= side.subject.session.capture(side.batched(feeds), names).tensors
    return shown, 0


def _without_integers(side: Side, index: int) -> Side:
    """Removes points that give integers of which nobody knows what real numbers they stand for."""
    feeds = side.feeds(index)

    def is_known(node: str) -> bool:
        return side.points[node].grid is not None or not side.is_stored(feeds, node)

    return replace(side, points={node: observed for node, observed in side.points.items() if is_known(node)})


def _cannot_capture(side: Side) -> str:
    able = ", ".join(_capturing()) or "none yet"
    return (
        f"{side.label}: {side.job.runtime.full_name} does not show the tensors inside a model, so that its layers are "
        f"not compared; these runtimes do: {able}."
    )


def _capturing() -> list[str]:
    names = []
    for name in plugins.names(plugins.RUNTIMES):
        try:
            kind = plugins.load(plugins.RUNTIMES, name)
        except ZoolensError:
            continue
        if "capture" not in kind.cannot:
            names.append(name)
    return names
