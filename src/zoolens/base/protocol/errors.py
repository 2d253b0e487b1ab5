"""Why a request is not answered: one kind for each answer that clients can tell apart, with its REST and gRPC codes."""

from __future__ import annotations

from enum import Enum

from zoolens.base.errors import ZoolensError


class Refusal(Enum):
    """The HTTP status, and the name of the gRPC status code."""

    INVALID = (400, "INVALID_ARGUMENT")
    UNAUTHENTICATED = (401, "UNAUTHENTICATED")
    FORBIDDEN = (403, "PERMISSION_DENIED")
    NOT_FOUND = (404, "NOT_FOUND")
    TOO_SLOW = (408, "DEADLINE_EXCEEDED")
    TOO_LARGE = (413, "RESOURCE_EXHAUSTED")
    OVERLOADED = (429, "RESOURCE_EXHAUSTED")
    CANCELLED = (499, "CANCELLED")
    INTERNAL = (500, "INTERNAL")
    UNSUPPORTED = (501, "UNIMPLEMENTED")
    UNAVAILABLE = (503, "UNAVAILABLE")
    TOO_LATE = (504, "DEADLINE_EXCEEDED")

    @property
    def http(self) -> int:
        return self.value[0]

    @property
    def grpc(self) -> str:
        return self.value[1]


class ServingError(ZoolensError):
    """A request that gets a clear error instead of an answer."""

    def __init__(self, refusal: Refusal, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.refusal = refusal
