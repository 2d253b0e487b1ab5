"""Datasets of third-party plug-ins: the same bytes become other samples when the plug-in's code changes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from zoolens.inventory.datasets.dataset import Dataset, DatasetView


class ReadByPlugin(DatasetView):
    """A dataset whose fingerprint also depends on the code that reads it."""

    def __init__(self, parent: Dataset, code: Mapping[str, str]) -> None:
        super().__init__(parent)
        self._code = dict(code)

    def fingerprint(self) -> str:
        content = json.dumps([self.parent.fingerprint(), self._code], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()
