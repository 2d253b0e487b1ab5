import csv
import io

import numpy as np
import pytest

from zoolens.base.present.figures import short_number
from zoolens.base.present.tables import Column, Table, cell_words, csv_text, plain_words, write_csv


def test_files_hold_plain_numbers_and_no_formula(tmp_path):
    rows = ((np.float64(0.25), np.nan, "=cmd()"), (True, None, np.int64(3)))
    (path,) = write_csv([Table("t", (Column("@a", "percent"), Column("b"), Column("c")), rows)], tmp_path / "new")
    assert list(csv.reader(path.open(encoding="utf-8"))) == [
        ["'@a", "b", "c"],
        ["0.25", "", "'=cmd()"],
        ["True", "", "3"],
    ]
    assert next(csv.reader(io.StringIO(csv_text(["a"], [])))) == ["a"]


def test_tables_of_one_name_have_files_of_their_own_inside_the_folder(tmp_path):
    table = Table("../../it's", (Column("a"),), ())
    assert [path.name for path in write_csv([table, table], tmp_path)] == ["it-s.csv", "it-s-2.csv"]


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        ("percent", 0.12345, "12.35 %"),
        ("percent", None, "–"),
        ("nats", -0.5, "−0.500"),
        ("p", 0.00012, "0.0001"),
        ("number", 1234, "1,234"),
        ("number", "+3 %", "+3 %"),
        ("text", None, "–"),
    ],
)
def test_a_column_says_how_its_values_read(kind, value, words):
    assert cell_words(Column("c", kind), value) == words
    assert Column("c", kind).right == (kind != "text")


def test_cells_that_are_no_number():
    shown = [plain_words(one) for one in (None, float("nan"), True, "text", 12345)]
    assert shown == ["–", "–", "True", "text", "12,345"]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (1e-8, "1e−8"), (0.05, "0.05"), (512.0, "512"), (-0.5, "−0.5"), (0, "0"), (1234567.0, "1.23e6"),
        (2.5e-4, "2.5e−4"),
    ],
)  # fmt: skip
def test_short_numbers(value, words):
    assert short_number(value) == words
