"""`zoolens audit` of GGUF files."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from zoolens.faces.cli.audit import command
from zoolens.testing import language_models

pytestmark = pytest.mark.usefixtures("trusted_models")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    for name in ("tiny.F32.gguf", "tiny.Q8_0.gguf"):
        language_models.gguf(tmp_path, name=name)
    return tmp_path


def test_a_folder_of_files(folder):
    run = CliRunner().invoke(command, [str(folder), "--json", "--fail-on", "high"])
    assert "tiny.Q8_0.gguf is not what it claims to be" in run.exception.message
    assert run.exception.exit_code == 3
    listed = json.loads(run.stdout)["files"]
    assert [(each["model"], each["outcome"]) for each in listed] == [
        ("tiny.F32.gguf", "same"),
        ("tiny.Q8_0.gguf", "different"),
    ]


def test_a_file_in_a_table(folder):
    run = CliRunner().invoke(command, [str(folder / "tiny.Q8_0.gguf")])
    assert run.exit_code == 0
    assert "100.0 % of its blocks" in run.output
    assert "false" in run.output


@pytest.mark.parametrize("options", [["--zoo", "timm"], ["--all"]])
def test_options_of_zoos_are_refused(folder, options):
    run = CliRunner().invoke(command, [str(folder), *options])
    assert run.exit_code == 2
