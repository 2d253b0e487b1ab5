"""`python -m scripts.mutants [MODULE…]`: change the modules of [tool.mutmut] one detail at a time and run their tests.

mutmut makes the mutants. The tests are collected once, those in `test_<module>_rules.py` beside the module, which open
no framework and no store, or where there is no such file those in `test_<module>.py`; each mutant then has a forked
process of its own, which runs the tests until one fails, those first that are known to reach it. This prints a score
for every module and the mutants that no test noticed, and exits 1 where a score is below the goal. `python -m mutmut
show NAME` prints one mutant.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path

import pytest

GOAL = 0.90
FOLDER = Path("mutants")
KILLED, SURVIVED, TIMEOUT = 1, 0, 36  # as mutmut writes them down


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.mutants")
    parser.add_argument(
        "modules", nargs="*", metavar="MODULE", help="such as zoolens.findings.graph.cost.cost; default: all"
    )
    parser.add_argument("--report", action="store_true", help="print what earlier calls found and run nothing")
    given = parser.parse_args()
    modules: Sequence[str] = given.modules or _modules()
    if not given.report:
        if len(modules) == 1:
            _run(modules[0])
        else:  # a process each: the frameworks of one module's tests are no burden to another's
            for module in modules:
                subprocess.run([sys.executable, "-m", "scripts.mutants", module], check=False)
    return _report(modules)


def _modules() -> list[str]:
    from mutmut.configuration import config

    return [path.removeprefix("src/").removesuffix(".py").replace("/", ".") for path in config().only_mutate]


def _run(module: str) -> None:
    from mutmut.mutation.data import SourceFileMutationData
    from mutmut.utils.format_utils import mangled_name_from_mutant_name

    _make_mutants()
    *rooms, name = module.split(".")
    beside = (Path("src", *rooms, f"test_{name}{kind}.py") for kind in ("_rules", ""))
    session = _collected(next(path for path in beside if path.exists()))
    reached, seconds = _reached(session)
    data = SourceFileMutationData(path=Path("src", *rooms, f"{name}.py"))
    data.load()
    for mutant in data.exit_code_by_key:
        first = reached.get(mangled_name_from_mutant_name(mutant), [])
        # The others may reach it, too: in a process of their own, which tells nobody.
        tests = [*first, *(place for place in range(len(session.items)) if place not in first)]
        data.exit_code_by_key[mutant] = _judged(session, mutant, tests, seconds)
        data.save()


def _make_mutants() -> None:
    from mutmut.__main__ import CatchOutput, create_mutants
    from mutmut.configuration import config
    from mutmut.mutation.trampoline import set_mutant_under_test
    from mutmut.utils.file_utils import copy_also_copy_files, copy_src_dir, setup_source_paths

    set_mutant_under_test("mutant_generation")
    FOLDER.mkdir(exist_ok=True)
    for path in map(FOLDER.joinpath, config().only_mutate):
        if not path.with_name(f"{path.name}.meta").exists():
            path.unlink(missing_ok=True)  # a plain copy, of before it was in the target, would be taken for mutants
    with CatchOutput():
        copy_src_dir()
        copy_also_copy_files()
        setup_source_paths()
        create_mutants(1)


def _collected(path: Path) -> pytest.Session:
    """The tests, collected as pytest itself does before it runs them."""
    from _pytest.config import _prepareconfig
    from mutmut.configuration import config as settings
    from mutmut.utils.file_utils import change_cwd

    # What pytest prints about the tests of every mutant goes nowhere; this stays open as long as the forks need it.
    quiet = Path(os.devnull).open("w")  # noqa: SIM115
    with change_cwd(FOLDER), redirect_stdout(quiet):
        config = _prepareconfig(["--rootdir=.", "-q", "--tb=no", *settings().pytest_add_cli_args, str(path)])
        config._do_configure()
        session = pytest.Session.from_config(config)
        config.hook.pytest_sessionstart(session=session)
        config.hook.pytest_collection(session=session)
    gc.freeze()
    return session


def _reached(session: pytest.Session) -> tuple[dict[str, list[int]], float]:
    """The tests that reach each function, the quickest first, and how long all of them take unchanged."""
    from mutmut.state import state

    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        _become("stats")
        taken, functions = [], []
        for place in range(len(session.items)):
            began = time.perf_counter()
            if not _passes(session, [place]):
                os._exit(1)
            taken.append(time.perf_counter() - began)
            functions.append(sorted(state()._stats))
            state()._stats.clear()
        with os.fdopen(sending, "w") as pipe:
            json.dump([taken, functions], pipe)
        os._exit(0)
    os.close(sending)
    with os.fdopen(receiving) as pipe:
        told = pipe.read()
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) or not told:
        raise SystemExit("A test fails without any mutant: run the tests by themselves first.")
    seconds, functions = json.loads(told)
    reached: dict[str, list[int]] = {}
    for place in sorted(range(len(seconds)), key=seconds.__getitem__):
        for function in functions[place]:
            reached.setdefault(function, []).append(place)
    return reached, sum(seconds)


def _judged(session: pytest.Session, mutant: str, tests: Sequence[int], seconds: float) -> int:
    """Whether a test notices the mutant. One that goes on for ever is noticed, too: by the time it has had."""
    child = os.fork()
    if child == 0:
        limit = int(10 * seconds + 10)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
        signal.alarm(6 * limit)  # for what waits instead of computing
        _become(mutant)
        os._exit(SURVIVED if _passes(session, tests) else KILLED)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return TIMEOUT if code in (-signal.SIGXCPU, -signal.SIGALRM) else code


def _become(mutant: str) -> None:
    from mutmut.mutation.trampoline import set_mutant_under_test

    os.chdir(FOLDER)
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    set_mutant_under_test(mutant)


def _passes(session: pytest.Session, tests: Sequence[int]) -> bool:
    items = [session.items[place] for place in tests]
    for item, after in zip(items, [*items[1:], None], strict=True):
        try:
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
        except BaseException:  # what a mutant raises through pytest itself is noticed all the same
            return False
        if session.testsfailed:
            return False
    return True


def _report(modules: Sequence[str]) -> int:
    from mutmut.stats import status_by_exit_code

    scores = []
    for module in modules:
        kept = FOLDER / "src" / f"{module.replace('.', '/')}.py.meta"
        codes: Mapping[str, int] = json.loads(kept.read_text())["exit_code_by_key"] if kept.exists() else {}
        states = {mutant: status_by_exit_code[code] for mutant, code in codes.items()}
        count = Counter(states.values())
        tried = len(states) - count["not checked"]
        noticed = count["killed"] + count["timeout"]
        scores.append(noticed / tried if tried else 0.0)
        print(f"{module}: {noticed} of {tried} mutants noticed ({count['timeout']} by time), {scores[-1]:.1%}")
        for mutant, state in states.items():
            if state not in ("killed", "timeout", "not checked"):
                print(f"  {mutant}: {state}")
    return int(min(scores) < GOAL)


if __name__ == "__main__":
    raise SystemExit(main())
