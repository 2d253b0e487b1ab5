"""Ray Serve: the replicas and the controller are two deployments of one application; the front is our own server.

Ray places the replicas, starts lost ones again and changes their number with the load. Clients speak to REST and gRPC
of the process that deployed the application, which forwards requests through Ray's handle.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from zoolens.base.engine.executors.ray import RayExecutor
from zoolens.base.errors import MissingDependency, ZoolensError, first_line
from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.messages import InferRequest, InferResponse
from zoolens.base.store.target import STORE_VARIABLE, resolve
from zoolens.faces.serving.cluster.cluster_plan import ClusterPlan, ReplicaCount, absolute_models
from zoolens.faces.serving.cluster.controller import Controller
from zoolens.faces.serving.cluster.front import ClusterPlane, ReplicaLost
from zoolens.faces.serving.cluster.metrics import ClusterMetrics
from zoolens.faces.serving.cluster.replica import Replica
from zoolens.faces.serving.cluster.reports import ClusterView, RefusedRequest, ReplicaReport
from zoolens.faces.serving.serve_request import ServeRequest
from zoolens.faces.serving.server import Server, check_startable
from zoolens.faces.serving.services.hosting import read_service_files
from zoolens.faces.serving.services.service_ladder import ServiceLadder
from zoolens.inventory.catalog.lookup import find

_START: Final = 300.0  # seconds for the first replicas to be ready
_LOOK: Final = 0.5  # seconds between two looks meanwhile
_ALL: Final = 10.0  # seconds for all replicas to do what each of them is told
_HEALTH: Final = {"health_check_period_s": 2.0, "health_check_timeout_s": 10.0}
_CONTROLLER: Final = "controller"
_REPLICA: Final = "replica"

log = logging.getLogger("zoolens.serving")


@dataclass(frozen=True)
class RaySettings:
    """`address` is None for the cluster that RAY_ADDRESS names, or one on this machine as long as it is needed."""

    address: str | None = None
    replicas: ReplicaCount = field(default_factory=ReplicaCount)
    cores: float = 1.0  # that Ray counts for each replica; the processes of its models are not limited to them


# --- what runs on the cluster


class RayController:
    """The deployment of the controller."""

    async def __init__(self, plan: ClusterPlan) -> None:  # type: ignore[misc]  # Ray awaits it
        self._controller = Controller(plan)
        await self._controller.start()

    async def ladders(self, known: Mapping[str, int]) -> Mapping[str, tuple[int, ServiceLadder]]:
        return await self._controller.ladders(known)

    async def report(self, report: ReplicaReport) -> Mapping[str, int]:
        return await self._controller.report(report)

    async def remove(self, service: str, model: str, runtime: str, reason: str) -> None:
        await self._controller.remove(service, model, runtime, reason)

    async def view(self) -> ClusterView:
        return await self._controller.view()

    async def __del__(self) -> None:
        await self._controller.close()


class RayReplica:
    """The deployment of the replicas."""

    async def __init__(  # type: ignore[misc]  # Ray awaits it
        self, plan: ClusterPlan, controller: Any, drain_seconds: float
    ) -> None:
        self._drain_seconds = drain_seconds
        self._replica = Replica(plan, _RayControl(controller), f"{os.getpid()}-{secrets.token_hex(4)}")
        await self._replica.start()

    async def infer(self, request: InferRequest) -> InferResponse | RefusedRequest:
        try:
            return await self._replica.infer(request)
        except ServingError as error:
            return RefusedRequest(error.refusal, error.message, error.hint)

    async def feedback(self, model: str, labels: Mapping[str, Any]) -> int | RefusedRequest:
        try:
            return await self._replica.feedback(model, labels)
        except ServingError as error:
            return RefusedRequest(error.refusal, error.message, error.hint)

    async def flush(self) -> None:
        await self._replica.flush()

    async def check_health(self) -> None:
        if self._replica.problem:
            raise RuntimeError(self._replica.problem)

    async def __del__(self) -> None:
        await self._replica.close(self._drain_seconds)


class _RayControl:
    """The controller, as a replica reaches it through Ray's handle."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    async def ladders(self, known: Mapping[str, int]) -> Mapping[str, tuple[int, ServiceLadder]]:
        ladders: Mapping[str, tuple[int, ServiceLadder]] = await self._handle.ladders.remote(dict(known))
        return ladders

    async def report(self, report: ReplicaReport) -> Mapping[str, int]:
        numbers: Mapping[str, int] = await self._handle.report.remote(report)
        return numbers

    async def remove(self, service: str, model: str, runtime: str, reason: str) -> None:
        await self._handle.remove.remote(service, model, runtime, reason)


# --- what runs in the process that deploys it


@asynccontextmanager
async def running_on_ray(
    request: ServeRequest, cluster: RaySettings | None = None, metrics: ClusterMetrics | None = None
) -> AsyncIterator[Server]:
    """Serve what is requested with replicas on a Ray cluster: this process answers clients, the replicas compute."""
    options = request.options
    check_startable(options)
    chosen = cluster or RaySettings()
    specs = absolute_models(request.models)
    for spec in specs:
        # An unknown name is reported before a cluster is started.
        find(spec.model.partition("=")[2] or spec.model)
    services = read_service_files(request.services)
    for name, service in services.items():
        if service.texts is not None:
            raise ZoolensError(f"The service {name} writes texts, which services do on one machine only.")
    plan = ClusterPlan(
        models=specs,
        services=services,
        settings=request.settings,
        memory_limit=request.memory_limit,
        store=_named_store(request.store) if request.services else None,
    )
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        executor = await loop.run_in_executor(None, RayExecutor.open, chosen.address)
        stack.push_async_callback(asyncio.to_thread, executor.close)
        application = f"zoolens-{secrets.token_hex(4)}"
        deploying = loop.run_in_executor(None, _deploy, application, plan, chosen, options.drain_seconds)
        stack.push_async_callback(asyncio.to_thread, _delete, application)
        replicas, controller = await deploying
        stack.push_async_callback(_flush, replicas)
        metrics = metrics or ClusterMetrics()
        plane = ClusterPlane(_sender(replicas), _looker(controller), _labeller(replicas), metrics)
        await plane.start()
        stack.push_async_callback(plane.close)
        await _wait_until_ready(plane, chosen.replicas.least)
        yield await stack.enter_async_context(Server(plane, options, metrics.text))


def _deploy(application: str, plan: ClusterPlan, chosen: RaySettings, drain_seconds: float) -> tuple[Any, Any]:
    """The handles of replicas and controller. Ray's own HTTP server is not started."""
    serve = _ray_serve()
    logging.getLogger("ray.serve").setLevel(logging.ERROR)
    most = plan.settings.max_queue
    number: dict[str, Any] = {"num_replicas": chosen.replicas.least}
    if chosen.replicas.scales:
        number = {
            "autoscaling_config": {
                "min_replicas": chosen.replicas.least,
                "max_replicas": chosen.replicas.most,
                "initial_replicas": chosen.replicas.least,
                "target_ongoing_requests": 2 * plan.settings.max_batch,
            }
        }
    controller = serve.deployment(RayController).options(
        name=_CONTROLLER,
        num_replicas=1,
        max_ongoing_requests=1000,
        ray_actor_options={"num_cpus": 0, "resources": _this_machine(plan)},
        **_HEALTH,
    )
    replica = serve.deployment(RayReplica).options(
        name=_REPLICA,
        max_ongoing_requests=most,
        max_queued_requests=most,
        graceful_shutdown_timeout_s=drain_seconds + 5,
        ray_actor_options={"num_cpus": chosen.cores},
        **number,
        **_HEALTH,
    )
    try:
        serve.start(proxy_location="Disabled", logging_config={"log_level": "ERROR", "enable_access_log": False})
        bound = replica.bind(plan, controller.bind(plan), drain_seconds)
        handle = serve.run(bound, name=application, route_prefix=None)
        return handle, serve.get_deployment_handle(_CONTROLLER, application)
    except Exception as error:  # Ray raises nearly anything
        raise ZoolensError(
            f"Ray Serve cannot run the replicas: {first_line(error).rstrip('.')}.",
            hint="Do the cluster's nodes have zoolens with the extra ray-serve, and the models?",
        ) from error


def _delete(application: str) -> None:
    try:
        _ray_serve().delete(application)
    except Exception as error:
        # The cluster is gone, and with it what is to be deleted.
        log.warning("the application %s cannot be deleted: %s", application, first_line(error))


async def _flush(replicas: Any) -> None:
    """Have the replicas report for the last time while the controller is there: Ray ends both at once."""
    try:
        await replicas.broadcast("flush").results_async(timeout_s=_ALL)
    except Exception as error:
        # An error of the cluster, which may be gone.
        log.warning("the last counts of the replicas may be missing: %s", first_line(error))


def _ray_serve() -> Any:
    try:
        from ray import serve
    except ImportError as error:
        raise MissingDependency("Serving on Ray", "ray[serve]", "ray-serve") from error
    return serve


def _this_machine(plan: ClusterPlan) -> dict[str, float]:
    """What keeps the controller on the machine that has the store, where that is a file."""
    import ray

    if not plan.services or str(plan.store or "").startswith("postgresql"):
        return {}
    return {f"node:{ray.util.get_node_ip_address()}": 0.001}


def _sender(handle: Any) -> Any:
    from ray.exceptions import RayError
    from ray.serve.exceptions import BackPressureError

    async def send(request: InferRequest) -> InferResponse | RefusedRequest:
        answer = handle.infer.remote(request)
        try:
            result: InferResponse | RefusedRequest = await answer
        except asyncio.CancelledError:
            answer.cancel()
            raise
        except BackPressureError as error:
            raise ServingError(
                Refusal.OVERLOADED, "All replicas have as many requests as they may.", hint="Send it again later."
            ) from error
        except RayError as error:
            raise ReplicaLost(first_line(error)) from error
        return result

    return send


def _looker(handle: Any) -> Any:
    async def look() -> ClusterView:
        view: ClusterView = await handle.view.remote()
        return view

    return look


def _labeller(handle: Any) -> Any:
    async def label(model: str, labels: Mapping[str, Any]) -> list[int | RefusedRequest]:
        responses = handle.broadcast("feedback", model, dict(labels))
        try:
            answers: list[int | RefusedRequest] = await responses.results_async(timeout_s=_ALL)
        except Exception as error:
            # Ray raises nearly anything where a replica is lost.
            raise ServingError(
                Refusal.UNAVAILABLE,
                f"Not every replica has taken the labels: {first_line(error).rstrip('.')}.",
                hint="Send them again: what was counted already is not counted twice.",
            ) from error
        return answers

    return label


async def _wait_until_ready(plane: ClusterPlane, least: int) -> None:
    deadline = asyncio.get_running_loop().time() + _START
    while True:
        view = await plane.look()
        if view.problem:
            raise ZoolensError(view.problem)
        if sum(replica.ready for replica in view.replicas) >= least:
            return
        if asyncio.get_running_loop().time() > deadline:
            ready = sum(replica.ready for replica in view.replicas)
            raise ZoolensError(
                f"Only {ready} of {least} replicas were ready after {_START:.0f} s.",
                hint="Has the cluster enough free cores? Ask for fewer with --replicas.",
            )
        await asyncio.sleep(_LOOK)


def _named_store(store: str | Path | None) -> str:
    """The store by its path or URL: the controller's process may have other variables than ours."""
    target = resolve(store)
    return str(target.path.absolute()) if target.path is not None else str(store or os.environ[STORE_VARIABLE])
