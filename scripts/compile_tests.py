"""`python -m scripts.compile_tests`: compile modules and tests once, before the processes of `make test` start.

In a new checkout nothing is compiled. The processes of pytest-xdist collect the same files in the same order, so that
each of them would rewrite the asserts of all 650 files of tests (14 s of CPU) and compile 1,460 modules (4 s). Later
calls find everything compiled.
"""

from __future__ import annotations

import compileall
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

# pytest has no public function for this: these are the ones that its import hook calls.
from _pytest.assertion.rewrite import PYC_TAIL, _read_pyc, _rewrite_test, _write_pyc_fp, get_cache_dir

REPO = Path(__file__).parent.parent
FOLDERS = ("src", "tests", "scripts")


def main() -> None:
    if sys.dont_write_bytecode:
        return
    files = [file for folder in FOLDERS for file in sorted((REPO / folder).rglob("*.py"))]
    with ProcessPoolExecutor() as processes:
        list(processes.map(compile_file, files, chunksize=50))


def compile_file(path: Path) -> None:
    """Writes the bytecode of a file as whoever imports it would; nothing where it is there."""
    if path.name == "conftest.py" or path.name.startswith("test_"):
        _compile_test(path)
    else:
        compileall.compile_file(path, quiet=1)


def _compile_test(path: Path) -> None:
    compiled = get_cache_dir(path) / f"{path.stem}{PYC_TAIL}"
    if _read_pyc(path, compiled) is not None:
        return
    compiled.parent.mkdir(exist_ok=True)
    source_hash, code = _rewrite_test(path, None)  # without settings: none of ours is about asserts
    unfinished = compiled.with_name(f"{compiled.name}.{os.getpid()}")
    with unfinished.open("wb") as file:
        _write_pyc_fp(file, source_hash, code)
    unfinished.replace(compiled)


if __name__ == "__main__":
    main()
