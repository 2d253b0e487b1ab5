"""`zoolens verify-endpoint` in front of a real llama.cpp: words and exit codes."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from zoolens.faces.cli.main import cli
from zoolens.testing import language_models
from zoolens.testing.llama_server import llama_server

pytest.importorskip("xllamacpp")
pytest.importorskip("tokenizers")


@pytest.fixture
def asked(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    own = language_models.gguf(tmp_path, name="own.gguf").path()
    language_models.gguf(tmp_path, name="other.gguf", seed=8)
    texts = tmp_path / "texts.txt"
    texts.write_text("ZOOLENS ASKS WHO ANSWERS HERE, AND KEEPS WHAT IT WAS TOLD. " * 100)
    usual = ["--data", f"passages:{texts}", "--context", "60", "--threads", "1", "--store", str(tmp_path / "s.sqlite")]
    with llama_server(own, n_ctx=600) as address:
        yield lambda model, *more: CliRunner().invoke(
            cli, ["verify-endpoint", address, "--is", str(tmp_path / model), *usual, *more]
        )


def test_it_exits_as_documented(asked):
    done = asked("own.gguf")
    assert done.exit_code == 0, done.output
    assert "or a model within a total variation of 0.02 of it" in done.output
    done = asked("other.gguf", "--json")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["outcome"] == "different"
    assert asked("own.gguf", "--most", "2").exit_code == 4
    done = asked("own.gguf", "--chat")
    assert done.exception.exit_code == 2
    assert "has no chat template" in str(done.exception)
