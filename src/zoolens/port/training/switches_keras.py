"""How settings of a live Keras model, its optimizer and its loss are changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from zoolens.port.training.base import Switch

SWITCHES: Final[Mapping[str, Switch]] = {}
