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
        ("zoolens eval --runtime onn", ["onnxruntime"]),
        ("zoolens eval -r litert,openv", ["litert,openvino"]),
        ("zoolens runs --model demo:lenet-w", ["demo:lenet-wide", "demo:lenet-wide-int8"]),
        ("zoolens eval --data de", ["demo"]),
        ("zoolens eval --data photos/", ["photos/"]),  # as typed: files
        ("zoolens diverge demo:mlp-s", ["demo:mlp-small"]),
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


@pytest.fixture
def asked(home):
    """Runs a script in a shell that finds `zoolens`, and gives what it prints."""
    (home / "zoolens").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m zoolens "$@"\n')
    (home / "zoolens").chmod(0o755)
    environment = {**os.environ, "PATH": f"{home}:{os.environ['PATH']}", "HOME": str(home)}

    def run(*command: str) -> list[str]:
        done = subprocess.run(command, env=environment, cwd=home, capture_output=True, text=True, check=False)
        assert not done.stderr
        return done.stdout.splitlines()

    return run


@pytest.mark.skipif(shutil.which("bash") is None, reason="NOT INSTALLED: bash")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("zoolens eval demo:lenet-w", ["lenet-wide", "lenet-wide-int8"]),
        ("zoolens runs --model=demo:mlp-s", ["mlp-small"]),
    ],
)
def test_bash_gets_what_follows_the_colon_that_is_typed(asked, line, expected):
    """bash ends words at colons, so that it puts the completion after the last one."""
    script = (
        f'eval "$(zoolens completion bash)"; COMP_LINE="{line}"; COMP_POINT=${{#COMP_LINE}}; '
        '_zoolens_completion zoolens; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    assert asked("bash", "-c", script) == expected


@pytest.mark.skipif(shutil.which("fish") is None, reason="NOT INSTALLED: fish")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("zoolens show demo:lenet-w", ["demo:lenet-wide", "demo:lenet-wide-int8"]),
        ("zoolens eval --runtime=lit", ["--runtime=litert"]),
        # a description with commas in it is whole
        ("zoolens trace ch", ["chain\tTrace several models in a row, as one pipeline."]),
    ],
)
def test_fish_completes_whole_words(asked, line, expected):
    assert asked("fish", "--no-config", "-c", f"zoolens completion fish | source; complete -C '{line}'") == expected


@pytest.mark.skipif(shutil.which("zsh") is None, reason="NOT INSTALLED: zsh")
@pytest.mark.parametrize(
    ("line", "prefix", "expected"),
    [
        ("zoolens show demo:lenet-w", "", ["names demo:lenet-wide demo:lenet-wide-int8"]),
        ("zoolens eval --runtime=lit", "--runtime=", ["without --*=", "names litert"]),
        ("zoolens trace ch", "", ["described chain:Trace several models in a row, as one pipeline."]),
        ("zoolens eval --data ph", "", ["files"]),
    ],
)
def test_zsh_completes_whole_words(asked, line, prefix, expected):
    """The script is called as zsh's completion calls it, whose own functions only print what they are given."""
    script = (
        "compdef() {}; compset() { print without $2 }; compadd() { print names $names }; "
        f"_describe() {{ print described $described }}; _path_files() {{ print files }}; words=({line}); "
        f'CURRENT=$#words; PREFIX="{prefix}"; eval "$(zoolens completion zsh)"; _zoolens_completion'
    )
    assert asked("zsh", "-f", "-c", script) == expected
