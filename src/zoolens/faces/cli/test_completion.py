"""Completion, asked as shells ask for it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest
from click.testing import CliRunner

from zoolens.base.store.store import open_store
from zoolens.faces.cli.completion import COMPLETION_VARIABLE, WholeLineBash
from zoolens.faces.cli.main import COMMANDS, cli
from zoolens.testing.store_records import begin

SLOW_TO_IMPORT = ("sqlalchemy", "pyarrow", "onnxruntime", "torch", "tensorflow", "jax")


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))
    monkeypatch.delenv("ZOOLENS_STORE", raising=False)
    return tmp_path


def offered(monkeypatch, line: str) -> list[str]:
    monkeypatch.setenv("COMP_WORDS", line)
    completing = WholeLineBash(cli, {}, "zoolens", COMPLETION_VARIABLE)
    return [item.value for item in completing.get_completions(*completing.get_completion_args())]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("zoolens ", list(COMMANDS)),
        ("zoolens ev", ["eval", "events"]),
        ("zoolens trace sh", ["show"]),
        ("zoolens eval --latency", ["--latency-seconds"]),
        ("zoolens eval demo:lenet-w", ["demo:lenet-wide", "demo:lenet-wide-int8"]),
        ("zoolens eval --on ray demo:mlp-s", ["demo:mlp-small"]),
        ("zoolens compare last~", ["last~1", "last~2"]),
        ("zoolens completion ", ["bash", "fish", "zsh"]),
    ],
)
def test_what_is_offered(monkeypatch, line, expected):
    assert offered(monkeypatch, line) == expected


def test_models_of_the_store_and_of_kept_catalogues_are_offered(home, monkeypatch):
    with open_store() as store:
        begin(store, "hub:lion@2.0.0")
        begin(store, "file:lion@1.0.0")
    catalogue = home / "cache" / "catalog" / "timm-0123456789abcdef.json"
    catalogue.parent.mkdir(parents=True)
    catalogue.write_text(json.dumps([{"manifest": {"name": "resnet18.a1"}}, {"manifest": {"name": "vit"}}]))
    assert offered(monkeypatch, "zoolens show hub:") == ["hub:lion"]
    assert offered(monkeypatch, "zoolens show ti") == ["timm:"]
    assert offered(monkeypatch, "zoolens show timm:res") == ["timm:resnet18.a1"]


def test_damaged_catalogues_and_stores_offer_nothing_and_raise_nothing(home, monkeypatch):
    catalogue = home / "cache" / "catalog" / "timm-0123456789abcdef.json"
    catalogue.parent.mkdir(parents=True)
    catalogue.write_text('[{"manifest": 3}')
    (home / "data").mkdir()
    (home / "data" / "store.sqlite").write_bytes(b"no database" * 200)
    assert offered(monkeypatch, "zoolens show timm:") == ["timm:"]  # as typed: files
    assert offered(monkeypatch, "zoolens show demo:mlp-w") == ["demo:mlp-wide"]


def test_nothing_slow_is_imported(monkeypatch):
    code = (
        "import os, sys\n"
        "from zoolens.faces.cli.completion import WholeLineBash\n"
        "from zoolens.faces.cli.main import cli\n"
        "completing = WholeLineBash(cli, {}, 'zoolens', '')\n"
        "for line in ('zoolens ', 'zoolens eval demo:l', 'zoolens compare la', 'zoolens cost x'):\n"
        "    os.environ['COMP_WORDS'] = line\n"
        "    assert completing.get_completions(*completing.get_completion_args())\n"
        f"print([name for name in {SLOW_TO_IMPORT} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize("shell", ["bash", "fish", "zsh"])
def test_each_script_says_how_it_is_installed_and_asks_zoolens(shell):
    text = CliRunner().invoke(cli, ["completion", shell]).stdout
    assert text.startswith("# To have it in every shell, ")
    assert f"{COMPLETION_VARIABLE}={shell}_complete" in text


@pytest.mark.skipif(shutil.which("bash") is None, reason="NOT INSTALLED: bash")
def test_bash_gets_what_follows_the_colon_that_is_typed(home):
    """bash ends words at colons, so that it puts the completion after the last one."""
    (home / "zoolens").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m zoolens "$@"\n')
    (home / "zoolens").chmod(0o755)
    script = (
        'eval "$(zoolens completion bash)"; COMP_LINE="zoolens eval demo:lenet-w"; COMP_POINT=${#COMP_LINE}; '
        '_zoolens_completion zoolens; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    environment = {**os.environ, "PATH": f"{home}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["lenet-wide", "lenet-wide-int8"], done.stderr
