"""Calls over gRPC that are no inference: one function each, from its message to its answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from zoolens.base.protocol import documents
from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.limits import invalid
from zoolens.base.protocol.protobuf import message
from zoolens.faces.serving.contracts.data_plane import DataPlane

Handler = Callable[[DataPlane, Any], Awaitable[Any]]


async def _live(plane: DataPlane, _: Any) -> Any:
    return message("ServerLiveResponse")(live=plane.live())


async def _ready(plane: DataPlane, _: Any) -> Any:
    return message("ServerReadyResponse")(ready=plane.ready())


async def _model_ready(plane: DataPlane, request: Any) -> Any:
    try:
        ready = plane.model_ready(request.name, request.version)
    except ServingError as error:
        if error.refusal is not Refusal.NOT_FOUND:
            raise
        # As Triton answers for a model that it does not have.
        ready = False
    return message("ModelReadyResponse")(ready=ready)


async def _metadata(plane: DataPlane, _: Any) -> Any:
    return documents.to_protobuf("ServerMetadataResponse", documents.server_to_data(plane.metadata()))


async def _model_metadata(plane: DataPlane, request: Any) -> Any:
    metadata = plane.model_metadata(request.name, request.version)
    return documents.to_protobuf("ModelMetadataResponse", documents.model_to_data(metadata))


async def _config(plane: DataPlane, request: Any) -> Any:
    config = dict(plane.model_config(request.name, request.version))
    versions = config.get("version_policy", {}).get("specific", {}).get("versions", ())
    if not all(str(version).isdecimal() for version in versions):
        # Protobuf has whole numbers only there.
        del config["version_policy"]
    return documents.to_protobuf("ModelConfigResponse", {"config": config})


async def _statistics(plane: DataPlane, request: Any) -> Any:
    statistics = documents.statistics_to_data(plane.statistics(request.name, request.version))
    return documents.to_protobuf("ModelStatisticsResponse", statistics)


async def _index(plane: DataPlane, request: Any) -> Any:
    entries = documents.repository_to_data(plane.repository(request.ready))
    return documents.to_protobuf("RepositoryIndexResponse", {"models": entries})


async def _load(plane: DataPlane, request: Any) -> Any:
    parameters = {}
    for name, value in request.parameters.items():
        choice = value.WhichOneof("parameter_choice")
        if choice is None:
            raise invalid(f"Parameter {name[:100]!r} has no value.")
        parameters[name] = getattr(value, choice)
    await plane.load(request.model_name, parameters)
    return message("RepositoryModelLoadResponse")()


async def _unload(plane: DataPlane, request: Any) -> Any:
    await plane.unload(request.model_name)
    return message("RepositoryModelUnloadResponse")()


async def _trace(plane: DataPlane, request: Any) -> Any:
    if request.settings:
        wanted = {name: _setting(list(value.value)) for name, value in request.settings.items()}
        settings = plane.change_trace_settings(request.model_name, wanted)
    else:
        settings = plane.trace_settings(request.model_name)
    response = message("TraceSettingResponse")()
    for name, value in settings.items():
        response.settings[name].value.extend(map(str, value if isinstance(value, list | tuple) else [value]))
    return response


def _setting(values: list[str]) -> Any:
    """Returns a setting as REST has it: nothing is null, one value stands alone."""
    return None if not values else values[0] if len(values) == 1 else values


HANDLERS: Final[Mapping[str, Handler]] = {
    "ServerLive": _live,
    "ServerReady": _ready,
    "ModelReady": _model_ready,
    "ServerMetadata": _metadata,
    "ModelMetadata": _model_metadata,
    "ModelConfig": _config,
    "ModelStatistics": _statistics,
    "RepositoryIndex": _index,
    "RepositoryModelLoad": _load,
    "RepositoryModelUnload": _unload,
    "TraceSetting": _trace,
}
