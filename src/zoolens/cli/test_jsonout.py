"""JSON of every command: what a store hands over is printed as values, not as text of values."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from zoolens.cli.jsonout import echo_json
from zoolens.store.jsontext import JsonText


def test_stored_objects_are_objects_and_dates_and_paths_are_text(capsys):
    echo_json({"resolved": JsonText('{"precision": "float32", "größe": [1]}'), "at": datetime(2026, 1, 2, tzinfo=UTC)})
    printed = capsys.readouterr().out
    assert "größe" in printed
    assert json.loads(printed) == {
        "resolved": {"precision": "float32", "größe": [1]},
        "at": "2026-01-02 00:00:00+00:00",
    }
    echo_json([Path("a") / "b"])
    assert json.loads(capsys.readouterr().out) == ["a/b"]


def test_what_is_no_object_is_damage():
    with pytest.raises(ValueError, match="expected a JSON object"):
        echo_json(JsonText("[1]"))
