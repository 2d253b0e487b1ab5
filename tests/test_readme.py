"""Every block of the README is copied and run, as a reader would: in order, in one home, where the demo has run."""

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from printed import BLOCK, assert_shown, words

REPO = Path(__file__).parent.parent
README = REPO / "README.md"
SET_UP = ("make demo", "make test", "pip install")  # .ci/run, tests/test_wheel.py and the Makefile do these
QUICKLY = "-p no:schemathesis -p no:hypothesispytest"  # plug-ins of pytest that take seconds to import


def blocks():
    """(language, text, the text block that shows what it prints) for all that is not output itself."""
    found = BLOCK.findall(README.read_text())
    for place, (language, text) in enumerate(found):
        if language != "text":
            follows = found[place + 1] if place + 1 < len(found) else ("", "")
            yield language, text, follows[1] if follows[0] == "text" else ""


def commands(start):
    """The commands of all shell blocks that begin so, each with what the README says it prints."""
    for language, text, shown in blocks():
        lines = text.splitlines() if language == "sh" else []
        yield from ((line, shown if line == lines[-1] else "") for line in lines if line.startswith(start))


@pytest.fixture(scope="module")
def home(tmp_path_factory, demo_home):
    """What `make demo` leaves once its environment is there."""
    folder = tmp_path_factory.mktemp("readme")
    shutil.copytree(demo_home, folder / "home")
    return folder


@pytest.fixture(scope="module")
def shell(home):
    """Runs a line in the checkout, with `zoolens` and `python` of this environment on the path."""
    tools = home / "bin"
    tools.mkdir()
    (tools / "zoolens").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m zoolens "$@"\n')
    (tools / "zoolens").chmod(0o755)
    environment = {**os.environ, "ZOOLENS_HOME": str(home / "home"), "PATH": f"{tools}:{os.environ['PATH']}"}

    def run(line, timeout=600):
        return subprocess.run(
            line, shell=True, cwd=REPO, env=environment, capture_output=True, text=True, timeout=timeout, check=False
        )

    return run


def test_the_readme_is_short_and_has_one_picture():
    text = README.read_text()
    assert len(text.splitlines()) <= 150
    assert len(re.findall(r"^!\[", text, re.MULTILINE)) == 1


def test_every_block_is_run_by_a_test_below():
    for language, text, _ in blocks():
        assert language in ("sh", "python")
        lines = text.splitlines() if language == "sh" else []
        others = [line for line in lines if not line.startswith((*SET_UP, "zoolens query", "zoolens compare"))]
        assert all(line.startswith("zoolens crosstrain") for line in others)


def test_the_demo(demo_home):
    printed = (demo_home.parent / "printed").read_text()
    (shown,) = [shown for _, text, shown in blocks() if "make demo" in text]
    for line in shown.splitlines()[:-1]:
        assert words(line, figures=False) in words(printed, figures=False)


@pytest.mark.parametrize(("line", "shown"), commands("zoolens query"))
def test_queries_print_what_is_shown(shell, line, shown):
    done = shell(line)
    assert done.returncode == 0, done.stderr
    assert_shown(shown, done.stdout)


@pytest.mark.parametrize(("line", "shown"), commands("zoolens compare"))
def test_the_gate_fails_as_shown(shell, line, shown):
    done = shell(line)
    assert done.returncode == 3, done.stderr
    assert_shown(shown, done.stdout + done.stderr)


def test_the_picture_is_drawn(shell, home):
    (line,) = re.findall(r"`(zoolens equiv [^`]*matrix\.svg)`", README.read_text())
    done = shell(line.replace("matrix.svg", str(home / "matrix.svg")))
    assert done.returncode == 0, done.stderr
    assert (home / "matrix.svg").stat().st_size > 10_000


@pytest.mark.parametrize("text", [text for language, text, _ in blocks() if language == "python"])
def test_python_blocks_are_tests_that_pass(shell, home, text):
    file = home / "test_readme_block.py"
    file.write_text(text)
    done = shell(f"{sys.executable} -m pytest -q -p no:cacheprovider {QUICKLY} --rootdir {home} {file}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


@pytest.mark.slow
def test_crosstrain(shell):
    """Two frameworks, 140 trainings: shares of the gap differ by machine, the culprit does not."""
    absent = [name for name in ("torch", "torchvision", "keras", "tensorflow") if find_spec(name) is None]
    if absent:
        pytest.skip(f"NOT INSTALLED: {', '.join(absent)}")
    for line, shown in commands("zoolens crosstrain"):
        done = shell(line, timeout=3600)
        assert done.returncode == 0, done.stderr
        if shown:
            assert "norm_momentum" in done.stdout
            assert "This closes the gap" in done.stdout
