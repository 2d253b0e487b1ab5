"""The tutorial and the cookbook are followed line by line, as a newcomer would, and print what the pages show.

Durations, dates, ids, versions and the path of the store may differ; words, columns, order, accuracies and advice may
not. A page that shows something else is printed again, or the product is wrong.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from printed import BLOCK, assert_shown

REPO = Path(__file__).parent.parent
MODELS = REPO / "src" / "zoolens" / "inventory" / "zoos" / "demo_data" / "models"
SERVERS = ("zoolens ui", "zoolens serve")  # they run until they are ended; tests/ui and the tests of serving start them
FILES = {"model.onnx": "lenet-wide", "a.onnx": "lenet-wide-int8", "b.onnx": "lenet-wide"}


def followed(page):
    """Each command of a page with the blocks of text after it, which are parts of what it prints."""
    steps = []
    for language, text in BLOCK.findall((REPO / "docs" / page).read_text(encoding="utf-8")):
        if language == "text":
            steps[-1][1].append(text)
        else:
            steps += [(line.partition("  #")[0].strip(), []) for line in text.splitlines() if line.strip()]
    return steps


@pytest.fixture
def shell(tmp_path):
    """Runs a line with `zoolens` on the path; its two streams come together, as on a terminal."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "zoolens").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m zoolens "$@"\n')
    (tools / "zoolens").chmod(0o755)
    environment = {
        **os.environ,
        "ZOOLENS_HOME": str(tmp_path / "home"),
        "PATH": f"{tools}:{os.environ['PATH']}",
        "PYTHONPATH": str(REPO / "src"),
    }
    environment.pop("ZOOLENS_STORE", None)

    def run(line, folder):
        return subprocess.run(
            line,
            shell=True,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=900,
            check=False,
        )

    return run


def follow(page, shell, folder):
    wrong = []
    for line, shown in followed(page):
        if line.startswith("cd "):
            folder /= line.removeprefix("cd ")
            continue
        if line.startswith(SERVERS):
            continue
        done = shell(line, folder)
        fails = any(text.rstrip().splitlines()[-1].startswith("Error: ") for text in shown)
        if (done.returncode != 0) != fails:
            wrong.append(f"{line}\n  ended with {done.returncode}: {done.stdout[-600:]}")
        for text in shown:
            try:
                assert_shown(text, done.stdout, times=False, command=line)
            except AssertionError:
                wrong.append(f"{line}\n  does not print\n{text}\n  but\n{done.stdout[:6000]}")
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.slow
def test_the_tutorial_can_be_followed(shell, tmp_path):
    pytest.importorskip("onnxruntime")
    follow("tutorial.md", shell, tmp_path)


@pytest.mark.slow
def test_the_cookbook_prints_what_it_shows(shell, tmp_path, demo_home):
    shutil.copytree(demo_home, tmp_path / "home")
    for name, model in FILES.items():
        shutil.copy(MODELS / f"{model}.onnx", tmp_path / name)
    follow("cookbook.md", shell, tmp_path)


def test_the_cookbook_has_twenty_questions_with_one_command_each():
    text = (REPO / "docs" / "cookbook.md").read_text(encoding="utf-8")
    assert len(re.findall(r"^## ", text, re.MULTILINE)) >= 20
    assert all(shown for _, shown in followed("cookbook.md"))
