"""What is wrong with a word of a query in this index: told with the place where it stands."""

from __future__ import annotations

from collections.abc import Iterable

from zoolens.errors import UnknownName, ZoolensError
from zoolens.queries.errors import QueryError
from zoolens.queries.parsing import places


class About(ZoolensError):
    """`name` is a name of the query, or the keyword of a clause, that cannot be answered."""

    def __init__(self, name: str, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.name = name


class Misnamed(UnknownName):
    """`name` stands for nothing."""

    def __init__(self, kind: str, name: str, known: Iterable[str], *, hint: str | None = None) -> None:
        super().__init__(kind, name, known, hint=hint)
        self.name = name


def pointed(error: Misnamed | About, text: str | None) -> ZoolensError:
    """The same error with a caret under the name, where the query was written as text."""
    place = places(text).get(error.name) if text else None
    return error if not text or place is None else QueryError(error.message, text, *place, hint=error.hint)
