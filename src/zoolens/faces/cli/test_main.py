from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner

from zoolens.faces.cli.main import COMMANDS, INTERRUPTED, SECTIONS, TERMINATED, _end_interrupted, cli


def test_help_lists_every_command_once_under_its_section():
    text = CliRunner().invoke(cli, ["--help"]).stdout
    places = [text.index(f"\n{title}:\n") for title in SECTIONS]
    assert places == sorted(places)
    listed = [line.split()[0] for line in text[places[0] :].splitlines() if line.startswith("  ")]
    assert listed == list(COMMANDS)


def test_help_has_one_line_a_command_on_a_narrow_terminal():
    text = CliRunner().invoke(cli, ["--help"]).stdout
    shown = {" ".join(line.split()) for line in text.splitlines()}
    assert {f"{name} {line}" for name, line in COMMANDS.items()} <= shown
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(("typed", "meant"), [("evall", "eval"), ("manifests", "manifest")])
def test_a_mistyped_command_is_answered_with_the_nearest(typed, meant):
    done = CliRunner().invoke(cli, [typed])
    assert done.exit_code == 2
    assert f"Did you mean {meant!r}?" in done.stderr


ENDED_BY_A_SIGNAL = """
import signal, sys
import click
from zoolens.faces.cli import main

class Field:
    def __set_name__(self, owner, name):
        signal.raise_signal(signal.SIGTERM)

def define():
    class Made:
        field = Field()

main.LazyGroup.get_command = lambda *_: click.Command("eval", callback=define)
sys.argv = ["zoolens", "eval"]
main.main()
"""


def test_a_signal_that_arrives_while_a_class_is_made_is_no_bug():
    done = subprocess.run([sys.executable, "-c", ENDED_BY_A_SIGNAL], capture_output=True, text=True, check=False)
    assert "Interrupted." in done.stderr
    assert done.returncode == TERMINATED


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        (["eval", "model.onnx"], True),
        (["--debug", "crosstrain", "import", "folder"], True),
        (["trace", "run", "model"], True),
        (["ui", "export", "folder"], False),
        (["compare", "a", "b"], False),
        (["manifest", "init", "eval"], False),
        (["crosstrain", "export", "study", "folder"], False),
        ([], False),
    ],
)
def test_only_of_commands_that_go_on_it_is_said(monkeypatch, capsys, arguments, kept):
    monkeypatch.setattr(sys, "argv", ["zoolens", *arguments])
    assert _end_interrupted(KeyboardInterrupt()) == INTERRUPTED
    assert ("the same command goes on from there" in capsys.readouterr().err) is kept
