"""The verdict on two runs from how often their outputs agree, shared by `compare` and `equiv`.

Both are about answers alone. They are the same where every input is answered alike in every output, as the task of the
output tells; an output or a dataset that was not compared leaves that open.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Protocol

from zoolens.base.verdicts import Coverage, Gap, Tally, Verdict, judged
from zoolens.inventory.tasks.pair_figures import NextTokenFigures
from zoolens.inventory.tasks.task import task_named

_NO_AGREEMENT: Final = "The task of the output computes the agreement: correct it."
_LARGER_SAMPLE: Final = "Give `zoolens eval` more and longer texts."
_ALL: Final = 1 - 1e-5  # of the probability, as rounded logarithms give it


class ComparedOutput(Protocol):
    """An output of two runs, as `compare` and `equiv` tell it."""

    @property
    def task(self) -> str: ...

    @property
    def agreement(self) -> float: ...

    @property
    def next_tokens(self) -> NextTokenFigures | None: ...


def agreement_verdict(
    shares: Sequence[float], left_out: int, tallies: Sequence[Tally], gaps: Sequence[Gap], open_outputs: int = 0
) -> Verdict:
    """Return the verdict on two runs from the agreement on each compared output.

    `shares`: one agreement an output, NaN where the task could not compute it. `left_out`: outputs not compared.
    `open_outputs`: how many of them are the same as far as they were kept, which is too little to know it.
    """
    known = [share for share in shares if not math.isnan(share)]
    unknown = len(shares) - len(known)
    not_numbers = [Gap("agreement that is not a number", unknown, _NO_AGREEMENT)] if unknown else []
    outputs = Tally("outputs", len(known) - open_outputs, len(shares) + left_out)
    coverage = Coverage((outputs, *tallies), (*gaps, *not_numbers))
    return judged(coverage, different=any(share < 1 for share in known))


def open_gap(output: ComparedOutput, identical: float) -> Gap | None:
    """The gap of an output that both answered alike as far as it was kept, where that is not all; None: it is known
    whether they did. `identical`: the share of inputs with bit-equal outputs, NaN where that is not known."""
    figures = output.next_tokens
    if figures is None or output.agreement < 1 or identical == 1 or figures.agreement.low >= _ALL:
        return None
    rest = 100 * (1 - figures.agreement.low)
    if figures.sampled:
        return Gap(f"differences of up to {rest:.2g} %, which samples of tokens do not show", remedy=_LARGER_SAMPLE)
    remedy = task_named(output.task).closer_agreement
    return Gap(f"tokens that were not kept, which have {rest:.2f} %", remedy=remedy)
