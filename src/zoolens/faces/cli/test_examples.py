"""Every command's help begins with two examples, and each of them parses."""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from zoolens.faces.cli.examples import EXAMPLES
from zoolens.faces.cli.main import COMMANDS, cli

_FILES = (".yaml", ".onnx", ".sqlite", ".pbtxt", ".py")


def commands() -> Iterator[tuple[str, click.Command]]:
    for name in COMMANDS:
        command = importlib.import_module(f"zoolens.faces.cli.{name.replace('-', '_')}").command
        yield name, command
        if isinstance(command, click.Group):
            for inner, below in command.commands.items():
                yield f"{name} {inner}", below


ALL = dict(commands())


def test_every_command_and_no_other_has_two_different_examples():
    assert set(EXAMPLES) == set(ALL)
    assert all(first != second for first, second in EXAMPLES.values())


@pytest.mark.parametrize("name", ALL)
def test_help_begins_with_the_examples(name):
    printed = CliRunner().invoke(cli, [*name.split(), "--help"], prog_name="zoolens").stdout
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    first = next(place for place, line in enumerate(lines) if line.startswith("$ "))
    assert all(line.startswith(("Usage:", "[", "...")) or first == 1 for line in lines[:first])
    assert [line.removeprefix("$ ") for line in lines[first : first + 2]] == list(EXAMPLES[name])
    assert len(lines) > first + 2  # what the command does still follows


@pytest.mark.parametrize(("name", "line"), [(name, line) for name, lines in EXAMPLES.items() for line in lines])
def test_examples_parse(name, line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = shlex.split(line.replace("~/", f"{tmp_path}/"))
    words = words[: next((place for place, word in enumerate(words) if word in ("|", ">")), len(words))]
    assert words[0] == "zoolens"
    assert " ".join(words[1:]).startswith(name.split()[0])
    for word in words[1:]:
        _make(tmp_path, word)
    command, rest = ALL[words[1]], words[2:]
    if isinstance(command, click.Group) and rest and rest[0] in command.commands:
        command, rest = command.commands[rest[0]], rest[1:]
    assert not isinstance(command, click.Group) or command.invoke_without_command
    command.make_context(command.name, rest)


def _make(folder: Path, word: str) -> None:
    """Make the file or folder that an example names and that has to be there."""
    place = folder / word
    if "://" in word or word.startswith("-"):
        return
    if word.endswith("/") or word.startswith("/"):
        place.mkdir(parents=True, exist_ok=True)
    elif word.endswith(_FILES) and not word.startswith("backup"):
        place.touch()
