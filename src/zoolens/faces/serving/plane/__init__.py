"""The data plane: requests in, answers out, without a transport.

| module | holds |
| --- | --- |
| `plane_settings` | what a user may set: queue, batches, instances, limits of time |
| `signature` | what an endpoint takes and gives; whether a request fits |
| `instance` | one worker process, driven by the event loop: runs batches, is restarted when it dies |
| `served_model` | one model that is open: its instances, what was found out about its batches, its memory |
| `probe` | whether a model answers in a batch as it does alone |
| `pool` | which models are open, within a budget of memory |
| `queue` | requests that wait, with deadlines |
| `batches` | which requests run together |
| `service_spec` | what an endpoint serves: a name, a ladder, a policy |
| `served_ladder` | the ladder of an endpoint while it serves: which tiers may answer a request |
| `dispatcher` | starts batches and asks the policy which tier answers each |
| `endpoint` | one served name: accepts requests, lets them wait and run, hands out answers |
| `counters` | statistics as Triton counts them |
| `description` | metadata and configuration in Triton's form |
| `admission` | whether a request is accepted |
| `rungs`, `timing` | the tiers of a ladder while they serve, and how long each takes |
| `flights` | batches that run |
| `plane_answers` | from a batch's outputs to the answers of its requests |
| `accounting` | what became of requests, for counters, traces and observers |
| `traces` | the trace extension |
| `classification` | the largest values of an output with their labels |
| `repository` | names and versions of the models that may be loaded |
| `data_plane` | all endpoints under one roof: what REST, gRPC and Python call |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zoolens.base.public.lazy_names import lazy_names

if TYPE_CHECKING:
    from zoolens.faces.serving.plane.data_plane import Plane as Plane
    from zoolens.faces.serving.plane.data_plane import open_plane as open_plane
    from zoolens.faces.serving.plane.plane_settings import EndpointSettings as EndpointSettings
    from zoolens.faces.serving.plane.plane_settings import ModelSpec as ModelSpec
    from zoolens.faces.serving.plane.service_spec import ServiceSpec as ServiceSpec

_WHERE = {
    "EndpointSettings": "zoolens.faces.serving.plane.plane_settings:EndpointSettings",
    "ModelSpec": "zoolens.faces.serving.plane.plane_settings:ModelSpec",
    "Plane": "zoolens.faces.serving.plane.data_plane:Plane",
    "ServiceSpec": "zoolens.faces.serving.plane.service_spec:ServiceSpec",
    "open_plane": "zoolens.faces.serving.plane.data_plane:open_plane",
}

__all__ = [*_WHERE]

if not TYPE_CHECKING:  # a module with a `__getattr__` has every name, to a type checker
    __getattr__, __dir__ = lazy_names(__name__, _WHERE)
