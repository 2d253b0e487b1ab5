"""`import zoolens.crosstrain`: the room `zoolens.training.crosstrain`, under its public name."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from zoolens.training import crosstrain

if TYPE_CHECKING:
    from zoolens.training.crosstrain import *  # noqa: F403

sys.modules[__name__] = crosstrain
