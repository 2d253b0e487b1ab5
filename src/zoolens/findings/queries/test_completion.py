import pytest

from zoolens.findings.queries.completion import MOST, completions


def offered(text, index, kind=None):
    return [one.text for one in completions(text, len(text), index) if kind in (None, one.kind)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "SELECT MODELS"),
        ("co", "CORR"),
        ("CORR ", "toys:big"),
        ("CORR bi", "toys:big"),
        ("CORR big ", "WITHIN"),
        ("CORR big ON ", "memory"),
        ("CORR big ON lat", "latency"),
        ("CORR big ON memory ", "<="),
        ("CORR big ON memory <= 20 ", "MB"),
        ("CORR big ON memory <= 20 MB AND ", "latency"),
        ("CORR big ON memory <= 20 MB ", "AND"),
        ("CORR big WHERE ", "runtime"),
        ("ORDER BY ", "accuracy"),
        ("TASK ", "classification"),
        ("DATA ", "probes"),
        ("CORR big EXEC (", "runtime="),
    ],
)
def test_what_may_stand_there_is_offered(index, text, expected):
    assert expected in offered(text, index)


def test_a_clause_is_offered_once(index):
    assert "WITHIN" not in offered("CORR big WITHIN 90% ", index)
    assert "ON" in offered("CORR big WITHIN 90% ", index)


def test_what_is_typed_is_replaced_and_the_rest_stays(index):
    text = "CORR sma WITHIN 90%"
    one = next(one for one in completions(text, 8, index) if one.text == "toys:small")
    assert text[: one.start] + one.text + text[one.end :] == "CORR toys:small WITHIN 90%"


@pytest.mark.parametrize("text", ["'unfinished", "((((", "\x00 ON", "ON ON ON", "é ≤ 5", ";" * 50])
def test_nonsense_is_no_error_and_offers_are_few(index, text):
    for at in (-5, 0, len(text) // 2, len(text), len(text) + 9):
        assert len(completions(text, at, index)) <= MOST
