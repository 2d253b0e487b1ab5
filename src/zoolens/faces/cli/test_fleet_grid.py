"""`zoolens fleet grid`: the table, the sentences below it, and gates."""

import json

import pytest
from click.testing import CliRunner

from zoolens.base.errors import GateFailed, UnknownName
from zoolens.base.store.store import open_store
from zoolens.base.verdicts import NotKnown
from zoolens.faces.cli.fleet_grid import command
from zoolens.findings.comparisons.test_kind_grid import LARGE, measured, stack


@pytest.fixture
def path(tmp_path):
    with open_store(tmp_path / "store.sqlite") as store:
        measured(store, ms=10.0)
        measured(store, where=stack(version="1.24.1"), ms=13.1)
        measured(store, "zoo:other@1.0.0", stack(LARGE), ms=5.0)
    return tmp_path / "store.sqlite"


def call(path, *arguments):
    return CliRunner().invoke(command, ["--store", str(path), "--wide", *arguments], terminal_width=200)


def test_a_table_with_what_is_worse_below_it(path):
    done = call(path, "--figure", "latency")
    assert done.exit_code == 0, done.output
    text = " ".join(done.output.split())
    assert "latency_p50 on digits in onnxruntime" in text
    assert "13.1 ms [13.0, 13.2], 1.31 × the time" in text
    assert "not measured" in text
    assert "takes 1.31 × [1.22, 1.41] the time of onnxruntime 1.31.1 on the same kind of machine" in text
    assert "3 of 6 cells have no figure, or their newest run failed." in text


def test_json_has_every_cell(path):
    told = json.loads(call(path, "--figure", "latency", "--json").output)
    assert (told["dataset"], told["unmeasured"], len(told["kinds"]), len(told["regressions"])) == ("digits", 3, 3, 1)
    cells = {cell["reason"] for row in told["rows"] for cell in row["cells"].values()}
    assert cells == {"", "not measured"}


def test_gates_have_their_exit_codes(path):
    assert isinstance(call(path, "--figure", "latency", "--fail-on", "latency_p50 rise > 30%").exception, GateFailed)
    assert call(path, "--figure", "latency", "--fail-on", "latency_p50 rise > 40%").exit_code == 0
    assert isinstance(call(path, "--fail-on", "unknown").exception, NotKnown)
    for option in (["--data", "x"], ["--runtime", "x"], ["--against", "x"]):
        assert isinstance(call(path, *option).exception, UnknownName)


def test_a_store_without_runs_says_what_to_do(tmp_path):
    open_store(tmp_path / "store.sqlite").close()
    assert "--on each-kind" in call(tmp_path / "store.sqlite").output
