"""`python -m scripts.mutants [MODULE…]`: change the modules of [tool.mutmut] one detail at a time and run their tests.

mutmut makes the mutants and runs the tests that reach each. This prints a score for every module and the mutants that
no test noticed, and exits 1 where a score is below the goal. `python -m mutmut show NAME` prints one mutant.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

GOAL = 0.90
FOLDER = Path("mutants")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.mutants")
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="such as zoolens.graph.cost; default: all")
    parser.add_argument("--processes", type=int, help="default: one for each core")
    given = parser.parse_args()
    _run([f"{name}.*" for name in given.modules], given.processes)
    return _report(given.modules)


def _run(patterns: list[str], processes: int | None) -> None:
    from mutmut.__main__ import _run as run

    if not hasattr(pytest.Item, "_nodeid"):  # mutmut 3.8 reads it; pytest 9.2 no longer has it
        pytest.Item._nodeid = property(lambda item: item.nodeid)  # type: ignore[attr-defined]
    run(patterns, processes)


def _report(modules: list[str]) -> int:
    scores = []
    for name, states in _states():
        if modules and name not in modules:
            continue
        count = Counter(states.values())
        tried = len(states) - count["not checked"]
        noticed = count["killed"] + count["timeout"]
        if not tried:
            print(f"{name}: {len(states)} mutants, not run")
            continue
        scores.append(noticed / tried)
        print(f"{name}: {noticed} of {tried} mutants noticed, {scores[-1]:.1%}")
        for mutant, state in states.items():
            if state not in ("killed", "timeout", "not checked"):
                print(f"  {mutant}: {state}")
    return int(not scores or min(scores) < GOAL)


def _states() -> Iterator[tuple[str, Mapping[str, str]]]:
    """The mutants of every module, in words."""
    from mutmut.stats import status_by_exit_code

    for path in sorted(FOLDER.glob("src/**/*.py.meta")):
        codes = json.loads(path.read_text())["exit_code_by_key"]
        if codes:
            name = ".".join(path.relative_to(FOLDER / "src").parts).removesuffix(".py.meta")
            yield name, {mutant: status_by_exit_code[code] for mutant, code in codes.items()}


if __name__ == "__main__":
    raise SystemExit(main())
