"""The policy `fixed`: always the reference."""

from __future__ import annotations

from zoolens.serving.policies.base import Choice, Policy, Situation


class Fixed(Policy):
    name = "fixed"
    summary = "always the reference, or what the client pins"

    def choose(self, situation: Situation) -> Choice:
        rung = 0 if 0 in situation.allowed else min(situation.allowed)
        return Choice(rung, "The policy is fixed.")
