"""A stranger's names steer no terminal, through any command, with and without colours."""

import io
import os
import pty
import subprocess
import sys
from functools import partial

import onnx
import pytest
from onnx import TensorProto, helper

from zoolens.base.present.streams import HarmlessStream, harmless, open_console

STEERING = "\x1b]0;PWNED\x07\x1b[2J\x9b31m"
SLOW = partial(pytest.param, marks=pytest.mark.slow)  # a whole process each, with the same stream


@pytest.fixture
def model(tmp_path):
    """A network whose only operator, output and maker are called by sequences that steer a terminal."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3, 8, 8]) for name in ("x", f"y{STEERING}"))
    node = helper.make_node(f"Wipe{STEERING}", ["x"], [y.name], name=f"n{STEERING}")
    graph = helper.make_graph([node], "g", [x], [y])
    path = tmp_path / "evil.onnx"
    onnx.save(helper.make_model(graph, producer_name=f"p{STEERING}"), path)
    return path


@pytest.mark.parametrize("command", [["cost"], SLOW(["show"]), SLOW(["manifest", "init"]), ["diff", "demo:mlp-small"]])
def test_nothing_of_a_model_steers_a_terminal(model, command):
    words = [sys.executable, "-m", "zoolens", *command, str(model)]
    done = subprocess.run(words, capture_output=True, check=False, timeout=120)
    assert b"Wipe" in done.stdout + done.stderr
    assert not [byte for byte in (b"\x1b", b"\x07", "\x9b".encode()) if byte in done.stdout + done.stderr]


def test_colours_of_ours_stay_and_sequences_of_others_go(model):
    ours, theirs = pty.openpty()
    code = f"""
from zoolens.base.present.streams import guard_streams, open_console
import click
guard_streams()
open_console().print("[bold]ours[/] theirs" + {STEERING!r})
click.echo("plain" + {STEERING!r} + " one\\rtwo")
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=theirs, env={**os.environ, "TERM": "xterm"}) as process:
        os.close(theirs)
        shown = b""
        try:
            while piece := os.read(ours, 4096):
                shown += piece
        except OSError:  # Linux says so when the other side is gone
            pass
        os.close(ours)
    assert process.returncode == 0
    assert b"\x1b[1mours\x1b[0m theirs" in shown
    assert b"PWNED" in shown
    assert not [one for one in (b"\x1b]", b"\x07", b"\x1b[2J", "\x9b".encode(), b"one\rtwo") if one in shown]


@pytest.mark.parametrize("text", ["plain", "a\tb\nc\r\n", "T-shirt × 5 µs ✓", "שלום"])
def test_ordinary_text_stays(text):
    assert harmless(text) == text


@pytest.mark.parametrize("character", ["\x00", "\x08", "\x1b", "\x7f", "\x85", "\x9d", "\u202e", "\u2067", "\rx"])
def test_what_steers_is_shown_as_a_mark(character):
    assert harmless(character)[0] == "\N{REPLACEMENT CHARACTER}"


def test_a_console_writes_in_order_with_what_is_echoed(monkeypatch):
    held = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", HarmlessStream(held, encoding="utf-8"))
    sys.stdout.write("one ")
    open_console(width=80).print("two")
    sys.stdout.write("three")
    sys.stdout.flush()
    assert held.getvalue() == b"one two\nthree"
