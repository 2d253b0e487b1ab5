"""The command on files of the user's, in real processes where these are its subject."""

import json
import runpy

import pytest
from click.testing import CliRunner

from zoolens.faces.cli.main import cli
from zoolens.training.port import port_check

pytest.importorskip("torch")

NETS = """
def net():
    from torch import nn
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5))

def other():
    from torch import nn
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.LeakyReLU(), nn.Flatten(), nn.Linear(144, 5)), "an optimizer"

def broken():
    raise RuntimeError("not today")
"""


@pytest.fixture
def nets(tmp_path):
    (tmp_path / "nets.py").write_text(NETS)
    return tmp_path / "nets.py"


def run(*arguments):
    return CliRunner().invoke(cli, ["port", *map(str, arguments)])


@pytest.mark.slow
def test_weights_move_between_processes(nets, tmp_path):
    out = tmp_path / "moved.safetensors"
    done = run("weights", f"{nets}:net", f"{nets}:net", "--input", "3x8x8", "--out", out)
    assert done.exit_code == 0, done.output
    assert "the outputs agree" in done.output
    assert out.exists()


@pytest.fixture
def in_this_process(nets, monkeypatch):
    """What the command checks are live networks: two processes would import torch for four seconds each."""
    check, functions = port_check.check, runpy.run_path(str(nets))

    def check_live(a, b, *arguments, **settings):
        made = [functions[name.rpartition(":")[2]]() for name in (a, b)]
        return check(*(one[0] if isinstance(one, tuple) else one for one in made), *arguments, **settings)

    monkeypatch.setattr(port_check, "check", check_live)


@pytest.fixture(params=["in_this_process", pytest.param("in processes", marks=pytest.mark.slow)])
def place(request):
    if request.param == "in_this_process":
        request.getfixturevalue(request.param)


@pytest.mark.usefixtures("place")
def test_networks_that_differ(nets):
    done = run("check", f"{nets}:net", f"{nets}:other", "--input", "3x8x8", "--json")
    assert done.exit_code == 1, done.output
    data = json.loads(done.output)
    assert [difference["cause"] for difference in data["diff"]["differences"]] == ["activation"]
    assert data["agreement"]["first"]["op"] == "relu"


def test_trouble_is_a_sentence_with_the_line(nets):
    done = run("check", f"{nets}:broken", f"{nets}:nothing", "--input", "3x8x8")
    assert done.exception.exit_code == 2
    assert done.exception.message == "nets.py:11 raises RuntimeError: not today"
    assert run("check", f"{nets}:net", f"{nets}:net", "--input", "3x8x8", "--map", "x").exception.exit_code == 2
