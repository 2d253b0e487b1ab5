"""What an output may do, as manifests name it."""

from __future__ import annotations

from typing import Final

CLASSIFICATION: Final = "classification"
