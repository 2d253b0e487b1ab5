import pytest

from zoolens.base.recent_values import RecentValues


def test_the_values_that_were_used_last_are_kept():
    values = RecentValues(2)
    made = []

    def kept(key):
        return values.kept(key, lambda: made.append(key))  # None is a value, too

    for key in "abacab":
        kept(key)
    assert made == ["a", "b", "c", "b"]
    values.put("d", 4)
    assert (values.get("a"), values.get("b"), values.get("d")) == (None, None, 4)


def test_what_cannot_be_made_is_tried_again():
    values = RecentValues(1)
    with pytest.raises(ZeroDivisionError):
        values.kept("a", lambda: 1 / 0)
    assert values.kept("a", lambda: 1) == 1
