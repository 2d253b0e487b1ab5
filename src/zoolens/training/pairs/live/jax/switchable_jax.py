"""The training of a user's JAX function with its settings, which can be read and switched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from zoolens.training.pairs.live.jax.jax_settings import settings
from zoolens.training.pairs.live.jax.jax_switches import SWITCHES
from zoolens.training.pairs.live.jax.jax_training import JaxTraining
from zoolens.training.pairs.live.live_training import Setting, Switch


class SwitchableJax(JaxTraining):
    switches: ClassVar[Mapping[str, Switch]] = SWITCHES

    def settings(self) -> dict[str, Setting]:
        return settings(self)
