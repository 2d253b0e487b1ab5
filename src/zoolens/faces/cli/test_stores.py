"""The rule for a store that is named and not there, for every command that takes `--store`."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from zoolens.base.errors import StoreError, ZoolensError
from zoolens.base.store.store import open_store
from zoolens.faces.cli.main import cli
from zoolens.training.crosstrain import crosstrain_api as crosstrain

READ = (
    ("query", "CORR big"), ("runs",), ("runs", "show", "last"), ("compare", "last~1", "last"), ("compare", "a", "b"),
    ("equiv", "a", "b"), ("equiv", "a", "b", "c", "--data", "demo"), ("disagree", "a"), ("reproduce", "last"),
    ("export",), ("env", "export", "last"), ("store", "check"), ("store", "clean"), ("agents",), ("fleet", "jobs"),
    ("fleet", "grid"), ("store", "moved"), ("fleet", "log", "a"), ("fleet", "cancel", "a"),
    ("index", "build"), ("index", "show"),
    ("index", "remove", "a"), ("index", "add", "a"), ("index", "estimate"), ("index", "rebuild"), ("index", "verify"),
    ("crosstrain", "list"), ("crosstrain", "show", "study"), ("crosstrain", "remove", "study"),
    ("crosstrain", "export", "study", "folder"), ("crosstrain", "explain", "study", "trial"),
    ("crosstrain", "report", "study", "-o", "folder"), ("trace", "show", "last"), ("trace", "compare", "a", "b"),
    ("diverge", "last~1", "last"), ("events",), ("serve", "services.yaml", "--check"),
    ("ui", "export", "folder", "--runs", "last"),
)  # fmt: skip
KEEP = (
    ("audit", "--zoo", "demo"), ("cost", "demo:mlp-small"), ("diff", "demo:mlp-small", "demo:lenet-wide"),
    ("identify", "demo:mlp-small"), ("segments", "demo:mlp-small", "demo:mlp-small"),
)  # fmt: skip
MAKE = {
    "agent",
    "fleet run",
    "eval",
    "init",
    "demo",
    "doctor",
    "crosstrain train",
    "port train",
    "crosstrain run",
    "crosstrain import",
    "crosstrain submit",
    "load",
    "verify-endpoint",
    "trace run",
    "trace chain",
    "trace write",
    "machine peaks",
}


def invoke(arguments, **environment):
    runner = CliRunner(env=environment)
    with runner.isolated_filesystem():
        Path("services.yaml").write_text("services: {digits: {reference: demo:lenet-wide, within: 85%}}")
        return runner.invoke(cli, list(arguments))


def assert_refused(result, path):
    assert isinstance(result.exception, ZoolensError | SystemExit), result.output
    assert "There is no store at" in f"{result.exception}{result.output}"
    assert result.exit_code != 0
    assert not path.exists()


@pytest.mark.parametrize("arguments", [*READ, *KEEP], ids=" ".join)
def test_a_mistyped_store_is_an_error_where_it_is_not_filled(tmp_path, arguments):
    path = tmp_path / "stoer.sqlite"
    assert_refused(invoke([*arguments, "--store", str(path)]), path)


@pytest.mark.parametrize("arguments", READ, ids=" ".join)
def test_the_variable_may_be_mistyped_too(tmp_path, arguments):
    path = tmp_path / "stoer.sqlite"
    result = invoke(arguments, ZOOLENS_STORE=str(path))
    assert_refused(result, path)
    assert "$ZOOLENS_STORE" in f"{result.exception}{result.output}"


def test_a_new_store_is_made_where_structures_are_kept_and_the_variable_names_it(tmp_path):
    path = tmp_path / "new.sqlite"
    result = invoke(["cost", "demo:mlp-small"], ZOOLENS_STORE=str(path))
    assert result.exit_code == 0, result.output
    assert path.exists()
    assert f"A new store was made: {path}" in result.stderr
    assert "new store" not in invoke(["cost", "demo:mlp-small"], ZOOLENS_STORE=str(path)).stderr


def test_a_command_that_measures_makes_the_store_and_says_so(tmp_path):
    path = tmp_path / "new.sqlite"
    words = ["eval", "demo:mlp-small", "-r", "fake", "--data", "demo", "--no-cold", "--json", "--store", str(path)]
    assert f"A new store was made: {path}" in invoke(words).stderr
    assert path.exists()


def test_a_command_that_fails_before_it_measures_says_nothing_of_a_store(tmp_path):
    path = tmp_path / "new.sqlite"
    result = invoke(["crosstrain", "run", str(tmp_path / "no.yaml"), "--store", str(path)])
    assert result.exit_code != 0
    assert "store" not in result.stderr.replace("--store", "")


def test_a_store_for_the_sub_command_is_enough(tmp_path):
    path = tmp_path / "store.sqlite"
    open_store(path).close()
    missing = str(tmp_path / "missing.sqlite")
    result = invoke(["runs", "show", "last", "--store", str(path)], ZOOLENS_STORE=missing)
    assert "There is no store" not in f"{result.exception}{result.output}"


def test_readers_in_python_make_no_store(tmp_path):
    path = tmp_path / "stoer.sqlite"
    with pytest.raises(StoreError, match="There is no store at"):
        crosstrain.studies(path)
    assert not path.exists()


def test_every_command_with_a_store_follows_the_rule():
    named = {" ".join(words) for words in (*READ, *KEEP)}
    for command in commands_with_a_store(cli):
        assert command in MAKE or any(f"{words} ".startswith(f"{command} ") for words in named), command


def commands_with_a_store(group, path=""):
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        full = f"{path} {name}".strip()
        if isinstance(command, click.Group):
            yield from commands_with_a_store(command, full)
        elif any(parameter.name == "store" for parameter in command.params):
            yield full
