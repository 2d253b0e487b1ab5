"""All endpoints under one roof: what REST, gRPC and Python call.

async with open_plane(["demo:lenet-torch"]) as plane:
    answer = await plane.infer(InferRequest("lenet-torch", {"input": batch}))
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from zoolens.base.errors import ZoolensError
from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.messages import (
    InferRequest,
    InferResponse,
    ModelMetadata,
    ModelStatistics,
    RepositoryEntry,
    ServerMetadata,
)
from zoolens.faces.serving.contracts.ladder import Ladder, LatencyProfile, Rung
from zoolens.faces.serving.contracts.observer import Observer
from zoolens.faces.serving.plane.description import model_config, model_metadata, server_metadata
from zoolens.faces.serving.plane.endpoint import Endpoint
from zoolens.faces.serving.plane.plane_settings import EndpointSettings, ModelSpec
from zoolens.faces.serving.plane.pool import Slot, WarmPool
from zoolens.faces.serving.plane.queue import Done
from zoolens.faces.serving.plane.repository import Served, add_versions, find_all_served, unknown_model
from zoolens.faces.serving.plane.served_model import ModelKey
from zoolens.faces.serving.plane.service_spec import Feedback, ServiceSpec
from zoolens.faces.serving.plane.traces import Traces
from zoolens.faces.serving.policies.fixed import Fixed
from zoolens.inventory.catalog.lookup import version_order

log = logging.getLogger("zoolens.serving")


class Plane:
    """Implements `zoolens.faces.serving.contracts.data_plane.DataPlane`. Made and used on one event loop."""

    def __init__(self, *, memory_limit: int | None = None, observers: Sequence[Observer] = ()) -> None:
        self.pool = WarmPool(memory_limit)
        self.observers = list(observers)
        self._repository: dict[str, dict[str, Served]] = {}  # by name and version
        self._endpoints: dict[str, dict[str, Endpoint]] = {}
        self._feedback: dict[str, Feedback] = {}
        self._services: set[str] = set()
        self._left_out: dict[str, str] = {}  # models and services that were not made, and why not
        self._traces = Traces()
        self._locks: dict[str, asyncio.Lock] = {}
        self._load_errors: dict[tuple[str, str], str] = {}  # by name and version
        self._wanted: set[str] = set()  # names that should be ready
        self._accepting = True

    # --- what is served

    async def add_models(
        self,
        models: Iterable[str | ModelSpec],
        settings: EndpointSettings | None = None,
        *,
        load: bool = True,
        strict: bool = True,
    ) -> list[str]:
        """Put models into the repository, each as `MODEL` or `NAME=MODEL`, and load them. The names they are served by.

        A ZoolensError where one of them cannot be found or opened. Without `strict` one that cannot be opened is left
        in the repository with the reason, and the others are served; the error is raised where none can be opened.
        """
        loop = asyncio.get_running_loop()
        settings = settings or EndpointSettings()
        executor = self.pool.executor
        chosen, unread = await loop.run_in_executor(executor, find_all_served, list(models), settings, strict)
        for name, models_of_name in chosen.items():
            if name in self._services:
                raise ZoolensError(f"There are two models or services named {name}.", hint="Rename one of them.")
            self._repository[name] = add_versions(self._repository.get(name, {}), models_of_name)
        if load:
            outcomes = await asyncio.gather(*(self.load(name, {}) for name in chosen), return_exceptions=not strict)
            self._go_on_without(dict(zip(chosen, outcomes, strict=True)))
        for name, error in unread.items():
            if not self._endpoints:
                raise error
            self.leave_out(name, str(error))
        return list(chosen)

    def _go_on_without(self, outcomes: Mapping[str, BaseException | None]) -> None:
        """Go on without the models that could not be loaded, unless these are all. The server counts as ready without
        them, or nobody would ask it for the others."""
        failed = {name: error for name, error in outcomes.items() if error is not None}
        for name, error in failed.items():
            if not self._endpoints or not isinstance(error, ZoolensError):
                raise error
            log.warning("model %s is left out: %s", name, error)
            if name not in self._endpoints:
                self._wanted.discard(name)

    def leave_out(self, name: str, reason: str) -> None:
        """List a service that cannot be served, or a model that cannot be read, as unavailable, with the reason."""
        self._left_out[name] = reason
        log.warning("%s is left out: %s", name, reason)

    async def add_service(self, service: ServiceSpec) -> Endpoint:
        """Serve a service. Its reference is opened before this returns; the other tiers when its policy asks."""
        if service.name in self._repository or service.name in self._services:
            raise ZoolensError(f"There are two models or services named {service.name}.", hint="Rename one of them.")
        slots = self.slots(service)
        observers = [*self.observers, *service.observers]
        endpoint = Endpoint(service, slots, self.pool, observers=observers, service=True, traces=self._traces)
        self._endpoints[service.name] = {service.version: endpoint}
        self._services.add(service.name)
        self._wanted.add(service.name)
        if service.feedback is not None:
            self._feedback[service.name] = service.feedback
        try:
            await self.pool.ensure(slots[0])
        except BaseException:
            self._forget_service(endpoint)
            raise
        return endpoint

    def _forget_service(self, endpoint: Endpoint) -> None:
        """Take a service that could not be opened off the plane again."""
        name, endpoint.closed = endpoint.name, True
        endpoint.unwatch()
        self._endpoints.pop(name, None)
        self._services.discard(name)
        self._wanted.discard(name)
        self._feedback.pop(name, None)
        self.pool.forget_soon([state.slot for state in endpoint.rungs])

    def slots(self, service: ServiceSpec) -> list[Slot]:
        """The places of a service's tiers in the pool; also for `Endpoint.replace_ladder`."""
        chosen = service.settings
        limits = (chosen.concurrency, chosen.max_batch, chosen.batching, chosen.call_limit)
        return [self.pool.slot(ModelKey(spec, *limits)) for spec in service.specs]

    def endpoint(self, model: str, version: str = "") -> Endpoint:
        """A ServingError (404) where there is none of this name and version."""
        versions = self._endpoints.get(model)
        if versions is not None:
            if not version:
                return next(reversed(versions.values()))  # the newest is last
            if version in versions:
                return versions[version]
            for number, served in self._repository.get(model, {}).items():
                if version == served.entry.manifest.version and number in versions:
                    return versions[number]
            raise ServingError(
                Refusal.NOT_FOUND, f"Model '{model}' has no version {version}; it has {', '.join(versions)}."
            )
        raise self._not_served(model)

    def _not_served(self, model: str) -> ServingError:
        """Why there is no endpoint of this name."""
        if model in self._left_out:
            return ServingError(Refusal.UNAVAILABLE, f"'{model}' could not be started: {self._left_out[model]}")
        if model in self._repository:
            reasons = [why for (name, _), why in self._load_errors.items() if name == model]
            why = f": {reasons[0]}" if reasons else "."
            return ServingError(Refusal.NOT_FOUND, f"Model '{model}' is not loaded{why}", hint="Load it first.")
        return unknown_model(model, self._endpoints)

    @property
    def endpoints(self) -> list[Endpoint]:
        return [endpoint for versions in self._endpoints.values() for endpoint in versions.values()]

    # --- the contract

    def live(self) -> bool:
        return True

    def ready(self) -> bool:
        return self._accepting and all(
            name in self._endpoints and all(endpoint.ready for endpoint in self._endpoints[name].values())
            for name in self._wanted
        )

    def model_ready(self, model: str, version: str = "") -> bool:
        """A model that is in the repository and not loaded is not ready; an unknown one is an error."""
        if model in self._repository and model not in self._endpoints:
            return False
        return self._accepting and self.endpoint(model, version).ready

    def metadata(self) -> ServerMetadata:
        return server_metadata()

    def model_metadata(self, model: str, version: str = "") -> ModelMetadata:
        return model_metadata(self.endpoint(model, version), list(self._endpoints[model]))

    def model_config(self, model: str, version: str = "") -> Mapping[str, Any]:
        return model_config(self.endpoint(model, version), list(self._endpoints[model]))

    def statistics(self, model: str = "", version: str = "") -> list[ModelStatistics]:
        if model and version:
            endpoints = [self.endpoint(model, version)]
        elif model:
            self.endpoint(model)
            endpoints = list(self._endpoints[model].values())
        else:
            endpoints = self.endpoints
        return [endpoint.counters.snapshot(endpoint.name, endpoint.version) for endpoint in endpoints]

    def repository(self, only_ready: bool = False) -> list[RepositoryEntry]:
        entries = [self._entry(endpoint) for endpoint in self.endpoints]
        for name, versions in self._repository.items():
            for version in versions:
                if version not in self._endpoints.get(name, {}):
                    reason = self._load_errors.get((name, version), "It is not loaded.")
                    entries.append(RepositoryEntry(name, version, "UNAVAILABLE", reason))
        entries += [RepositoryEntry(name, "1", "UNAVAILABLE", why) for name, why in self._left_out.items()]
        return [entry for entry in entries if not only_ready or entry.state == "READY"]

    async def load(self, model: str, parameters: Mapping[str, Any]) -> None:
        self._check_accepting()
        unsupported = [name for name in parameters if name not in ("unload_dependents",)]
        if unsupported:
            raise ServingError(
                Refusal.UNSUPPORTED,
                f"The parameter {unsupported[0][:100]!r} of loading is not supported: "
                "a model is always opened with the options that the server was started with.",
            )
        if model not in self._repository and model not in self._services:
            raise ServingError(Refusal.NOT_FOUND, f"There is no model '{model[:200]}' in the repository.")
        async with self._changing(model):
            await self._load(model)

    async def _load(self, model: str) -> None:
        if model in self._services:
            await self._reload(list(self._endpoints[model].values()))
            return
        self._wanted.add(model)
        loaded = self._endpoints.get(model, {})
        await self._reload(list(loaded.values()))
        missing = [served for version, served in self._repository[model].items() if version not in loaded]
        problems = [problem for problem in await asyncio.gather(*map(self._add, missing)) if problem is not None]
        if problems:
            raise ServingError(Refusal.INVALID, f"Model '{model}' cannot be loaded: {problems[0]}")

    async def unload(self, model: str) -> None:
        if model in self._services:
            raise ServingError(
                Refusal.UNSUPPORTED,
                f"'{model}' is a service and cannot be unloaded while the server runs.",
                hint="Its fallbacks are closed by a memory limit, and all of it with the server.",
            )
        if model not in self._repository:
            # Raises: there is none of this name.
            self.endpoint(model)
        async with self._changing(model):
            await self._unload(model)

    async def _unload(self, model: str) -> None:
        self._wanted.discard(model)
        endpoints = list(self._endpoints.get(model, {}).values())
        for endpoint in endpoints:
            endpoint.closed = True
        await asyncio.gather(*(endpoint.drain() for endpoint in endpoints))
        self._endpoints.pop(model, None)
        for endpoint in endpoints:
            endpoint.unwatch()
            for state in endpoint.rungs:
                await self.pool.forget(state.slot)

    def _changing(self, model: str) -> asyncio.Lock:
        """Held while a model of the repository is loaded or unloaded: one change after the other."""
        return self._locks.setdefault(model, asyncio.Lock())

    async def infer(self, request: InferRequest) -> InferResponse:
        if not self._accepting:
            self._check_accepting()
        return await self.endpoint(request.model, request.version).infer(request)

    def submit(self, request: InferRequest, done: Done) -> Callable[[], None]:
        if not self._accepting:
            self._check_accepting()
        return self.endpoint(request.model, request.version).submit(request, done)

    async def feedback(self, model: str, labels: Mapping[str, Any]) -> int:
        self.endpoint(model)
        if model not in self._feedback:
            raise ServingError(
                Refusal.UNSUPPORTED,
                f"Model '{model}' takes no feedback: its answers are not kept.",
                hint="Serve it as a service with a split or a shadow.",
            )
        return await self._feedback[model](labels)

    def trace_settings(self, model: str = "") -> Mapping[str, Any]:
        if model:
            self.endpoint(model)
        return self._traces.settings(model).as_data()

    def change_trace_settings(self, model: str, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        if model:
            self.endpoint(model)
        return self._traces.change(model, settings).as_data()

    async def drain(self, seconds: float) -> None:
        self._accepting = False
        draining = [asyncio.ensure_future(endpoint.drain()) for endpoint in self.endpoints]
        if draining:
            _, late = await asyncio.wait(draining, timeout=seconds)
            for endpoint in self.endpoints if late else ():
                endpoint.abandon(f"The server has shut down; it waited {seconds:g} s for model '{endpoint.name}'.")
            for task in late:
                task.cancel()

    async def close(self) -> None:
        """Drop everything. Drain first, if accepted requests are to be answered."""
        self._accepting = False
        for endpoint in self.endpoints:
            endpoint.closed = True
            endpoint.abandon("The server has shut down.")
        await self.pool.close()

    # --- inside

    def _check_accepting(self) -> None:
        if not self._accepting:
            raise ServingError(Refusal.UNAVAILABLE, "The server is shutting down and accepts no more requests.")

    def _entry(self, endpoint: Endpoint) -> RepositoryEntry:
        if endpoint.closed:
            return RepositoryEntry(endpoint.name, endpoint.version, "UNLOADING")
        if endpoint.ready:
            asleep = endpoint.reference.model is None and not endpoint.service
            reason = "It was closed to save memory and is opened again by the next request." if asleep else ""
            if endpoint.service:
                reason = endpoint.complaint
            return RepositoryEntry(endpoint.name, endpoint.version, "READY", reason)
        if any(state.slot.loading is not None for state in endpoint.rungs):
            return RepositoryEntry(endpoint.name, endpoint.version, "LOADING")
        return RepositoryEntry(endpoint.name, endpoint.version, "UNAVAILABLE", str(endpoint.unavailable()))

    def _make(self, served: Served) -> Endpoint:
        """The endpoint of a plain model, whose ladder has one tier."""
        runtime = served.spec.runtime or ""
        only = Rung(served.entry.full_ref, runtime, 1.0, 1.0, LatencyProfile({}))
        ladder = Ladder((only,))
        policy = Fixed(ladder, {})
        spec = ServiceSpec(served.name, ladder, policy, [served.spec], served.version, settings=served.settings)
        return Endpoint(spec, self.slots(spec), self.pool, observers=self.observers, traces=self._traces)

    async def _add(self, served: Served) -> ZoolensError | None:
        """Open a model and make its endpoint known; or why it cannot be opened."""
        endpoint = self._make(served)
        try:
            await self.pool.ensure(endpoint.reference)
        except ZoolensError as error:
            self._load_errors[served.name, served.version] = str(error)
            endpoint.unwatch()
            await self.pool.forget(endpoint.reference)
            return error
        self._load_errors.pop((served.name, served.version), None)
        versions = {**self._endpoints.get(served.name, {}), served.version: endpoint}
        known = self._repository[served.name]
        in_order = sorted(versions, key=lambda version: version_order(known[version].entry))
        self._endpoints[served.name] = {version: versions[version] for version in in_order}
        return None

    async def _reload(self, endpoints: Sequence[Endpoint]) -> None:
        """Load again the references and whatever else is open. What is closed takes its files as they are when it is
        opened next."""
        slots: dict[ModelKey, Slot] = {}
        for state in (state for endpoint in endpoints for state in endpoint.rungs):
            if state.place == 0 or state.slot.model is not None:
                slots[state.slot.key] = state.slot
            else:
                state.slot.stamps, state.slot.retry_at = None, 0.0
        try:
            await asyncio.gather(*(self.pool.reload(slot) for slot in slots.values()))
        except ZoolensError as error:
            raise ServingError(
                Refusal.INVALID, f"The model cannot be loaded again, so the old one goes on answering: {error}"
            ) from error


@asynccontextmanager
async def open_plane(
    models: Iterable[str | ModelSpec] = (),
    settings: EndpointSettings | None = None,
    *,
    memory_limit: int | None = None,
    observers: Sequence[Observer] = (),
    strict: bool = True,
) -> AsyncIterator[Plane]:
    """A plane that serves these models, each `MODEL` or `NAME=MODEL`. Everything is closed at the end of the block.
    `strict`: as for `Plane.add_models`."""
    plane = Plane(memory_limit=memory_limit, observers=observers)
    try:
        await plane.add_models(models, settings, strict=strict)
        yield plane
    finally:
        await plane.close()
