"""What was derived once from graphs need not be derived again: results by the content they were derived from.

Nothing here is a fact of its own. The keys hold digests of the graphs and of the code that compared them, so that an
entry can be missing but never wrong, and the file can be deleted at any time.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

from zoolens.base.paths import cache_dir
from zoolens.findings.audit.comparing_processes import ComparingProcesses, Job
from zoolens.findings.graph.structures.structure_sources import code_version

_DERIVING: Final = ("base/numerics", "findings/graph", "findings/audit")  # packages whose code the results depend on


class Memo:
    """A memo in memory, and in a file where one is given. A file that cannot be used is done without."""

    def __init__(self, path: Path | None = None) -> None:
        self._known: dict[str, Any] = {}
        self._new: dict[str, Any] = {}
        self._path = path
        self.processes = ComparingProcesses(0)  # that derive what is not known
        if path is not None:
            self._known = dict(_read(path))

    def recall(self, kind: str, key: tuple[str, ...], derive: Callable[[Job], Any], job: Job) -> Any:
        """The JSON-able value that `derive` gives for a job, without calling it where it was called before."""
        name = hashlib.sha256("\0".join((kind, derivation(), *key)).encode()).hexdigest()
        if name not in self._known:
            derived = self.processes.result(derive, job)
            self._known[name] = self._new[name] = json.loads(json.dumps(derived))
        return self._known[name]

    @contextmanager
    def deriving(self, processes: ComparingProcesses) -> Iterator[None]:
        """What is not known is derived by these processes, which end with the `with`."""
        own, self.processes = self.processes, processes
        try:
            with processes:
                yield
        finally:
            self.processes = own

    def save(self) -> None:
        if self._path is not None and self._new:
            _write(self._path, self._new)
            self._new = {}


@contextmanager
def kept_memo() -> Iterator[Memo]:
    """The user's own, saved at the end, also of work that was cut short."""
    memo = Memo(cache_dir() / "audit.sqlite")
    try:
        yield memo
    finally:
        memo.save()


@cache
def derivation() -> str:
    """A digest of the code that derives, and of the data it holds against graphs."""
    root = Path(__file__).parents[2]
    machine = hashlib.sha256(code_version().encode())
    for path in sorted(path for room in _DERIVING for path in (root / room).rglob("*")):
        if path.suffix in (".py", ".yaml") and not path.name.startswith("test_"):
            machine.update(path.read_bytes())
    return machine.hexdigest()


def _read(path: Path) -> Iterator[tuple[str, Any]]:
    try:
        with closing(sqlite3.connect(path, timeout=5)) as database:
            for name, value in database.execute("SELECT name, value FROM memo WHERE code = ?", (derivation(),)):
                yield name, json.loads(value)
    except (sqlite3.Error, ValueError):
        return


def _write(path: Path, new: dict[str, Any]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=5)) as database, database:
            database.execute("CREATE TABLE IF NOT EXISTS memo (name TEXT PRIMARY KEY, code TEXT, value TEXT)")
            database.execute("DELETE FROM memo WHERE code != ?", (derivation(),))
            rows = [(name, derivation(), json.dumps(value)) for name, value in new.items()]
            database.executemany("INSERT OR REPLACE INTO memo VALUES (?, ?, ?)", rows)
    except (sqlite3.OperationalError, OSError):
        # Somebody else writes it, or we may not.
        return
    except sqlite3.DatabaseError:
        # Damaged, or no database at all.
        with suppress(OSError):
            path.unlink()
