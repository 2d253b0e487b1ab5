"""The page about the language: its examples are queries, and its errors are what is really said."""

import re
from pathlib import Path

import pytest

from zoolens.findings.queries.language.parser import QueryError, parse
from zoolens.findings.queries.language.tokens import CLAUSES
from zoolens.findings.queries.language.units import FRACTIONS, UNITS, is_fraction
from zoolens.findings.queries.language.unparser import to_text

PAGE = Path(__file__).parents[4] / "docs" / "query-language.md"
pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="the documentation is not beside the package")
TEXT = PAGE.read_text() if PAGE.exists() else ""
BLOCKS = re.findall(r"```sql\n(.*?)```", TEXT, re.DOTALL)
EXAMPLES = [BLOCKS[0], *(line for block in BLOCKS[1:] for line in block.splitlines())] if BLOCKS else []
ERRORS = re.findall(r"```text\n(Error: .*?)\n```", TEXT, re.DOTALL)


@pytest.mark.parametrize("text", EXAMPLES)
def test_examples_are_queries(text):
    query = parse(text)
    assert parse(to_text(query)) == query


@pytest.mark.parametrize("shown", ERRORS)
def test_errors_are_shown_as_they_are_told(shown):
    with pytest.raises(QueryError) as caught:
        parse(shown.splitlines()[1].strip())
    assert f"Error: {caught.value}" == shown


def test_every_clause_and_unit_is_described():
    assert EXAMPLES
    assert ERRORS
    for clause in CLAUSES:
        assert f"`{'ORDER BY' if clause == 'ORDER' else clause}" in TEXT, clause
    for unit in UNITS:
        assert f"`{unit}`" in TEXT, unit


def test_the_table_of_fractions_is_whole():
    row = next(line for line in TEXT.splitlines() if line.endswith("| 0.20 |"))
    named = set(re.findall(r"`([a-z]\w*)`", row))
    assert all(map(is_fraction, named))
    assert {name for name in FRACTIONS if not name.endswith(("_lower", "_upper", "_share"))} == named
