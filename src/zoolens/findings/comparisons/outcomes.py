"""The verdict on two runs from how often their outputs agree, shared by `compare` and `equiv`.

Both are about answers alone. They are the same where every input is answered alike in every output, as the task of the
output tells; an output or a dataset that was not compared leaves that open.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from zoolens.base.verdicts import Coverage, Gap, Tally, Verdict, judged

_NO_AGREEMENT: Final = "The task of the output computes the agreement: correct it."


def agreement_verdict(shares: Sequence[float], left_out: int, tallies: Sequence[Tally], gaps: Sequence[Gap]) -> Verdict:
    """Return the verdict on two runs from the agreement on each compared output.

    `shares`: one agreement an output, NaN where the task could not compute it. `left_out`: outputs not compared.
    """
    known = [share for share in shares if not math.isnan(share)]
    unknown = len(shares) - len(known)
    not_numbers = [Gap("agreement that is not a number", unknown, _NO_AGREEMENT)] if unknown else []
    outputs = Tally("outputs", len(known), len(shares) + left_out)
    coverage = Coverage((outputs, *tallies), (*gaps, *not_numbers))
    return judged(coverage, different=any(share < 1 for share in known))
