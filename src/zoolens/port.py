"""`import zoolens.port`: the room `zoolens.training.port`, under its public name."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from zoolens.training import port

if TYPE_CHECKING:
    from zoolens.training.port import *  # noqa: F403

sys.modules[__name__] = port
