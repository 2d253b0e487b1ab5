"""`static_diff`: every difference in definition and defaults between two frameworks' versions of an architecture."""

from __future__ import annotations

from collections.abc import Iterator

from zoolens.findings.graph.diff.report import diff as graph_diff
from zoolens.training.crosstrain.training.diff import defaults, heads, recipe_structure, sizes
from zoolens.training.crosstrain.training.diff.recipe_findings import KINDS, Finding, Item, Same, StaticDiff
from zoolens.training.crosstrain.training.live.inspection import InspectedSide, inspected, question


def static_diff(a: str, b: str, *, classes: int = 10, input_shape: tuple[int, int, int] = (3, 32, 32)) -> StaticDiff:
    """Compare "FRAMEWORK:ARCHITECTURE" with another by inspecting live objects, each framework in a process of its own.

    `input_shape`: channels, height, width of the images to train on.
    """
    first, second = inspected([question(ref, input_shape, classes) for ref in (a, b)])
    return compare(first, second)


def compare(a: InspectedSide, b: InspectedSide) -> StaticDiff:
    findings = sorted(_findings(a, b), key=lambda finding: KINDS.index(finding.kind))
    return StaticDiff(
        a.ref,
        b.ref,
        (a.facts.network, b.facts.network),
        (a.facts.versions, b.facts.versions),
        tuple(finding for finding in findings if isinstance(finding, Item)),
        tuple(finding for finding in findings if isinstance(finding, Same)),
    )


def _findings(a: InspectedSide, b: InspectedSide) -> Iterator[Finding]:
    first, second = a.facts, b.facts
    graphs = graph_diff(a.graph, b.graph, names=_names(a.ref, b.ref))
    pairs = recipe_structure.aligned(graphs, first, second)
    yield from recipe_structure.counts(first, second)
    yield from recipe_structure.others(graphs)
    yield from sizes.parameters(pairs, first, second)
    yield from recipe_structure.biases(first, second, graphs)
    yield from recipe_structure.dropouts(first, second)
    yield from recipe_structure.strides(graphs)
    yield from recipe_structure.paddings(pairs, first, second)
    yield from heads.heads(first, second)
    yield from defaults.norms(first, second)
    yield from defaults.initial(first, second)
    yield from defaults.loss(first, second)
    yield from defaults.updates(first, second)
    yield from defaults.behaviours(first, second)
    yield from defaults.layout(first, second)


def _names(a: str, b: str) -> tuple[str, str]:
    """What the sentences call the two: the frameworks if those differ."""
    frameworks = a.partition(":")[0], b.partition(":")[0]
    return frameworks if frameworks[0] != frameworks[1] else (f"{a} (A)", f"{b} (B)")
