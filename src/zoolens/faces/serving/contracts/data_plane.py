"""What every transport may ask of the data plane. REST, gRPC and tests know this and nothing behind it.

All methods are called on the event loop; those that may wait are coroutines. Whatever cannot be answered is a
`ServingError` (see `zoolens.base.protocol.errors`) with one sentence for the client.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from zoolens.base.protocol.errors import ServingError
from zoolens.base.protocol.messages import (
    InferRequest,
    InferResponse,
    ModelMetadata,
    ModelStatistics,
    RepositoryEntry,
    ServerMetadata,
)


class DataPlane(Protocol):
    """Names are those of served models and of services alike; an empty `version` means the newest one."""

    def live(self) -> bool:
        """Whether the process works; True also while it drains."""
        ...

    def ready(self) -> bool:
        """Whether every model that should be loaded is, and requests are accepted."""
        ...

    def model_ready(self, model: str, version: str = "") -> bool: ...

    def metadata(self) -> ServerMetadata: ...

    def model_metadata(self, model: str, version: str = "") -> ModelMetadata: ...

    def model_config(self, model: str, version: str = "") -> Mapping[str, Any]:
        """Triton's ModelConfig as plain data (its JSON form)."""
        ...

    def statistics(self, model: str = "", version: str = "") -> list[ModelStatistics]:
        """Returns the statistics of one model, or of all."""
        ...

    def repository(self, only_ready: bool = False) -> list[RepositoryEntry]: ...

    async def load(self, model: str, parameters: Mapping[str, Any]) -> None:
        """Load a model, or load it again: the old one answers until the new one is ready, and stays if it fails."""
        ...

    async def unload(self, model: str) -> None:
        """Take a model off: requests that were accepted are answered first."""
        ...

    async def infer(self, request: InferRequest) -> InferResponse: ...

    async def feedback(self, model: str, labels: Mapping[str, Any]) -> int:
        """Labels for answers given before, by the id of their request; how many of the ids were known."""
        ...

    def trace_settings(self, model: str = "") -> Mapping[str, Any]: ...

    def change_trace_settings(self, model: str, settings: Mapping[str, Any]) -> Mapping[str, Any]: ...

    async def drain(self, seconds: float) -> None:
        """Accept nothing more, and wait until what was accepted is answered, at most so long."""
        ...


@runtime_checkable
class CallbackPlane(Protocol):
    """A data plane that also takes a callback instead of being awaited. A task takes three turns of the event loop for
    a request, which is as long as a small model takes."""

    def submit(
        self, request: InferRequest, done: Callable[[InferResponse | ServingError], object]
    ) -> Callable[[], None]:
        """Accept a request, or raise a ServingError. `done` is called once, on the event loop, with the answer or the
        error; it may be called before this returns. What is returned is called when nobody waits for the answer any
        more: `done` is not called after that."""
        ...
