"""What the demo tells people to type."""

import sys

import pytest

from zoolens.faces.cli import demo


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
