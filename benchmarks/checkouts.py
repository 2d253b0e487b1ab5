"""Checkouts of zoolens that benchmarks measure in turns: the code of each, with a home and large stores of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MAKE_STORE: Final = """
import sys
from pathlib import Path
sys.path.insert(0, {benchmarks!r})
import large_store
large_store.measured_seed(Path({path!r}))
large_store.multiply(Path({path!r}), {runs})
"""
MOST_SECONDS: Final = 1800


class CannotRun(Exception):
    """A line needs something that is not here; the words say what."""


@dataclass(frozen=True)
class Figure:
    """`value`: seconds, or a ratio; `cpu`: seconds of processor of the command and what it started."""

    value: float
    cpu: float = 0.0


@dataclass(frozen=True)
class Side:
    """One of the two checkouts. `home`: of its caches, kept from round to round; `kept`: stores of its own."""

    checkout: Path
    home: Path
    kept: Path
    runs: int

    def environment(self, *, home: Path | None = None) -> dict[str, str]:
        path = os.pathsep.join([str(self.checkout / "src"), os.environ.get("EXTRA_PYTHONPATH", "")]).strip(os.pathsep)
        own = {"PYTHONPATH": path, "ZOOLENS_HOME": str(home or self.home), "PYTHONDONTWRITEBYTECODE": ""}
        return {**os.environ, **own}

    def python(self, *arguments: str, home: Path | None = None, codes: tuple[int, ...] = (0, 3)) -> tuple[Figure, str]:
        """A whole process, from its start to its end. `codes`: exit codes that are answers; 3: a gate failed."""
        command = [sys.executable, *arguments]
        with tempfile.TemporaryFile("w+") as out:
            began, before = time.perf_counter(), os.times()
            done = subprocess.run(
                command,
                env=self.environment(home=home),
                stdout=out,
                stderr=subprocess.STDOUT,
                timeout=MOST_SECONDS,
                check=False,
                cwd=self.checkout,
            )
            seconds, after = time.perf_counter() - began, os.times()
            out.seek(0)
            text = out.read()
        if done.returncode not in codes:
            raise CannotRun(text.strip().splitlines()[-1] if text.strip() else f"exit code {done.returncode}")
        cpu = after.children_user + after.children_system - before.children_user - before.children_system
        return Figure(seconds, cpu), text

    def zoolens(self, *arguments: str, home: Path | None = None) -> Figure:
        return self.python("-m", "zoolens", *arguments, home=home)[0]

    @property
    def schema(self) -> int:
        """The number of the newest schema that this checkout knows."""
        versions = self.checkout / "src" / "zoolens" / "base" / "store" / "migrations" / "versions"
        return max(int(file.name[:4]) for file in versions.glob("[0-9]*.py"))

    def store(self) -> Path:
        """A store of many runs. Each side has a copy: opening one brings it up to date, and older code cannot read it
        afterwards."""
        own = self.kept / f"{self.home.name}-{self.runs}-schema{self.schema}.sqlite"
        if not own.exists():
            original = self._original()
            bulk = original.with_suffix(".bulk")
            if bulk.is_dir():
                shutil.copytree(bulk, own.with_suffix(".bulk"), dirs_exist_ok=True)
            shutil.copyfile(original, own)
            self.zoolens("runs", "--store", str(own))  # whoever measures it finds it up to date
        return own

    def _original(self) -> Path:
        """The newest of the kept stores that this side can read, else one that it makes."""
        for schema in range(self.schema, 0, -1):
            kept = self.kept / f"original-{self.runs}-schema{schema}.sqlite"
            if kept.exists():
                return kept
        self.kept.mkdir(parents=True, exist_ok=True)
        return self._made(self.kept / f"original-{self.runs}-schema{self.schema}.sqlite")

    def _made(self, path: Path) -> Path:
        unfinished = path.with_name(f"unfinished-{path.name}")
        for left in path.parent.glob(f"{unfinished.name}*"):
            left.unlink()
        shutil.rmtree(unfinished.with_suffix(".bulk"), ignore_errors=True)
        code = MAKE_STORE.format(benchmarks=str(self.checkout / "benchmarks"), path=str(unfinished), runs=self.runs)
        self.python("-c", code)
        shutil.move(unfinished.with_suffix(".bulk"), path.with_suffix(".bulk"))
        return unfinished.rename(path)
