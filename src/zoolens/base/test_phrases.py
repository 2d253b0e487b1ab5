import pytest

from zoolens.base.phrases import first_few


@pytest.mark.parametrize(
    ("names", "words"),
    [([], ""), ("a", "a"), ("ab", "a, b"), ("abc", "a, b and 1 more"), ("ab" * 600, "a, b and 1,198 more")],
)
def test_names_beyond_the_first_are_counted(names, words):
    assert first_few(names, 2) == words


def test_separators_and_what_is_counted_can_be_named():
    assert first_few("abcd", 2, between="; ", rest="more lines") == "a; b and 2 more lines"
