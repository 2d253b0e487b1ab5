"""Models whose file has changed since it was measured, remembered from one query to the next.

To judge a file, its run has to be read from the store. What was judged once holds as long as the store has not changed
and the same paths hold the same content, which their digests tell.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from zoolens.base.errors import ZoolensError
from zoolens.base.paths import replaced_file
from zoolens.inventory.manifests.digests import digest

if TYPE_CHECKING:
    from zoolens.base.store.state import Newest
    from zoolens.findings.comparisons.contents import FileState

_REMEMBERED: Final = 1_000


class ChangedFiles:
    """Which models' files have changed, remembered in a file from one query to the next."""

    def __init__(self, path: Path | None, newest: Newest, judge: Callable[[str], FileState]) -> None:
        # `newest` is what the store got last: what was remembered before that is judged again.
        self._path, self._newest, self._judge = path, list(newest), judge

    def among(self, runs: Sequence[str]) -> list[str]:
        """Returns those of the runs whose files are on this machine and have changed."""
        known = self._recalled()
        judged: dict[str, Any] = {}
        changed = []
        for run in runs:
            if run not in known or not _still_so(known[run]):
                state = self._judge(run)
                judged[run] = [state.changed, state.files]
            if (judged.get(run) or known[run])[0]:
                changed.append(run)
        if lasting := {run: judgement for run, judgement in judged.items() if judgement[1] is not None}:
            self._remember({**known, **lasting})
        return changed

    def _recalled(self) -> dict[str, Any]:
        if self._path is None:
            return {}
        try:
            newest, known = json.loads(self._path.read_text(encoding="utf-8"))
            return known if newest == self._newest and isinstance(known, dict) else {}
        except (OSError, ValueError, TypeError):
            return {}

    def _remember(self, known: dict[str, Any]) -> None:
        if self._path is None:
            return
        last = dict(list(known.items())[-_REMEMBERED:])
        with suppress(OSError), replaced_file(self._path) as file:
            file.write(json.dumps([self._newest, last]).encode())


def _still_so(judged: Any) -> bool:
    try:
        return all(_digest(Path(path)) == known for path, known in judged[1])
    except (OSError, TypeError, ValueError, IndexError, ZoolensError):
        return False


def _digest(path: Path) -> str | None:
    return digest(path) if path.exists() else None
