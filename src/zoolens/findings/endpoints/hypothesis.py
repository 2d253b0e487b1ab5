"""What is known of the hypothesis that one model answers behind an endpoint."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.findings.endpoints.evidence import LEARNED, ShareTest, TokenTest, at_temperature, mixed

TEMPERATURES: Final = (0.5, 0.75, 1.3, 2.0)
# A model is taken for the endpoint's where it differs by more than the allowance at fewer prompts than this.
TELLING: Final = {"short": 0.2, "long": 0.5}
_WEIGHTS: Final = {"short": 2 / 3, "long": 1 / 3}
_REFUSALS: Final = 2  # of long prompts

Floats = NDArray[np.float64]


class Standing(Enum):
    FITS = "fits"
    REJECTED = "rejected"
    OPEN = "open"


@dataclass
class Hypothesis:
    """`error`: the probability with which a decision may be wrong; `allowance`: total variation of two distributions up
    to which they may be one model's, in other kernels; `rounding`: what of it tokens are tested with; `by_tokens`: the
    endpoint tells tokens alone. Otherwise how it chooses tokens says nothing of which model it has."""

    name: str
    error: float
    allowance: float
    rounding: float
    by_tokens: bool = False
    shares: dict[str, ShareTest] = field(
        default_factory=lambda: {kind: ShareTest(telling) for kind, telling in TELLING.items()}
    )
    distances: list[float] = field(default_factory=list)
    refusals: int = 0
    refusal: str = ""

    def __post_init__(self) -> None:
        self.tokens = TokenTest(self.rounding)

    def add_distance(self, distance: float | None, *, long: bool) -> None:
        """`distance`: None where too little is told for one."""
        share = self.shares["long" if long else "short"]
        if distance is None:
            share.add_untold()
            return
        self.distances.append(distance)
        share.add(exceeds=distance > self.allowance)

    def add_token(self, own: Floats, others: Mapping[str, Floats], token: int | None, uniform: float) -> None:
        """`token`: None stands for one that the model does not have, which it gives no probability."""
        if token is None:
            own, others = np.append(own, 0.0), {name: np.append(other, 0.0) for name, other in others.items()}
            token = len(own) - 1
        warmer = {f"temperature {value:g}": at_temperature(own, value) for value in TEMPERATURES}
        self.tokens.add(own, {**warmer, **others}, token, uniform)

    def add_refusal(self, reason: str) -> None:
        """The endpoint did not take a prompt that the model takes."""
        self.refusals += 1
        self.refusal = reason
        self.shares["long"].add_untold()

    def withdraw_refusals(self) -> None:
        """It took a prompt as long as those."""
        self.refusals = 0

    @property
    def log_against(self) -> float:
        """The logarithm of the capital against this hypothesis."""
        if self.by_tokens:
            return self.tokens.log_capital
        return mixed([(_WEIGHTS[kind], share.against_honest) for kind, share in self.shares.items()])

    @property
    def draws_otherwise(self) -> bool:
        """Whether its tokens are not drawn from its distribution."""
        return self.tokens.log_capital >= math.log(1 / self.error)

    @property
    def standing(self) -> Standing:
        """By log-probabilities it fits where both short and long prompts exclude another model; tokens alone exclude
        nothing but what was bet on."""
        if self.refusals >= _REFUSALS or self.log_against >= math.log(1 / self.error):
            return Standing.REJECTED
        if self.distances and all(share.against_other >= math.log(1 / self.error) for share in self.shares.values()):
            return Standing.FITS
        return Standing.OPEN

    @property
    def untold(self) -> int:
        """Prompts of which too little was told."""
        return sum(share.untold for share in self.shares.values())

    @property
    def asked(self) -> int:
        return max(self.tokens.asked, len(self.distances)) + self.refusals

    @property
    def cause(self) -> str:
        """Which evidence rejects it."""
        if self.refusals >= _REFUSALS:
            return f"the endpoint refuses long prompts ({self.refusal.rstrip('.')})"
        share = {kind: f"{test.exceeded} of {test.asked} {kind} prompts" for kind, test in self.shares.items()}
        strongest = max(self.shares, key=lambda kind: self.shares[kind].against_honest)
        if not self.by_tokens:
            return f"at {share[strongest]} the distributions differ by more than {self.allowance:g}"
        best = self.tokens.best
        if best == LEARNED:
            return "its tokens lie at other places of the distribution"
        return f"its tokens fit better to {best}"
