from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import numpy as np
import pytest

from zoolens.base.progress import Progress, Silent
from zoolens.base.public.argument_types import accepted, argument_types, type_words, value_words


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        (str, ["", "x"], [b"x", 3, None]),
        (int, [3, np.int64(3)], [3.0, True, "3", None]),
        (float, [3, 0.5, np.float32(1)], [True, "0.5", 1j]),
        (bool, [True], [1, "yes", None]),
        (Path, [Path("x"), Path()], ["x", 3]),
        (str | None, ["x", None], [0, False]),
        (Sequence[str], [["a"], ("a", "b"), []], ["a", [3], {"a"}, 3]),
        (Sequence[str] | str, ["a", ["a"]], [["a", 3]]),
        (Iterable[int], [[1], {1, 2}, iter("never read")], [["1"], 3]),
        (Mapping[str, int], [{"a": 1}, {}], [{"a": "b"}, {1: 1}, [("a", 1)]]),
        (tuple[str, str], [("a", "b")], [("a",), ("a", "b", "c"), ["a", "b"], ("a", 1)]),
        (tuple[int, ...], [(), (1, 2)], [(1, "2"), [1]]),
        (Literal["a", "b"], ["a"], ["c", None, np.zeros(3)]),
        (Callable[[int], int], [abs, lambda x: x], ["abs", 3]),
        (Progress, [Silent()], [True, "bar", print]),
        (Any, [None, 3, object()], []),
        (list[Any], [[object()]], [(1,)]),
        (type(None), [None], [0]),
    ],
)
def test_values_of_a_type(kind, right, wrong):
    assert [value for value in right if not accepted(value, kind)] == []
    assert [value for value in wrong if accepted(value, kind)] == []


def test_a_path_of_another_library_is_one():
    class Remote:
        def __fspath__(self):
            return "x"

    assert accepted(Remote(), Path)
    assert accepted(PurePosixPath("x"), Path)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (str | Path | None, "str, Path or None"),
        (None | str, "str or None"),
        (Sequence[str | Path] | str, "str or a sequence of str or Path"),
        (Mapping[str, int] | None, "a mapping of str to int or None"),
        (tuple[str, int], "a tuple of 2 (str, int)"),
        (Literal["a", "b"] | None, "'a' or 'b' or None"),
        (Callable[[], int], "a function"),
        (Progress, "Progress"),
    ],
)
def test_types_in_words(kind, words):
    assert type_words(kind) == words


def test_a_long_value_is_shortened():
    assert value_words(None) == "None"
    assert value_words(3) == "3, of type int"
    assert len(value_words("x" * 1000)) < 100
    assert len(value_words(list(range(1000)))) < 100


def test_types_that_are_imported_for_type_checkers_alone_are_found():
    from zoolens.base.present.bars import Bars
    from zoolens.base.store.store import Store
    from zoolens.faces.notebook.showing import show

    assert "Store" not in vars(__import__("sys").modules[show.__module__])
    assert argument_types(show)["store"] == Store | str | Path | None
    assert argument_types(Bars.advance) == {"steps": int}


def test_an_annotation_that_cannot_be_resolved_is_left_out():
    def function(a: "NowhereDefined", b: int) -> "NorThis":  # noqa: F821
        """Nothing."""

    assert argument_types(function) == {"b": int}
