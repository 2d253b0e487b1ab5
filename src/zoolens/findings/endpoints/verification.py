"""What is known of an endpoint: which of the user's models may answer there, by which prompts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from zoolens.base.store.records import Run
from zoolens.base.verdicts.coverage import Coverage, Gap, Tally
from zoolens.base.verdicts.verdict import Verdict, judged
from zoolens.findings.endpoints.hypothesis import Hypothesis, Standing
from zoolens.findings.endpoints.questions import By


@dataclass(frozen=True)
class Asked:
    """One prompt and what came of it. `distances`: by model, where log-probabilities were told."""

    time: int  # nanoseconds since the Unix epoch
    tokens: int
    long: bool
    distances: Mapping[str, float]
    token: str
    against: float  # logarithm of the evidence against the named model after this prompt


@dataclass
class Verification:
    """What is known of an endpoint. `hypotheses`: the named model first, then the others."""

    address: str
    hypotheses: list[Hypothesis]
    about: Mapping[str, Any]
    settings: Mapping[str, Any]
    by: By | None = None
    asked: list[Asked] = field(default_factory=list)
    failure: str = ""  # why asking ended early
    run: Run | None = None

    @property
    def named(self) -> Hypothesis:
        return self.hypotheses[0]

    def fitting(self) -> list[Hypothesis]:
        """The models that may be behind the endpoint: all that are not rejected."""
        return [each for each in self.hypotheses if each.standing is not Standing.REJECTED]

    @property
    def settled(self) -> bool:
        left = self.fitting()
        if self.by is By.TOKENS:
            # Tokens tell models apart, and never show that no other one chooses alike.
            return not left or (len(self.hypotheses) > 1 and len(left) == 1)
        return all(each.standing is not Standing.OPEN for each in self.hypotheses)

    @property
    def is_named(self) -> bool:
        """Whether the named model is the only one that may be behind the endpoint, and was found to be."""
        if self.failure or self.fitting() != [self.named]:
            return False
        return self.named.standing is Standing.FITS

    @property
    def verdict(self) -> Verdict:
        """Different where the named model is rejected, the same where it is the only one left and fits."""
        rejected = self.named.standing is Standing.REJECTED
        gaps = () if self.is_named or rejected else (Gap("which model answers", remedy=self._remedy),)
        return judged(Coverage((Tally("prompts", len(self.asked), len(self.asked)),), gaps), different=rejected)

    @property
    def _remedy(self) -> str:
        if self.failure:
            return "Run the command again."
        if self.by is By.TOKENS:
            return "Tokens alone exclude models that are named with --or, and never say that it is this one."
        if self.named.untold:
            return "The endpoint tells too few likely tokens, or nothing of prompts that its first token ends."
        return "Ask more prompts with --most."
