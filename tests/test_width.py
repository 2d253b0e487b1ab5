"""What commands print fits a terminal of 100 columns, on the data of the demo; colour only on a terminal."""

import io
import re
import sys

import pytest
from rich.cells import cell_len

import zoolens
from zoolens.faces.cli.main import cli

pytest.importorskip("onnxruntime")

WIDTH = 100
MODELS = ["demo:lenet-wide", "demo:lenet-wide-int8", "demo:resnet-tiny"]
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
COMMANDS = [
    ["--help"],
    pytest.param(["models"], marks=pytest.mark.slow),  # lists the networks of every framework
    ["models", "--zoo", "demo"],
    ["models", "--all", "--zoo", "demo", "--wide"],
    ["show", "demo:lenet-wide"],
    ["runtimes"],
    ["runs"],
    ["runs", "show", "last"],
    ["eval", *MODELS, "--data", "demo", "--limit", "100", "--runtime", "onnxruntime", "--no-cold", "--batch", "1"],
    ["compare", "demo:lenet-wide", "demo:lenet-wide-int8"],
    ["equiv", "demo:lenet-wide", "demo:resnet-tiny"],
    ["equiv", "demo:*"],
    ["disagree", "demo:lenet-wide", "--with", "2"],
    ["query", "CORR lenet-wide WITHIN 50% ON size <= 90%"],
    ["query", "EXPLAIN ANALYZE CORR lenet-wide WITHIN 99% ON size <= 90% ELSE NEAREST"],
    ["query", "WHERE size < 60 MB SHOW size, accuracy, latency, flops, parameters, license, zoo, format"],
    ["index", "show"],
    ["cost", "demo:lenet-wide", "--layers"],
    ["diff", "demo:lenet-wide", "demo:resnet-tiny"],
    ["segments", "demo:lenet-wide", "demo:lenet-wide-int8"],
    ["identify", "demo:lenet-wide"],
    ["crosstrain", "space", "--published"],
    ["env", "list"],
    ["store", "check"],
]
UNBREAKABLE = re.compile(r"\S{40,}")  # a path or an address stays whole


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A home whose store has three models of the demo, measured on 100 inputs."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOOLENS_HOME", str(home))
        outcomes = zoolens.evaluate(MODELS, "demo", limit=100, runtimes="onnxruntime", cold=False, trust=True)
    assert not any(outcome.errors for outcome in outcomes)
    return home


@pytest.fixture
def run(measured, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(measured))
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)

    def printed(arguments, stream):
        monkeypatch.setattr(sys, "stdout", stream)
        try:
            cli.main([str(one) for one in arguments], standalone_mode=False)
        except (SystemExit, zoolens.ZoolensError):
            pass
        finally:
            monkeypatch.undo()
        return stream.getvalue()

    return printed


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_output_fits_100_columns(run, arguments):
    if "--wide" in arguments:
        pytest.skip("--wide is meant to be wider")
    text = COLOUR.sub("", run(arguments, Terminal()))
    assert text.strip()
    wide = [line for line in text.splitlines() if cell_len(line.rstrip()) > WIDTH]
    assert [line for line in wide if not UNBREAKABLE.search(line)] == []


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_no_colour_in_a_pipe(run, arguments):
    assert "\x1b" not in run(arguments, io.StringIO())
