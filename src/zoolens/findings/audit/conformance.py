"""Where a network departs from the paper that introduced it: the differences on which the paper is not silent."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

from zoolens.findings.audit.papers import paper
from zoolens.findings.audit.papers.compile import compile_paper
from zoolens.findings.audit.papers.paper_schema import Paper
from zoolens.findings.graph.diff import diff_causes
from zoolens.findings.graph.diff.alignment import Alignment
from zoolens.findings.graph.diff.cost_shares import INTERPLAY
from zoolens.findings.graph.diff.diff_findings import Difference
from zoolens.findings.graph.diff.report import Diff, diff
from zoolens.findings.graph.ir.model import Graph

# A paper describes what is learned; how a zoo hands over images and scores is its own affair.
ALWAYS_SILENT: Final = frozenset(
    {
        diff_causes.OUTPUT,
        diff_causes.PREPROCESSING,
        diff_causes.FLATTEN,
        diff_causes.WIRING,
        diff_causes.AUXILIARY,
        diff_causes.CLASSES,
        INTERPLAY,
    }
)
PAPER: Final = "the paper"
_NORM_ROLES: Final = frozenset({"scale", "shift", "norm_scale", "norm_shift"})
STEM: Final = "in the stem"  # up to the first block
WITHIN_BLOCK: Final = f"{diff_causes.STRIDE_PLACEMENT}: within a block"


@dataclass(frozen=True)
class Departure:
    """One departure from a paper. `text` names the paper and the network; `macs` and `parameters` are what it adds."""

    architecture: str
    cause: str
    text: str
    macs: int
    parameters: int
    states: str = ""  # what the paper says about it
    settled: str = ""  # what decides where the text alone does not


def departures(architecture: str, graph: Graph, *, name: str | None = None, width: float = 1.0) -> list[Departure]:
    """The differences of a canonical graph from the paper of its architecture, the costliest first.

    UnknownName where there is no specification of that paper.
    """
    known = paper(architecture)
    compared = compared_with_paper(known, graph, name=name, width=width)
    departing = [
        _departure(known, difference)
        for difference in compared.differences
        if not is_silent(known, difference, compared.alignment)
    ]
    return [*departing, *_added_norms(known, compared, graph)]


def _added_norms(known: Paper, compared: Diff, graph: Graph) -> list[Departure]:
    """Norms that the paper does not have; a network that lacks the paper's has them folded, which is no departure."""
    if compared.norm_blind != PAPER or diff_causes.NORM in known.silent:
        return []
    normed = [node for node in graph if node.get("norm") or node.op == "batch_norm"]
    learned = sum(parameter.size for node in normed for parameter in node.parameters if parameter.role in _NORM_ROLES)
    text = f"batch norm at {len(normed)} places in {compared.names[1]}, none in {PAPER}"
    return [Departure(known.architecture, diff_causes.NORM, text, 0, learned, known.states.get(diff_causes.NORM, ""))]


def compared_with_paper(known: Paper, graph: Graph, *, name: str | None = None, width: float = 1.0) -> Diff:
    return diff(_paper_graph(known.architecture, width), graph, names=(PAPER, name or graph.name))


@cache
def _paper_graph(architecture: str, width: float) -> Graph:
    return compile_paper(paper(architecture), width=width)


def is_silent(known: Paper, difference: Difference, alignment: Alignment) -> bool:
    """Whether the paper leaves this open: the cause as such, or the attribute or place that it is about."""
    if difference.cause in ALWAYS_SILENT or difference.cause in known.silent:
        return True
    if difference.cause == diff_causes.STRIDE_PLACEMENT:
        return WITHIN_BLOCK in known.silent and _within_blocks(difference)
    parts = _parts(difference) | ({STEM} if _in_stem(difference, alignment) else set())
    narrowed = {f"{difference.cause}: {part}" for part in parts}
    return bool(narrowed & set(known.silent))


def _parts(difference: Difference) -> set[str]:
    """The attribute names among what its findings were grouped by."""
    groups = (finding.group for finding in difference.findings)
    return {part for group in groups if isinstance(group, tuple) for part in group if isinstance(part, str)}


def _in_stem(difference: Difference, alignment: Alignment) -> bool:
    blocks = [row.a or row.b for row in (alignment.rows[finding.row] for finding in difference.findings)]
    return all(
        block is not None and (block.stage == "stem" or (block.stage, block.index) == ("stage 1", 1))
        for block in blocks
    )


def _within_blocks(difference: Difference) -> bool:
    """Whether each block strides as often as before, only in another layer."""
    sides: dict[int, set[int]] = {}
    for finding in difference.findings:
        first, second = (max(values, default=1) for values in finding.values)
        if first != second:
            sides.setdefault(finding.row, set()).add(int(second > first))
    return all(len(both) == 2 for both in sides.values())


def _departure(known: Paper, difference: Difference) -> Departure:
    stated = known.states.get(difference.cause, "")
    return Departure(
        known.architecture,
        difference.cause,
        difference.text,
        difference.macs,
        difference.parameters,
        stated,
        known.settled.get(difference.cause, ""),
    )
