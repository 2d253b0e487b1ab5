"""The policy `fixed`: always the reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zoolens.faces.serving.contracts.ladder import Ladder
from zoolens.faces.serving.policies.policy import Choice, Policy, Situation
from zoolens.faces.serving.policies.policy_settings import Settings, read_settings


class Fixed(Policy):
    name = "fixed"
    summary = "always the reference, or what the client pins"

    def __init__(self, ladder: Ladder, settings: Mapping[str, Any]) -> None:
        super().__init__(ladder, settings)
        read_settings(Settings, settings, self.name)

    def choose(self, situation: Situation) -> Choice:
        usable = situation.loaded & situation.allowed or situation.allowed
        return Choice(min(usable), "The policy is fixed.")
