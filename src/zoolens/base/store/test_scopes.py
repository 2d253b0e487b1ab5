"""Scopes: whatever the text, reading and writing it gives the same text."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zoolens.base.store.scopes import (
    Dimension,
    Scope,
    batch_scope,
    class_scope,
    epoch_scope,
    is_of_part,
    pair_scope,
    parse_scope,
)


@pytest.mark.parametrize(
    ("text", "scope"),
    [
        ("", Scope()),
        ("batch=8", Scope(Dimension.BATCH, "8")),
        ("batch=8,raw", Scope(Dimension.BATCH, "8", raw=True)),
        ("class=3", Scope(Dimension.CLASS, "3")),
        ("with=0123456789abcdef", Scope(Dimension.WITH, "0123456789abcdef")),
        ("ImageNet-1K at 288×288", Scope(value="ImageNet-1K at 288×288")),
        ("other=8", Scope(value="other=8")),
        ("first_run", Scope(value="first_run")),
    ],
)
def test_a_scope_is_what_its_text_says(text, scope):
    assert parse_scope(text) == scope
    assert str(scope) == text


@settings(max_examples=40)
@given(st.text() | st.from_regex(r"(batch|class|epoch|with)=\d*(,raw)?", fullmatch=True))
def test_no_text_is_changed(text):
    assert str(parse_scope(text)) == text


def test_scopes_are_written_in_one_way():
    written = (batch_scope(8), batch_scope(8, raw=True), class_scope(3), epoch_scope(2), pair_scope("ab"))
    assert written == ("batch=8", "batch=8,raw", "class=3", "epoch=2", "with=ab")


def test_only_a_place_on_a_dimension_has_a_number():
    numbers = [parse_scope(text).number for text in ("batch=8", "batch=8,raw", "batch=x", "12", "")]
    assert numbers == [8, 8, None, None, None]


def test_figures_of_the_whole_are_told_from_those_of_parts():
    parts = [
        text for text in ("", "batch=8", "batch=8,raw", "total", "class=3", "epoch=2", "with=ab") if is_of_part(text)
    ]
    assert parts == ["class=3", "epoch=2", "with=ab"]
