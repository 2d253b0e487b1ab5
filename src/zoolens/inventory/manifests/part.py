"""The base of every piece of a manifest."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict

MAX_EXTENT: Final = 65_536  # no axis of a real input is longer; a 100,000×100,000 image is an attack or a typo


class Part(BaseModel):
    """Unknown keys are errors, so that a typo is found and not ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True)
