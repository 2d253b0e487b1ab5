"""What can be asked of a server of the protocol, whichever transport carries it. Each call waits for its answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Final, Self

from zoolens.base.protocol.address import Address
from zoolens.base.protocol.limits import Limits
from zoolens.base.protocol.messages import InferRequest, InferResponse, ModelMetadata, RepositoryEntry, ServerMetadata

TOKEN: Final = "ZOOLENS_TOKEN"  # noqa: S105 - the environment variable that holds the token for a server that asks for one
SECONDS: Final = 60.0
BINARY: Final = "binary_tensor_data"
ANSWER_LIMITS: Final = Limits(body_bytes=1 << 30, tensor_bytes=1 << 30)


class Client(ABC):
    """One server. An error that it answers with is a `ServingError` with its sentence, a server that cannot be reached
    a `ZoolensError`. It belongs to one thread; close it, or use it as a context manager."""

    address: Address

    @abstractmethod
    def server(self) -> ServerMetadata: ...

    @abstractmethod
    def model(self, model: str, version: str = "") -> ModelMetadata: ...

    @abstractmethod
    def config(self, model: str, version: str = "") -> Mapping[str, Any]:
        """Triton's ModelConfig as plain data; not every server has one."""

    @abstractmethod
    def repository(self) -> list[RepositoryEntry]:
        """Returns the server's repository index; not every server has one."""

    @abstractmethod
    def infer(self, request: InferRequest) -> InferResponse: ...

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
