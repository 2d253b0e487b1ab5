from __future__ import annotations

import pytest
from click.testing import CliRunner

from zoolens.cli.main import COMMANDS, SECTIONS, cli


def test_help_lists_every_command_once_under_its_section():
    text = CliRunner().invoke(cli, ["--help"]).stdout
    places = [text.index(f"\n{title}:\n") for title in SECTIONS]
    assert places == sorted(places)
    listed = [line.split()[0] for line in text[places[0] :].splitlines() if line.startswith("  ")]
    assert listed == list(COMMANDS)


def test_help_has_one_line_a_command_on_a_narrow_terminal():
    text = CliRunner().invoke(cli, ["--help"]).stdout
    assert all(f"  {name.ljust(12)}{line}\n" in text for name, line in COMMANDS.items())
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(("typed", "meant"), [("evall", "eval"), ("manifests", "manifest")])
def test_a_mistyped_command_is_answered_with_the_nearest(typed, meant):
    done = CliRunner().invoke(cli, [typed])
    assert done.exit_code == 2
    assert f"Did you mean {meant!r}?" in done.stderr
