"""The training of a user's Keras model with its settings, which can be read and switched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from zoolens.training.pairs.live.keras.keras_settings import settings
from zoolens.training.pairs.live.keras.keras_switches import SWITCHES
from zoolens.training.pairs.live.keras.keras_training import KerasTraining
from zoolens.training.pairs.live.live_training import Setting, Switch


class SwitchableKeras(KerasTraining):
    switches: ClassVar[Mapping[str, Switch]] = SWITCHES

    def settings(self) -> dict[str, Setting]:
        return settings(self)
