import json
from datetime import UTC, datetime
from pathlib import Path

import click
import pytest

from zoolens.base.present.tables import Column
from zoolens.base.present.terminal import (
    TABLE_WIDTH,
    echo_json,
    fitting_columns,
    print_blocks,
    print_table,
    show_every_column,
)
from zoolens.base.store.json_columns import JsonText

COLUMNS = [Column("run", keep=9), Column("model", keep=9), Column("p50", "number", keep=5), Column("size")]
ROWS = [["3f2a", "zoo:a[b]:cat:", "1.2 ms", "3 MB"]]


def test_what_fits_is_all_shown():
    assert fitting_columns(COLUMNS, ROWS, 60) == [0, 1, 2, 3]


def test_the_least_important_goes_first_and_the_names_stay():
    assert fitting_columns(COLUMNS, ROWS, 28) == [0, 1, 2]
    assert fitting_columns(COLUMNS, ROWS, 5) == [0, 1]


def test_text_is_shown_as_it_is(capsys):
    print_table(COLUMNS, ROWS)
    shown = capsys.readouterr().out
    assert "zoo:a[b]:cat:" in shown


def test_sentences_are_broken_before_a_column_goes():
    columns = [Column("network", keep=9), Column("likeness", keep=8), Column("this has", keep=5, folds=True)]
    rows = [["torchvision:resnet18", "100 %", "one thing instead of another; " * 9]]
    assert fitting_columns(columns, rows, 80) == [0, 1, 2]
    assert fitting_columns(columns, rows, 40) == [0, 1]


def test_a_long_table_reads_as_a_short_one(capsys):
    columns = [Column("name"), Column("size", "number"), Column("größe ×")]
    rows = [["a[b]", "1", "漢字"], ["longer name", "2,000", "x"]]
    print_table(columns, rows)
    short = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    print_blocks(columns, [rows])
    assert capsys.readouterr().out.splitlines() == short
    print_blocks(columns, [rows[:1], rows[1:]])
    first, second, third = capsys.readouterr().out.splitlines()
    assert (first, second, third) == ("name  size  größe ×", "a[b]     1  漢字", short[2])


def test_a_table_without_rows_still_names_its_columns(capsys):
    print_table([Column("model"), Column("runtime")], [])
    assert capsys.readouterr().out.split() == ["model", "runtime"]


def test_tables_fit_100_columns_in_a_pipe_unless_all_columns_are_wanted(capsys):
    columns = [Column(f"column {i}", keep=9 - i) for i in range(9)]
    rows = [["x" * 20] * 9]
    print_table(columns, rows)
    *table, note = capsys.readouterr().out.splitlines()
    assert max(len(line.rstrip()) for line in table) <= TABLE_WIDTH
    assert note.startswith("Columns hidden for lack of width: column 4, column 5")
    with click.Context(click.Command("list")) as context:
        show_every_column(context)
        print_table(columns, rows)
        print_blocks(columns, [rows])
    head, row, *blocks = capsys.readouterr().out.splitlines()
    assert head.rstrip().endswith("column 8")
    assert row.rstrip() == "  ".join(rows[0])
    assert blocks[1] == row.rstrip()


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


def test_long_names_are_broken_before_every_figure_is_dropped(capsys):
    columns = [
        Column("run", keep=8),
        Column("model", keep=10),
        Column("runtime", keep=9),
        Column("top-1", "number", keep=7),
    ]
    rows = [["8844bff8", "folder:" + "a-very-long-name/" * 6 + "net", "onnxruntime 1.31.1", "61.7 % [59.5, 63.8]"]]
    shown = fitting_columns(columns, rows, 80)
    assert 3 in shown
    print_table(columns, rows, width=80)
    printed = capsys.readouterr().out
    assert "61.7 % [59.5, 63.8]" in printed
    assert "".join(printed.split()).count("a-very-long-name") >= 1
