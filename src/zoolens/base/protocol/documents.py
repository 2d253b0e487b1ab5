"""What servers say of themselves and their models, as JSON documents and protobuf messages, in both directions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from zoolens.base.protocol import json_text
from zoolens.base.protocol.datatypes import Buffer
from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.limits import DEFAULT, Limits, invalid
from zoolens.base.protocol.messages import (
    Duration,
    ModelMetadata,
    ModelStatistics,
    RepositoryEntry,
    ServerMetadata,
    TensorMetadata,
)
from zoolens.base.protocol.protobuf import message, pool

_SPANS = ("success", "fail", "queue", "compute_input", "compute_infer", "compute_output")
_COMPUTE = ("compute_input", "compute_infer", "compute_output")


def server_to_data(metadata: ServerMetadata) -> dict[str, Any]:
    return {"name": metadata.name, "version": metadata.version, "extensions": list(metadata.extensions)}


def server_from_data(data: Mapping[str, Any]) -> ServerMetadata:
    try:
        return ServerMetadata(str(data["name"]), str(data["version"]), tuple(map(str, data.get("extensions") or ())))
    except (KeyError, TypeError, ValueError):
        raise invalid("The server's metadata is not as the protocol says.") from None


def model_to_data(metadata: ModelMetadata) -> dict[str, Any]:
    tensors = {
        side: [
            {"name": tensor.name, "datatype": tensor.datatype, "shape": list(tensor.shape)}
            for tensor in getattr(metadata, side)
        ]
        for side in ("inputs", "outputs")
    }
    return {"name": metadata.name, "versions": list(metadata.versions), "platform": metadata.platform, **tensors}


def model_from_data(data: Mapping[str, Any]) -> ModelMetadata:
    """A model's metadata; also from servers that leave out versions and platform."""
    try:
        return ModelMetadata(
            name=str(data["name"]),
            versions=tuple(map(str, data.get("versions") or ())),
            platform=str(data.get("platform") or ""),
            inputs=tuple(map(_tensor, data.get("inputs") or ())),
            outputs=tuple(map(_tensor, data.get("outputs") or ())),
        )
    except (KeyError, TypeError, ValueError):
        raise invalid("The model's metadata is not as the protocol says.") from None


def _tensor(data: Mapping[str, Any]) -> TensorMetadata:
    return TensorMetadata(str(data["name"]), str(data["datatype"]), tuple(map(int, data["shape"])))


def statistics_to_data(models: Iterable[ModelStatistics]) -> dict[str, Any]:
    """The statistics extension, as Triton writes it."""
    return {"model_stats": [_statistics_to_data(model) for model in models]}


def _statistics_to_data(model: ModelStatistics) -> dict[str, Any]:
    return {
        "name": model.name,
        "version": model.version,
        "last_inference": model.last_inference_ms,
        "inference_count": model.inference_count,
        "execution_count": model.execution_count,
        "inference_stats": {name: asdict(getattr(model, name)) for name in _SPANS}
        | {name: asdict(Duration()) for name in ("cache_hit", "cache_miss")},
        "batch_stats": [
            {"batch_size": batch.size, **{name: asdict(getattr(batch, name)) for name in _COMPUTE}}
            for batch in model.batches
        ],
    }


def repository_to_data(entries: Iterable[RepositoryEntry]) -> list[dict[str, str]]:
    return [asdict(entry) for entry in entries]


def repository_from_data(data: Iterable[Mapping[str, Any]]) -> list[RepositoryEntry]:
    try:
        return [
            RepositoryEntry(
                str(item["name"]), str(item.get("version", "")), str(item.get("state", "")), str(item.get("reason", ""))
            )
            for item in data
        ]
    except (KeyError, TypeError, AttributeError):
        raise invalid("The server's repository index is not as the protocol says.") from None


def to_protobuf(name: str, data: Mapping[str, Any]) -> Any:
    """The protobuf message of this name for a JSON document; what the message has no field for is left out."""
    from google.protobuf.json_format import ParseDict

    return ParseDict(data, message(name)(), ignore_unknown_fields=True, descriptor_pool=pool())


def from_protobuf(protobuf: Any) -> dict[str, Any]:
    """The JSON document of a protobuf message, with the names of its fields, 64-bit numbers as texts."""
    from google.protobuf.json_format import MessageToDict

    data: dict[str, Any] = MessageToDict(
        protobuf, preserving_proto_field_name=True, always_print_fields_with_no_presence=True, descriptor_pool=pool()
    )
    return data


def error_body(error: ServingError) -> bytes:
    """The body of an answer that is an error, as all clients of the protocol read it."""
    return json_text.dump({"error": json_text.clean(str(error))})


def error_from(status: int, content: Buffer, limits: Limits = DEFAULT) -> ServingError:
    """The error that a server answered with; the kind follows from its HTTP status."""
    try:
        sentence = str(json_text.parse_object(content, limits)["error"])[: limits.text_bytes]
    except (ServingError, KeyError):
        sentence = f"The server answered with status {status}."
    kinds = {refusal.http: refusal for refusal in Refusal}
    return ServingError(kinds.get(status, Refusal.INVALID if 400 <= status < 500 else Refusal.INTERNAL), sentence)
