"""`import zoolens.tracing`: the room `zoolens.findings.tracing`, under its public name."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from zoolens.findings import tracing

if TYPE_CHECKING:
    from zoolens.findings.tracing import *  # noqa: F403

sys.modules[__name__] = tracing
