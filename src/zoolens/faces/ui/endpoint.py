"""How a resource of the API declares what it answers.

An endpoint is a path, a model of what is asked, a model of the answer, and a plain function between the two, which runs
in a thread. The routes, the checks, the OpenAPI page and the types of the browser's client all come from the
declaration.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from zoolens.base.errors import MissingDependency, StoreError, UnknownName, ZoolensError
from zoolens.base.present.text import clean

if TYPE_CHECKING:
    from zoolens.faces.ui.context import Context

PREFIX: Final = "/api/v1"
MOST_ROWS: Final = 500  # of a page
_NAME: Final = re.compile(r"{(\w+)(?::path)?}")
_STATUS: Final = {UnknownName: 404, MissingDependency: 501, StoreError: 503}


class Query(BaseModel):
    """What is asked: the names in the endpoint's path, and the query string (or, of a POST, the JSON body)."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Paged(Query):
    """Which part of a long answer is asked for."""

    offset: int = Field(0, ge=0, le=1 << 40, description="How many rows to leave out.")
    limit: int = Field(50, ge=1, le=MOST_ROWS, description="How many rows to give at most.")


class Answer(BaseModel):
    """What is answered. Texts of strangers are declared as `Shown`."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Shown = Annotated[str, BeforeValidator(clean)]
"""A text that strangers wrote: one line of at most a thousand characters without control and direction characters."""


@dataclass(frozen=True)
class File:
    """An answer that is no JSON, such as an image. `name`: under which a browser saves it, instead of showing it.
    `lasting`: what is at this address never changes, so that a browser need not ask again."""

    content: bytes
    media_type: str
    name: str = ""
    lasting: bool = False


@dataclass(frozen=True)
class Event:
    """One event of a stream (SSE). `id`: where a client that lost its connection goes on."""

    name: str
    data: Answer
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
    """One thing that the API answers. `path` comes after /api/v1; `{name}` in it, or `{name:path}` where the value may
    hold slashes, are fields of `query`.

    `call(context, query)` gives an `answer`; with `upload_bytes` it is `call(context, query, content)` and the body, of
    at most so many bytes, is the content. `answer` may be `File`. `stream` endpoints have an asynchronous iterator of
    `Event` objects as their call, and `answer` is what the events hold. `status`: of a good answer. `needs_store`: what
    needs none is answered even if the store's file is gone.
    """

    path: str
    summary: str
    query: type[Query]
    answer: type[Answer] | type[File]
    call: Callable[..., Any]
    method: Literal["GET", "POST", "DELETE"] = "GET"
    stream: bool = False
    upload_bytes: int | None = None
    status: int = 200
    needs_store: bool = True

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


Call = Callable[["Context", Any], Answer]
