"""Metadata and configuration of an endpoint, in the form that clients of Triton read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from zoolens.base.protocol.messages import ModelMetadata, ServerMetadata, TensorMetadata
from zoolens.base.version import __version__
from zoolens.faces.serving.plane.endpoint import Endpoint
from zoolens.faces.serving.plane.signature import ModelSignature

_PLATFORMS: Final[Mapping[str, str]] = {  # Triton's names, for the formats that it knows
    "onnx": "onnxruntime_onnx",
    "torchscript": "pytorch_libtorch",
    "tf-savedmodel": "tensorflow_savedmodel",
    "openvino-ir": "openvino",
}
_EXTENSIONS: Final = (
    "binary_tensor_data",
    "classification",
    "model_configuration",
    "model_repository",
    "model_repository(unload_dependents)",
    "statistics",
    "trace",
)


def server_metadata() -> ServerMetadata:
    return ServerMetadata("zoolens", __version__, _EXTENSIONS)


def model_metadata(endpoint: Endpoint, versions: Sequence[str]) -> ModelMetadata:
    signature = endpoint.signature
    return ModelMetadata(endpoint.name, tuple(versions), _platform(endpoint), signature.inputs, signature.outputs)


def model_config(endpoint: Endpoint, versions: Sequence[str]) -> dict[str, Any]:
    """Triton's ModelConfig. Dimensions do not count the rows of a batch where requests are batched."""
    signature, settings = endpoint.signature, endpoint.settings
    config: dict[str, Any] = {
        "name": endpoint.name,
        "platform": _platform(endpoint),
        "backend": _runtime(endpoint),
        "version_policy": {"specific": {"versions": list(versions)}},
        "max_batch_size": signature.max_batch if signature.batched else 0,
        "input": [_tensor(spec, signature) for spec in signature.inputs],
        "output": [_tensor(spec, signature) for spec in signature.outputs],
        "instance_group": [{"name": endpoint.name, "kind": "KIND_CPU", "count": settings.concurrency}],
        "parameters": _parameters(endpoint),
    }
    if signature.batched:
        config["dynamic_batching"] = {"max_queue_delay_microseconds": round(settings.max_delay * 1e6)}
    return config


def _parameters(endpoint: Endpoint) -> dict[str, dict[str, str]]:
    texts = {**endpoint.config, "zoolens_model": endpoint.rungs[0].rung.model}
    model = endpoint.reference.model
    if model is not None:
        texts |= {"zoolens_model": model.reference, "zoolens_runtime": model.runtime}
        texts["zoolens_batching"] = model.verdict.reason
        if endpoint.sharing is not None and endpoint.sharing.reason:
            texts["zoolens_batching_now"] = endpoint.sharing.reason
    return {name: {"string_value": text} for name, text in texts.items()}


def _tensor(spec: TensorMetadata, signature: ModelSignature) -> dict[str, Any]:
    datatype = "TYPE_STRING" if spec.datatype == "BYTES" else f"TYPE_{spec.datatype}"
    shape = spec.shape[1:] if signature.batched else spec.shape
    return {"name": spec.name, "data_type": datatype, "dims": list(shape)}


def _platform(endpoint: Endpoint) -> str:
    model = endpoint.reference.model
    if endpoint.service or model is None:
        return "zoolens_service" if endpoint.service else ""
    return _PLATFORMS.get(model.format, f"{model.runtime}_{model.format}")


def _runtime(endpoint: Endpoint) -> str:
    model = endpoint.reference.model
    return endpoint.rungs[0].rung.runtime if model is None else model.runtime
