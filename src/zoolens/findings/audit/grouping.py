"""Which of the networks with one name are the same network, and how the others differ from it.

Two networks are the same if nothing differs but the image size, the number of classes, and constants that leave every
layer in its place: epsilon, the side on which padding lies, biases. The largest group is the reference: where zoos
disagree, most users have met the network that most zoos offer. A network with operators that are not understood is in
no group unless what is understood of it proves that it is another network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from zoolens.base.verdicts import Outcome
from zoolens.findings.audit.comparing_processes import Job, received
from zoolens.findings.audit.memo import Memo
from zoolens.findings.audit.networks import ZooNetwork
from zoolens.findings.graph.diff.cost_shares import INTERPLAY
from zoolens.findings.graph.diff.diff_causes import CLASSES, CONSTANTS, INPUT_SIZE
from zoolens.findings.graph.diff.equivalent_forms import left_aside
from zoolens.findings.graph.diff.report import diff
from zoolens.findings.graph.diff.unknown_numbers import unknown_numbers
from zoolens.findings.graph.ir.equality import same_structure
from zoolens.findings.graph.ir.rotary_tables import has_rotary_tables

NOT_STRUCTURE: Final = CONSTANTS | {CLASSES, INPUT_SIZE}


@dataclass(frozen=True)
class DifferenceWords:
    """One difference in words; `macs` is what it adds."""

    cause: str
    text: str
    macs: int


@dataclass(frozen=True)
class StructureComparison:
    """How network `other` differs from network `base`."""

    base: ZooNetwork
    other: ZooNetwork
    verdict: str
    differences: tuple[DifferenceWords, ...]
    outcome: Outcome | None = None  # None: as the differences say

    @property
    def causes(self) -> tuple[str, ...]:
        """The dearest first. Costs that no single difference explains have none of their own."""
        return tuple(
            dict.fromkeys(difference.cause for difference in self.differences if difference.cause != INTERPLAY)
        )

    @property
    def main_cause(self) -> str:
        """The dearest that makes it another network; what does not (the image size) may cost more."""
        structural = (cause for cause in self.causes if cause not in NOT_STRUCTURE)
        return next(structural, self.causes[0] if self.causes else INTERPLAY)

    @property
    def structural_macs(self) -> int:
        """What its structure adds, image size and class count aside."""
        return sum(
            difference.macs for difference in self.differences if difference.cause not in NOT_STRUCTURE | {INTERPLAY}
        )

    @property
    def is_known(self) -> bool:
        return self.outcome is not Outcome.NOT_KNOWN

    @property
    def same_network(self) -> bool:
        return self.is_known and set(self.causes) <= NOT_STRUCTURE


@dataclass(frozen=True)
class Grouped:
    """`groups[0]` is the reference. `between` compares the others with it, `within` each with its group's first;
    `open` has the comparisons of networks of which it is not known which group they belong to."""

    groups: tuple[tuple[ZooNetwork, ...], ...]
    between: tuple[StructureComparison, ...]
    within: tuple[StructureComparison, ...]
    open: tuple[StructureComparison, ...] = ()

    def number(self, network: ZooNetwork) -> int | None:
        """The place of its group; None if its structure is not known."""
        refs = ({member.ref for member in members} for members in self.groups)
        return next((place for place, known in enumerate(refs) if network.ref in known), None)


def group(networks: Sequence[ZooNetwork], memo: Memo) -> Grouped:
    groups: list[list[ZooNetwork]] = []
    within: list[StructureComparison] = []
    unknown: list[StructureComparison] = []
    known = [network for network in networks if network.known]
    for network in sorted(known, key=lambda network: not network.understood):  # stable: those understood come first
        compared = [compare(members[0], network, memo) for members in groups]
        alike = next((place for place, comparison in enumerate(compared) if comparison.same_network), None)
        open_ = next((comparison for comparison in compared if not comparison.is_known), None)
        if alike is not None:
            groups[alike].append(network)
            within.append(compared[alike])
        elif open_ is not None:
            unknown.append(open_)
        else:
            groups.append([network])
    # Stable: the table's order decides ties.
    groups.sort(key=lambda members: -len({member.zoo for member in members}))
    between = [compare(groups[0][0], members[0], memo) for members in groups[1:]]
    return Grouped(tuple(tuple(members) for members in groups), tuple(between), tuple(within), tuple(unknown))


def compare(base: ZooNetwork, other: ZooNetwork, memo: Memo) -> StructureComparison:
    key = (base.content, other.content, base.label, other.label)
    job = {
        "graphs": [base.sent, other.sent],
        "labels": [base.label, other.label],
        "understood": base.understood and other.understood,
    }
    compared = memo.recall("diff", key, told, job)
    differences = tuple(DifferenceWords(**difference) for difference in compared["differences"])
    return StructureComparison(base, other, compared["verdict"], differences, Outcome(compared["outcome"]))


def told(job: Job) -> dict[str, Any]:
    """How one graph differs from another, in words."""
    base, other = map(received, job["graphs"])
    names: tuple[str, str] = tuple(job["labels"])
    # Most are, and seeing that takes a tenth of the time. Equal structures say nothing of numbers that are not known.
    told_by_diff = has_rotary_tables(base) or has_rotary_tables(other) or left_aside(base, other)
    is_open = told_by_diff or unknown_numbers(base, other, names)
    if job["understood"] and same_structure(base, other) and not is_open:
        return {"verdict": "the same network", "differences": [], "outcome": Outcome.SAME.value}
    compared = diff(base, other, names=names)
    differences = [
        asdict(DifferenceWords(difference.cause, difference.text, difference.macs))
        for difference in compared.differences
    ]
    return {"verdict": compared.verdict, "differences": differences, "outcome": compared.decision.outcome.value}
