"""The training of a user's torch network with its settings, which can be read and switched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from zoolens.training.pairs.live.live_training import Setting, Switch
from zoolens.training.pairs.live.torch.torch_settings import settings
from zoolens.training.pairs.live.torch.torch_switches import SWITCHES
from zoolens.training.pairs.live.torch.torch_training import TorchTraining


class SwitchableTorch(TorchTraining):
    switches: ClassVar[Mapping[str, Switch]] = SWITCHES

    def settings(self) -> dict[str, Setting]:
        return settings(self)
