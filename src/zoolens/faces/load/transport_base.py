"""Sending many requests at once: what a driver needs of a transport, be it HTTP or gRPC."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from zoolens.base.protocol.address import Address
from zoolens.base.protocol.messages import InferRequest, InferResponse
from zoolens.faces.load.exchanges import Outcome


@dataclass(frozen=True)
class Reply:
    """How an exchange ended."""

    at: float  # when it ended, on the clock of `time.perf_counter`
    outcome: Outcome
    reason: str = ""
    # Decodes the answer after the run: during it the driver has requests to send
    read: Callable[[], InferResponse] | None = None
    size: int = 0  # bytes that are held until the answer is decoded


class Transport(ABC):
    """Opened and used within one event loop. `send` never raises for what a server does: it is an outcome."""

    address: Address

    @abstractmethod
    def encode(self, request: InferRequest) -> Any:
        """The request as bytes, made before the run, so that the driver does not spend the server's time on it."""

    @abstractmethod
    async def open(self, connections: int) -> None:
        """Open so many connections beforehand; more are opened when they are needed."""

    @abstractmethod
    async def send(self, encoded: Any, seconds: float) -> Reply:
        """Send and wait for the answer, at most so long."""

    @abstractmethod
    async def close(self) -> None: ...
