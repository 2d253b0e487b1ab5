"""`scripts/measure_house.py` counts a small package as a reader would by hand."""

import pytest
from scripts import measure_house

ONE = '''\
"""Of what the other module has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zoolens.room.two import Two


# A reason.
def long(a: int, b: int, c: int, d: int, e: int, f: int, g: int, h: Any) -> int:
    """Returns the first one."""
    return a  # noqa: ANN001


def seven(self, a: int, b: int, c: int, d: int, e: int, f: int, g: int) -> Two:
    return self


def evaluate(a: int, b: int, c: int, d: int, e: int, f: int, g: int, h: int) -> int:
    return [[[x for x in range(y) if x % 2 == 0 and x > a + b] for y in range(c)] for z in range(d * e) if f + g * h]
'''
TWO = '''\
from zoolens.room import one


class Two:
    """A pair. `left`: one side. `right`: the other side."""

    left: int  # beside code, which is no comment line
    right: int

    def late(self) -> object:
        from zoolens.room import test_two

        return test_two, one
'''


@pytest.fixture
def house(tmp_path, monkeypatch):
    """A package of two modules that import each other, of which the first does so for type checkers only."""
    room = tmp_path / "src" / "zoolens" / "room"
    room.mkdir(parents=True)
    (room / "__init__.py").write_text("")
    (room / "one.py").write_text(ONE)
    (room / "two.py").write_text(TWO)
    (room / "test_two.py").write_text("import zoolens.room.two\n")
    for place in range(4):
        (room / f"part{place}").mkdir()
        (room / f"part{place}" / "layout.py").write_text("# Nothing but a comment.\n")
    monkeypatch.chdir(tmp_path)
    return measure_house.measured(measure_house.read(measure_house.PACKAGE, tests=False))


def test_files_lines_and_comments(house):
    assert house.files == 7  # without the test
    assert house.lines == ONE.count("\n") + TWO.count("\n") + 4
    assert house.comment_lines == 1 + 4
    assert house.commented_lines == 1 + 4 + 1
    assert house.code_lines == 10 + 7


def test_functions_above_seven_parameters_are_named_but_for_public_ones(house):
    (line,) = house.named["parameters"]
    assert line.endswith("long: 8")


def test_stems_and_annotations_with_any(house):
    assert house.named["stems"] == ["layout: 4"]
    (line,) = house.named["any"]
    assert line.endswith(" long")


def test_circles_count_imports_for_types_and_not_those_inside_functions(house):
    assert house.named["circles"] == ["zoolens.room.one ↔ zoolens.room.two"]


def test_docstrings_that_lean_or_list_and_lines_that_are_dense(house):
    assert [line.partition(" ")[2] for line in house.named["leaning"]] == ["Of what the other module has."]
    assert [line.partition(" ")[2] for line in house.named["fields"]] == ["Two"]
    (dense,) = house.named["dense"]
    assert " evaluate: " in dense


def test_it_prints_one_line_for_each_figure(house, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["measure_house"])
    measure_house.main()
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split() == ["files", "7"]
    assert "circles, with imports for types" in printed[8]
    monkeypatch.setattr("sys.argv", ["measure_house", "--list", "stems"])
    measure_house.main()
    assert capsys.readouterr().out == "layout: 4\n"
