import pytest

from zoolens.base.store.spreadsheets import spreadsheet_cell


@pytest.mark.parametrize("text", [
    "=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", " =1",
    "\n=1", '=HYPERLINK("http://x","y")', "-cmd|' /C calc'!A0",
    "＝1+1", "+", "-", "=",
])  # fmt: skip
def test_formulas_are_defused(text):
    assert spreadsheet_cell(text) == f"'{text}"


@pytest.mark.parametrize("cell", ["net", "", "a=b", "1-2", "-0.5", "+3", "-1e-05", "-inf", "nan", -0.5, 3, None, True])
def test_numbers_and_names_stay(cell):
    assert spreadsheet_cell(cell) is cell
