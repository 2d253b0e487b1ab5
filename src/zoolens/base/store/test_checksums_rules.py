"""How the checksum of a row is made, without a store: every column counts, and the values are pinned."""

import re
import time
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from zlib import crc32

import pytest

from zoolens.base.store.checksums import CHECKED, FIGURE, FIGURE_SHIFT, DamagedRow, check_row, checksum, figure_checksum
from zoolens.base.store.values import storable_text, to_json


@pytest.mark.parametrize("name", FIGURE)
def test_every_column_of_a_figure_counts(name):
    row = dict.fromkeys((*FIGURE, *CHECKED["observations"]))
    assert checksum("observations", row) != checksum("observations", {**row, name: "other"})


@pytest.mark.parametrize(("table", "name"), [(table, name) for table, names in CHECKED.items() for name in names])
def test_every_listed_column_counts(table, name):
    row = dict.fromkeys((*FIGURE, *CHECKED[table]))
    assert checksum(table, row) != checksum(table, {**row, name: 1})


def test_a_figure_alone_has_its_part_of_the_checksum():
    values = ["r", "size", "file_size", "", 5.0, None, None, "B", "measured"]
    row = {**dict(zip(FIGURE, values, strict=True)), "n": 1, "details": "{}", "created": None}
    assert checksum("observations", row) >> FIGURE_SHIFT == figure_checksum(values)
    assert checksum("observations", row) >> FIGURE_SHIFT != figure_checksum([*values[:4], 6.0, *values[5:]])


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("runs", "a row of runs (id 'id') does"),
        ("stages", "a row of stages (run_id 'run_id', stage 'stage') does"),
        ("models", f"a row of models (fingerprint '{'f' * 40}', ref 'ref') does"),
        ("observations", "a row of observations (run_id 'run_id', metric 'metric', scope 'scope') does"),
    ],
)
def test_a_damaged_row_is_named_by_its_key(table, words):
    row = {name: name for name in (*FIGURE, *CHECKED[table])} | {"checksum": 0}
    if table == "models":
        row["fingerprint"] = "f" * 64
    with pytest.raises(DamagedRow, match=re.escape(words)):
        check_row(table, SimpleNamespace(_mapping=row))


def test_a_checksum_is_pinned_to_the_text_of_the_values(monkeypatch):
    """One that changed would call every stored row damaged. The time zone of the machine is no part of it."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    later = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=2)))
    values = ["r", None, "ä", "", -0.0, 1.5, later, {"b": 1, "a": 2}, 7]
    text = "\x1f".join(
        ["r", "\x00", "ä", "", "0.0", "1.5", "2026-01-02T01:04:05.000000+00:00", to_json({"b": 1, "a": 2}), "7"]
    )
    assert figure_checksum(values) == crc32(text.encode()) >> 1
    assert checksum("aliases", {"kind": "a", "name": "b\0", "fingerprint": "c"}) == crc32(
        f"a\x1f{storable_text(chr(98) + chr(0))}\x1fc".encode()
    )
    monkeypatch.undo()
    time.tzset()
