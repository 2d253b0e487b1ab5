"""Models whose file has changed since it was measured, remembered from one query to the next.

To judge a file, its run has to be read from the store. What was judged once holds as long as the store has not changed
and the same paths hold the same content, which their digests tell.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from zoolens.base.errors import ZoolensError
from zoolens.base.paths import replaced_file
from zoolens.inventory.manifests.digests import digest

if TYPE_CHECKING:
    from zoolens.base.store.state import Newest
    from zoolens.findings.comparisons.contents import FileState

# Where most of the best models have changed, a query looks at hundreds: if fewer were remembered, each would be judged
# again at every query. One takes a few hundred bytes.
_REMEMBERED: Final = 20_000


class ChangedFiles:
    """Which models' files have changed, remembered in a file from one query to the next."""

    def __init__(
        self, path: Path | None, newest: Newest, judge: Callable[[Sequence[str]], Mapping[str, FileState]]
    ) -> None:
        # `newest` is what the store got last: what was remembered before that is judged again.
        self._path, self._newest, self._judge = path, list(newest), judge

    def among(self, runs: Sequence[str]) -> list[str]:
        """Returns those of the runs whose files are on this machine and have changed."""
        known, digests = self._known, _Digests()
        wanted = [run for run in runs if run not in known or not _still_so(known[run], digests)]
        judged = {run: [state.changed, state.files] for run, state in self._judge(wanted).items()} if wanted else {}
        if lasting := {run: judgement for run, judgement in judged.items() if judgement[1] is not None}:
            known |= lasting
            self._remember(known)
        return [run for run in runs if (judged.get(run) or known[run])[0]]

    @cached_property
    def _known(self) -> dict[str, Any]:
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


class _Digests(dict[str, str | None]):
    """The digest of what lies at each path; None where nothing does. Very many models are of a few files."""

    def __missing__(self, name: str) -> str | None:
        path = Path(name)
        self[name] = found = digest(path) if path.exists() else None
        return found


def _still_so(judged: Any, digests: _Digests) -> bool:
    try:
        return all(digests[path] == known for path, known in judged[1])
    except (OSError, TypeError, ValueError, IndexError, ZoolensError):
        return False
