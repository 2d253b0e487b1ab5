"""What is to be said beside the causes of a divergence: what was not compared, and what observing changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from zoolens.base.numerics.common_factor import common_factor
from zoolens.findings.divergence.divergence_answers import AnswerPairs
from zoolens.findings.divergence.divergence_causes import number
from zoolens.findings.divergence.examined import ExaminedInput
from zoolens.findings.divergence.result import is_beyond
from zoolens.findings.graph.ir.model import Array

_FEWEST: Final = 2  # inputs that one factor has to explain


def said_of(examined: Sequence[ExaminedInput]) -> list[str]:
    remarks = []
    inspections = [example.inspection for example in examined if example.inspection is not None]
    if not inspections:
        remarks.append("No tensor inside the models can be read: only answers and files are compared.")
    for label in ("A", "B"):
        moved = max((inspection.observed.get(label, 0.0) for inspection in inspections), default=0.0)
        if moved:
            remarks.append(
                f"Observing {label} changes how it computes: its answers move by up to {number(moved)} while tensors "
                "are read, so that what is said of its layers holds for the observed copy."
            )
    skipped = sorted({name for inspection in inspections for name in inspection.skipped})
    if skipped:
        remarks.append(
            f"{len(skipped)} tensors are larger than the memory budget and were not compared: "
            f"{', '.join(skipped[:3])}{', …' if len(skipped) > 3 else ''}; --memory raises it."
        )
    factor = _factor_of_answers([example.answers for example in examined])
    if factor is not None:
        remarks.append(
            f"On all {len(examined)} inputs looked at, the raw outputs of B are those of A × {factor:.4g}: the order "
            f"of classes is the same. If these are logits, it is a temperature of {1 / factor:.4g}, which changes "
            "confidences and calibration."
        )
    return remarks


def _factor_of_answers(answers: Sequence[tuple[Array, Array]]) -> float | None:
    """The constant that turns every answer of A into that of B; None if there is none, or a single answer to tell."""
    if len(answers) < _FEWEST or any(a.shape != b.shape for a, b in answers):
        return None
    ours = np.concatenate([a.ravel() for a, _ in answers])
    theirs = np.concatenate([b.ravel() for _, b in answers])
    found = common_factor(ours, theirs)
    return None if found is None else found.factor


def said_of_answers(answers: AnswerPairs, floor: float) -> list[str]:
    remarks: list[str] = []
    part = answers.small_part
    if part is not None and not is_beyond(answers.relative_error, floor) and part.shows_beside(floor):
        remarks.append(part.remark)
    for sides, words in (("A", "A answers"), ("B", "B answers"), ("AB", "Both sides answer")):
        count = sum(row.not_finite == sides for row in answers.rows)
        if count:
            remarks.append(f"{words} {count:,} of {len(answers.rows):,} inputs with numbers that are not finite.")
    if answers.unmatched:
        remarks.append(
            f"Of {len(answers.unmatched)} further outputs it is not known which belong to each other, so that they are "
            f"not compared: {', '.join(answers.unmatched[:5])}{', …' if len(answers.unmatched) > 5 else ''}."
        )
    return remarks
