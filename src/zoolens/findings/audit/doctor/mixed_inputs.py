"""Data of two kinds: some inputs are answered well as the manifest says, others only if it said something else.

Labels that are numbered in two ways, or images of which some have red first and some blue, leave no manifest that is
right for all of them: the best one is no more than that of the larger part.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.findings.audit.doctor.bench import Level, VariantBench
from zoolens.findings.audit.doctor.diagnosis import Diagnosis, Status
from zoolens.findings.audit.doctor.evidence import FEWEST, Evidence
from zoolens.findings.audit.doctor.evidence_figures import RightAnswers
from zoolens.findings.audit.doctor.variants import DECLARED, Variant

# Of all inputs, on each side. Two variants that are right on half of the inputs, each by chance, reach a quarter.
_SHARE: Final = 0.3
_CLEARLY: Final = 0.5  # difference of how right an answer is, between 0 and 1


def doubt_mixed(diagnosis: Diagnosis, bench: VariantBench) -> Diagnosis:
    """Return the diagnosis, with a note where the inputs are of two kinds, and undecided where it was right."""
    found = {variant: _both_ways(bench, variant) for variant in bench.seen(Level.SELECTION)}
    variant = max(found, key=lambda one: min(found[one]), default=None)
    n = bench.sizes[Level.SELECTION]
    if variant is None or n < FEWEST or min(found[variant]) < _SHARE * n:
        return diagnosis
    lost, won = found[variant]
    words = (
        f"{lost:,} of {n:,} {bench.noun} are answered well as declared alone, and {won:,} with {variant.name} alone: "
        "these data seem to be of two kinds, such as labels that are numbered in two ways."
    )
    if diagnosis.status is Status.RIGHT:
        remedy = f"Examine the {bench.noun} of each kind alone."
        return diagnosis.undecided(f"Undecided: no variant is better, but {words}", remedy)
    return replace(diagnosis, notes=(*diagnosis.notes, words))


def _both_ways(bench: VariantBench, variant: Variant) -> tuple[int, int]:
    """How many inputs are clearly better answered as declared, and how many with the variant."""
    contrast = bench.contrast(DECLARED, variant, Level.SELECTION)
    before, after = _scores(contrast.base), _scores(contrast.other)
    if before is None or after is None or contrast.base.one_answer or contrast.other.one_answer:
        return 0, 0
    moved = after - before
    lost, won = int(np.count_nonzero(moved <= -_CLEARLY)), int(np.count_nonzero(moved >= _CLEARLY))
    # Two classes that are exchanged turn every answer round, whatever the data are.
    return (0, 0) if lost + won == len(moved) and _has_two_classes(bench) else (lost, won)


def _has_two_classes(bench: VariantBench) -> bool:
    labels = bench.data[Level.SELECTION].labels()
    return labels is not None and len(np.unique(labels)) <= 2


def _scores(evidence: Evidence) -> NDArray[Any] | None:
    """How right each answer is; None where the task says it of all answers together only, or there are none."""
    if evidence.figure is None or evidence.error is not None:
        return None
    return evidence.right.astype(np.float64) if isinstance(evidence.figure, RightAnswers) else evidence.finer
