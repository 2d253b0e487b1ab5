"""`make check WING=…` finds the folder that is meant, and says what it can be given where nothing is."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from scripts import check_wing

REPO = Path(__file__).parent.parent


@pytest.mark.parametrize("given", [[], ["attic"], ["../../tests"]])
def test_without_a_wing_it_says_which_there_are(given):
    command = [sys.executable, "-m", "scripts.check_wing", *given]
    done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "make check WING=findings" in done.stderr
    assert "Wings: base, faces, findings, inventory, training." in done.stderr


def test_a_room_is_linted_typed_and_tested_without_its_slow_tests():
    folder = check_wing.folder_of("base/statistics")
    steps = list(check_wing.steps(folder))
    assert [step.name for step in steps] == ["lint", "format", "types", "tests"]
    assert all("src/zoolens/base/statistics" in step.command for step in steps)
    assert "not slow" in steps[-1].command


@pytest.mark.parametrize(("wing", "has"), [("faces", True), ("faces/ui", True), ("faces/cli", False), ("base", False)])
def test_the_explorer_belongs_to_faces(wing, has, monkeypatch, capsys):
    monkeypatch.setattr(check_wing.shutil, "which", lambda name: None)
    list(check_wing.steps(check_wing.folder_of(wing)))
    assert ("NOT CHECKED" in capsys.readouterr().out) is has


def test_a_step_that_fails_says_so():
    failing = check_wing.Step("tests", (sys.executable, "-c", "raise SystemExit(1)"))
    empty = check_wing.Step("tests", (sys.executable, "-c", "raise SystemExit(5)"), passing=(0, check_wing.NO_TESTS))
    assert "FAILED" in check_wing.carried_out(failing)
    assert "FAILED" not in check_wing.carried_out(empty)


def test_hooks_before_a_commit_are_our_own_tools_and_need_no_network():
    (repository,) = yaml.safe_load((REPO / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    assert repository["repo"] == "local"
    hooks = {hook["id"]: hook for hook in repository["hooks"]}
    assert list(hooks) == ["ruff-check", "ruff-format", "mypy"]
    assert {hook["language"] for hook in hooks.values()} == {"system"}
    assert all(hook["entry"].startswith(".venv/bin/") for hook in hooks.values())
