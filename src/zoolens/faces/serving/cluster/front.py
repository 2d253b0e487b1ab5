"""The data plane that clients of a cluster see: it hands each request to a replica, and again if that one is lost."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final, NoReturn

from zoolens.base.errors import first_line
from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.messages import (
    InferRequest,
    InferResponse,
    ModelMetadata,
    ModelStatistics,
    RepositoryEntry,
    ServerMetadata,
)
from zoolens.base.version import __version__
from zoolens.faces.serving.cluster.metrics import ClusterMetrics
from zoolens.faces.serving.cluster.reports import ClusterView, ModelView, RefusedRequest

EXTENSIONS: Final = ("binary_tensor_data", "classification", "model_configuration", "model_repository", "statistics")
_TRIES: Final = 5  # of a request whose replica is lost
_PAUSE: Final = 0.1  # seconds before the second try, twice as long before each further one
_EVERY: Final = 1.0  # seconds between two looks at the cluster
_STALE: Final = 30.0  # seconds without a look or an answer after which nobody knows whether there are replicas

log = logging.getLogger("zoolens.serving")

Send = Callable[[InferRequest], Awaitable[InferResponse | RefusedRequest]]
Look = Callable[[], Awaitable[ClusterView]]
Labels = Mapping[str, Any]
Label = Callable[[str, Labels], Awaitable[list[int | RefusedRequest]]]


class ReplicaLost(Exception):
    """The replica that worked on a request is gone, and its answer with it."""


class ClusterPlane:
    """Implements `zoolens.faces.serving.contracts.data_plane.DataPlane` for a cluster.

    `send` gives a request to a replica; it raises `ReplicaLost`, or a ServingError where the cluster takes no more.
    `look` asks how the replicas are, which is known here a second later than there: so are states and statistics.
    `label` gives labels for a model's answers to all replicas, for each remembers its own answers; it gives what each
    of them says. A model only answers, so that a request whose replica is lost may be sent again.
    """

    def __init__(self, send: Send, look: Look, label: Label, metrics: ClusterMetrics | None = None) -> None:
        self._send, self._look, self._label = send, look, label
        self._metrics = metrics or ClusterMetrics()
        self._metrics.follow(self)
        self._view = ClusterView()
        self._accepting = True
        self._running = 0
        self._seen = time.monotonic()
        self._idle = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None

    # --- how the cluster is

    async def start(self) -> None:
        await self.look()
        self._looking = asyncio.get_running_loop().create_task(self._look_on())

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    async def look(self) -> ClusterView:
        self._view = await self._look()
        self._seen = time.monotonic()
        return self._view

    async def _look_on(self) -> None:
        while True:
            await asyncio.sleep(_EVERY)
            try:
                await self.look()
            except Exception as error:
                # An error of the cluster: its controller is being restarted.
                log.warning("the controller cannot be asked: %s", first_line(error))

    @property
    def view(self) -> ClusterView:
        return self._view

    @property
    def running(self) -> int:
        """Requests that were accepted and are not answered yet."""
        return self._running

    def serves(self, model: str) -> bool:
        return any(entry.name == model for entry in self._view.repository)

    # --- the contract

    def live(self) -> bool:
        return True

    def ready(self) -> bool:
        return self._accepting and self._view.ready and time.monotonic() - self._seen < _STALE

    def model_ready(self, model: str, version: str = "") -> bool:
        entries = [entry for entry in self._view.repository if entry.name == model and version in ("", entry.version)]
        if not entries:
            self._unknown(model, version)
        return self._accepting and any(entry.state == "READY" for entry in entries)

    def metadata(self) -> ServerMetadata:
        return ServerMetadata("zoolens", __version__, EXTENSIONS)

    def model_metadata(self, model: str, version: str = "") -> ModelMetadata:
        return self._model(model, version).metadata

    def model_config(self, model: str, version: str = "") -> Mapping[str, Any]:
        return self._model(model, version).config

    def statistics(self, model: str = "", version: str = "") -> list[ModelStatistics]:
        if model:
            self._model(model, version)
        return [
            statistics
            for statistics in self._view.statistics
            if model in ("", statistics.name) and version in ("", statistics.version)
        ]

    def repository(self, only_ready: bool = False) -> list[RepositoryEntry]:
        return [entry for entry in self._view.repository if not only_ready or entry.state == "READY"]

    async def load(self, model: str, parameters: Mapping[str, Any]) -> None:
        raise _unsupported("Models are loaded when a cluster's replicas start.")

    async def unload(self, model: str) -> None:
        raise _unsupported("Models of a cluster stay loaded as long as it serves them.")

    async def infer(self, request: InferRequest) -> InferResponse:
        began = time.monotonic()
        try:
            response = await self._infer(request)
        except ServingError as error:
            self._metrics.refused(request, error)
            raise
        self._metrics.answered(request, response, time.monotonic() - began)
        return response

    async def feedback(self, model: str, labels: Labels) -> int:
        """How many of the ids some replica knew. Each replica takes all of its labels, or none where one is wrong."""
        self._model(model, "")
        answers = await self._label(model, labels)
        for answer in answers:
            if isinstance(answer, RefusedRequest):
                raise ServingError(answer.refusal, answer.message, hint=answer.hint)
        return sum(answer for answer in answers if isinstance(answer, int))

    def trace_settings(self, model: str = "") -> Mapping[str, Any]:
        raise _unsupported("Replicas of a cluster write no traces.")

    def change_trace_settings(self, model: str, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        raise _unsupported("Replicas of a cluster write no traces.")

    async def drain(self, seconds: float) -> None:
        self._accepting = False
        while self._running:
            self._idle.clear()
            try:
                await asyncio.wait_for(self._idle.wait(), seconds)
            except TimeoutError:
                return

    # --- inside

    async def _infer(self, request: InferRequest) -> InferResponse:
        if not self._accepting:
            raise ServingError(Refusal.UNAVAILABLE, "The server is shutting down.")
        self._running += 1
        try:
            if request.deadline is None:
                return await self._answer(request)
            async with asyncio.timeout(request.deadline):
                return await self._answer(request)
        except TimeoutError as error:
            raise ServingError(
                Refusal.TOO_LATE, f"The answer was not there within the {request.deadline:g} s that the client waits."
            ) from error
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()

    async def _answer(self, request: InferRequest) -> InferResponse:
        loop = asyncio.get_running_loop()
        began = loop.time()
        for attempt in range(_TRIES):
            if attempt:
                await asyncio.sleep(_PAUSE * 2 ** (attempt - 1))
            left = None if request.deadline is None else max(0.001, request.deadline - (loop.time() - began))
            last = attempt == _TRIES - 1
            try:
                answer = await self._send(replace(request, deadline=left))
            except ReplicaLost as error:
                if last:
                    raise ServingError(
                        Refusal.UNAVAILABLE,
                        f"{_TRIES} replicas were lost one after another with this request: {str(error).rstrip('.')}.",
                        hint="Send it again later.",
                    ) from error
                continue
            if not isinstance(answer, RefusedRequest):
                self._seen = time.monotonic()
                return answer
            # Another replica may be able to.
            if answer.refusal is not Refusal.UNAVAILABLE or last:
                raise ServingError(answer.refusal, answer.message, hint=answer.hint)
        raise AssertionError("the last try returns or raises")

    def _model(self, model: str, version: str) -> ModelView:
        versions = [number for name, number in self._view.models if name == model]
        wanted = version or (versions[-1] if versions else "")
        view = self._view.models.get((model, wanted))
        if view is None:
            self._unknown(model, version)
        return view

    def _unknown(self, model: str, version: str) -> NoReturn:
        if version and any(entry.name == model for entry in self._view.repository):
            raise ServingError(Refusal.NOT_FOUND, f"Model '{model}' has no version {version[:40]} here.")
        raise ServingError(Refusal.NOT_FOUND, f"There is no model '{model[:200]}' here.")


def _unsupported(message: str) -> ServingError:
    return ServingError(Refusal.UNSUPPORTED, message, hint="Serve without --on for this.")
