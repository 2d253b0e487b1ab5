import json

from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import from_json


@given(st.lists(st.floats() | st.none()))
def test_numbers_are_read_to_the_last_bit(numbers):
    """What `load_figures` relies on: the parser that it uses for being quick gives what `json` wrote."""
    assert list(map(repr, from_json(json.dumps(numbers)))) == list(map(repr, numbers))
