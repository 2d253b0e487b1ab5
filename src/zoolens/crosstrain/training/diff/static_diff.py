"""`static_diff`: every difference in definition and defaults between two frameworks' versions of an architecture."""

from __future__ import annotations

from collections.abc import Iterator

from zoolens.crosstrain.training.diff import defaults, heads, sizes, structure
from zoolens.crosstrain.training.diff.findings import KINDS, Finding, Item, Same, StaticDiff
from zoolens.crosstrain.training.live.inspection import Side, inspected, question
from zoolens.graph.diff.report import diff as graph_diff


def static_diff(a: str, b: str, *, classes: int = 10, input_shape: tuple[int, int, int] = (3, 32, 32)) -> StaticDiff:
    """Compare "FRAMEWORK:ARCHITECTURE" with another by inspecting live objects, each side in a process of its own.

    `input_shape`: channels, height, width of the images to train on.
    """
    one, two = inspected([question(ref, input_shape, classes) for ref in (a, b)])
    return compare(one, two)


def compare(a: Side, b: Side) -> StaticDiff:
    found = sorted(_findings(a, b), key=lambda finding: KINDS.index(finding.kind))
    return StaticDiff(
        a.ref,
        b.ref,
        (a.facts.network, b.facts.network),
        (a.facts.versions, b.facts.versions),
        tuple(one for one in found if isinstance(one, Item)),
        tuple(one for one in found if isinstance(one, Same)),
    )


def _findings(a: Side, b: Side) -> Iterator[Finding]:
    one, two = a.facts, b.facts
    graphs = graph_diff(a.graph, b.graph, names=_names(a.ref, b.ref))
    pairs = structure.aligned(graphs, one, two)
    yield from structure.counts(one, two)
    yield from structure.others(graphs)
    yield from sizes.parameters(pairs, one, two)
    yield from structure.biases(one, two, graphs)
    yield from structure.dropouts(one, two)
    yield from structure.strides(graphs)
    yield from structure.paddings(pairs, one, two)
    yield from heads.heads(one, two)
    yield from defaults.norms(one, two)
    yield from defaults.initial(one, two)
    yield from defaults.loss(one, two)
    yield from defaults.updates(one, two)
    yield from defaults.layout(one, two)


def _names(a: str, b: str) -> tuple[str, str]:
    """What the sentences call the two: the frameworks if those differ."""
    frameworks = a.partition(":")[0], b.partition(":")[0]
    return frameworks if frameworks[0] != frameworks[1] else (f"{a} (A)", f"{b} (B)")
