"""A name in a query that stands for nothing in this index: told with the place where it stands."""

from __future__ import annotations

from collections.abc import Iterable

from zoolens.errors import UnknownName, ZoolensError
from zoolens.queries.errors import QueryError
from zoolens.queries.parsing import places


class Misnamed(UnknownName):
    """`name` is what was written, so that the place in the query's text can be pointed at."""

    def __init__(self, kind: str, name: str, known: Iterable[str], *, hint: str | None = None) -> None:
        super().__init__(kind, name, known, hint=hint)
        self.name = name


def pointed(error: Misnamed, text: str | None) -> ZoolensError:
    """The same error with a caret under the name, where the query was written as text."""
    place = places(text).get(error.name) if text else None
    return error if not text or place is None else QueryError(error.message, text, *place, hint=error.hint)
