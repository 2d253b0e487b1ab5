"""How a resource of the API declares what it answers.

An endpoint is a path and a plain function, which runs in a thread. The function's annotations name the model of the
query and the model of the answer. The routes, the checks, the OpenAPI page and the types of the browser's client all
come from this declaration.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Final, Generic, Literal, Self, TypeVar, get_type_hints

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from zoolens.base.errors import MissingDependency, StoreError, UnknownName, ZoolensError
from zoolens.base.present.text import clean

PREFIX: Final = "/api/v1"
MOST_ROWS: Final = 500  # of a page
LONGEST_TEXT: Final = 4_000  # characters of a `ShownText`
Row = TypeVar("Row")

_NAME: Final = re.compile(r"{(\w+)(?::path)?}")
_STATUS: Final = {UnknownName: 404, MissingDependency: 501, StoreError: 503}


class Query(BaseModel):
    """What is asked: the names in the endpoint's path, and the query string (or, of a POST, the JSON body)."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Paged(Query):
    """Which part of a long answer is asked for."""

    offset: int = Field(0, ge=0, le=1 << 40, description="How many rows to leave out.")
    limit: int = Field(50, ge=1, le=MOST_ROWS, description="How many rows to give at most.")

    @property
    def page(self) -> slice:
        """The places of the rows that are asked for."""
        return slice(self.offset, self.offset + self.limit)


class Answer(BaseModel):
    """What is answered. Texts of strangers are declared as `Shown`."""

    model_config = ConfigDict(extra="forbid", frozen=True, from_attributes=True)

    @classmethod
    def of(cls, source: object, **more: Any) -> Self:
        """The answer that says what a result says: every field is the result's attribute (or the key of printed JSON)
        of the same name, unless `more` gives it."""
        missing = object()
        values = dict(more)
        for name in cls.model_fields:
            if name in more:
                continue
            value = source.get(name, missing) if isinstance(source, Mapping) else getattr(source, name, missing)
            if value is not missing:
                values[name] = value
        return cls.model_validate(values)


class RowPage(Answer, Generic[Row]):
    """Some of `total` rows, beginning with row `offset`."""

    total: int
    offset: int
    rows: list[Row]


def _shown(text: object) -> str:
    return "" if text is None else clean(text)


Shown = Annotated[str, BeforeValidator(_shown)]
"""A text that strangers wrote: one line of at most a thousand characters without control and direction characters. A
text that is not known is empty."""

ShownText = Annotated[str, BeforeValidator(lambda text: clean(text, LONGEST_TEXT))]
"""Likewise, of at most four thousand characters: a text that is read as a whole."""


RunName = Annotated[str, Field(max_length=200, description="The id of a run, the beginning of one, or 'last'.")]


@dataclass(frozen=True)
class File:
    """An answer that is no JSON, such as an image."""

    content: bytes
    media_type: str
    # The name under which a browser saves the file, instead of showing it
    name: str = ""
    # Whether the content at this address never changes, so that a browser need not ask again
    lasting: bool = False


@dataclass(frozen=True)
class Event:
    """One event of a stream (SSE)."""

    name: str
    data: Answer
    # Where a client that lost its connection goes on
    id: str = ""


class RequestError(ZoolensError):
    """A request that cannot be answered as it is asked; `status` is that of the answer."""

    def __init__(self, message: str, *, status: int = 400, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status


class NotFound(RequestError):
    """Something that is not there."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, status=404, hint=hint)


def status_of(error: ZoolensError) -> int:
    """The status of the answer that says this error."""
    if isinstance(error, RequestError):
        return error.status
    return next((status for kind, status in _STATUS.items() if isinstance(error, kind)), 400)


@dataclass(frozen=True)
class Endpoint:
    """One thing that the API answers."""

    path: str
    """The part after /api/v1; `{name}`, or `{name:path}` where the value may hold slashes, are fields of the query."""

    summary: str
    call: Callable[..., Any]
    """`call(context, query)` gives an answer or a `File`; with `upload_bytes` it is `call(context, query, content)`."""
    asks: type[Query] | None = None
    """The query, where several endpoints share one call."""
    method: Literal["GET", "POST", "DELETE"] = "GET"
    stream: type[Answer] | None = None
    """What the events of a stream hold; its call is an asynchronous iterator of `Event` objects."""
    upload_bytes: int | None = None
    """The largest body that is taken as it is, instead of as JSON."""
    status: int = 200
    """The status of a good answer."""
    needs_store: bool = True
    """An endpoint that needs none is answered even if the store's file is gone."""

    @cached_property
    def query(self) -> type[Query]:
        """The model of what is asked."""
        _, declared, *_ = get_type_hints(self.call).values()
        return self.asks or declared

    @cached_property
    def answer(self) -> type[Answer] | type[File]:
        """The model of what is answered."""
        declared: type[Answer] | type[File] = get_type_hints(self.call)["return"]
        return self.stream or declared

    @property
    def names(self) -> tuple[str, ...]:
        """The fields of the query that the path holds."""
        return tuple(_NAME.findall(self.path))

    @property
    def template(self) -> str:
        """The path as the browser's client names it, such as "/model/{ref}"."""
        return _NAME.sub(r"{\1}", self.path)

    @property
    def plain_path(self) -> str:
        """The whole path as OpenAPI writes it."""
        return PREFIX + self.template
