"""Lints, types and tests one wing or room: `make check WING=findings` or `make check WING=findings/graph`.

Tests that are marked slow are left out, as in `make test`. The explorer's own checks belong to `faces/ui`.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REPO = Path(__file__).parent.parent
PACKAGE = REPO / "src" / "zoolens"
NO_TESTS = 5
"""Exit code of pytest where it finds no test, which is no failure of a room without any."""


@dataclass(frozen=True)
class Step:
    """One command of the check."""

    name: str
    command: tuple[str, ...]
    folder: Path = REPO
    passing: tuple[int, ...] = (0,)
    """Exit codes that are no failure."""


def main() -> None:
    """Runs every step of the wing that was named, and exits with 1 where one failed."""
    folder = folder_of(sys.argv[1] if len(sys.argv) > 1 else "")
    if folder is None:
        sys.exit(usage())
    outcomes = [carried_out(step) for step in steps(folder)]
    print(", ".join(outcomes))
    sys.exit(int(any("FAILED" in outcome for outcome in outcomes)))


def wings() -> list[str]:
    """Returns the folders of the package that have a README, which is what makes a wing."""
    return sorted(readme.parent.name for readme in PACKAGE.glob("*/README.md"))


def folder_of(name: str) -> Path | None:
    """Returns the folder of a wing or room; None where there is none of this name."""
    folder = PACKAGE / name
    inside = name != "" and ".." not in Path(name).parts
    return folder if inside and folder.is_dir() else None


def usage() -> str:
    return f"Say which wing: `make check WING=findings`, or a room: WING=findings/graph. Wings: {', '.join(wings())}."


def steps(folder: Path) -> Iterator[Step]:
    """Yields what is run, the quickest first."""
    python = sys.executable
    path = str(folder.relative_to(REPO))
    yield Step("lint", (python, "-m", "ruff", "check", path))
    yield Step("format", (python, "-m", "ruff", "format", "--check", "--quiet", path))
    yield Step("types", (python, "-m", "mypy", path))
    # As `make test` spreads them: tests that share training processes or a browser stay in one process.
    spread = ("-n", "3", "--dist", "loadfile", "--no-loadscope-reorder", "-m", "not slow")
    yield Step("tests", (python, "-m", "pytest", *spread, path), passing=(0, NO_TESTS))
    if PACKAGE / "faces" / "ui" in (folder, folder / "ui"):
        yield from explorer_steps()


def explorer_steps() -> Iterator[Step]:
    """Yields the explorer's own checks, where node and the packages that `make ui-check` installs are here."""
    explorer = REPO / "explorer"
    if shutil.which("npm") is None or not (explorer / "node_modules").is_dir():
        print("NOT CHECKED: the explorer's TypeScript. `make ui-check` does it; it needs node 20 or newer.")
        return
    for name in ("lint", "check", "test"):
        yield Step(f"explorer {name}", ("npm", "run", "--silent", name), folder=explorer)


def carried_out(step: Step) -> str:
    """Runs a step and returns how long it took, and whether it failed."""
    print(f"== {step.name}: {' '.join(step.command)}", flush=True)
    begin, computed = time.monotonic(), computing_time()
    done = subprocess.run(step.command, cwd=step.folder, check=False)
    failed = "" if done.returncode in step.passing else "FAILED "
    # Seconds of computing say what a wing takes also where other work keeps the machine busy.
    return f"{step.name} {failed}{time.monotonic() - begin:.0f} s ({computing_time() - computed:.0f} s of CPU)"


def computing_time() -> float:
    """Returns the seconds of CPU of all processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
