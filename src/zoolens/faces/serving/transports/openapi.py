"""The server's own description at /openapi.json, for people, for code generators and for tools that try to break it."""

from __future__ import annotations

from typing import Any

from zoolens.base.protocol.datatypes import DATATYPES
from zoolens.base.protocol.rest import HEADER_LENGTH
from zoolens.faces.serving.transports.request_headers import TIMEOUT_HEADER

_TEXT = {"type": "string"}
_PARAMETERS = {"type": "object", "additionalProperties": {"type": ["boolean", "number", "string"]}}
_SHAPE = {"type": "array", "items": {"type": "integer"}}
_SCHEMAS: dict[str, Any] = {
    "Error": {"type": "object", "required": ["error"], "properties": {"error": _TEXT}},
    "Tensor": {
        "type": "object",
        "required": ["name", "datatype", "shape"],
        "properties": {
            "name": _TEXT,
            "datatype": {"type": "string", "enum": list(DATATYPES)},
            "shape": {**_SHAPE, "items": {"type": "integer", "minimum": 0}},
            "parameters": _PARAMETERS,
            "data": {"type": "array", "items": {}},
        },
    },
    "RequestedOutput": {
        "type": "object",
        "required": ["name"],
        "properties": {"name": _TEXT, "parameters": _PARAMETERS},
    },
    "InferRequest": {
        "type": "object",
        "required": ["inputs"],
        "properties": {
            "id": _TEXT,
            "parameters": _PARAMETERS,
            "inputs": {"type": "array", "items": {"$ref": "#/components/schemas/Tensor"}},
            "outputs": {"type": "array", "items": {"$ref": "#/components/schemas/RequestedOutput"}},
        },
    },
    "InferResponse": {
        "type": "object",
        "required": ["model_name", "outputs"],
        "properties": {
            "model_name": _TEXT,
            "model_version": _TEXT,
            "id": _TEXT,
            "parameters": _PARAMETERS,
            "outputs": {"type": "array", "items": {"$ref": "#/components/schemas/Tensor"}},
        },
    },
    "Live": {"type": "object", "required": ["live"], "properties": {"live": {"type": "boolean"}}},
    "Ready": {
        "type": "object",
        "required": ["ready"],
        "properties": {"ready": {"type": "boolean"}, "name": _TEXT},
    },
    "Any": {"type": "object"},
    "Index": {"type": "array", "items": {"type": "object"}},
    "IndexRequest": {"type": "object", "properties": {"ready": {"type": "boolean"}}},
    "LoadRequest": {"type": "object", "properties": {"parameters": {"type": "object"}}},
    "OpenAiError": {
        "type": "object",
        "required": ["error"],
        "properties": {"error": {"type": "object", "properties": {"message": _TEXT, "type": _TEXT}}},
    },
    "Completion": {
        "type": "object",
        "required": ["model", "prompt"],
        "properties": {"model": _TEXT, "prompt": {"anyOf": [_TEXT, {"type": "array"}]}},
    },
    "Chat": {
        "type": "object",
        "required": ["model", "messages"],
        "properties": {"model": _TEXT, "messages": {"type": "array", "items": {"type": "object"}}},
    },
    "Feedback": {"type": "object", "required": ["labels"], "properties": {"labels": {"type": "object"}}},
}


def document() -> dict[str, Any]:
    """The description, in OpenAPI 3.1."""
    from zoolens.base.version import __version__

    return {
        "openapi": "3.1.0",
        "info": {"title": "zoolens serve: Open Inference Protocol V2", "version": __version__},
        "paths": _paths(),
        "components": {"schemas": _SCHEMAS, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{}, {"token": []}],
    }


def _paths() -> dict[str, Any]:
    paths: dict[str, Any] = {
        "/v2": {"get": _operation("The server's name, version and extensions", "Any")},
        "/v2/health/live": {"get": _operation("Whether the server works", "Live", {400: "Live"})},
        "/v2/health/ready": {"get": _operation("Whether all models are ready", "Ready", {400: "Ready"})},
        "/v2/models/stats": {"get": _operation("Statistics of all models", "Any")},
        "/v2/repository/index": {"post": _operation("All models and their states", "Index", body="IndexRequest")},
        "/v2/trace/setting": {
            "get": _operation("Trace settings", "Any"),
            "post": _operation("Change the trace settings", "Any", body="Any"),
        },
        "/openapi.json": {"get": _operation("This description", "Any")},
    }
    for kind in ("system", "cuda"):
        paths[f"/v2/{kind}sharedmemory/status"] = {"get": _operation("Regions of shared memory: always none", "Index")}
        paths[f"/v2/{kind}sharedmemory/unregister"] = {"post": _operation("Nothing is registered", "Any")}
    for prefix, names in (
        ("/v2/models/{model}", ["model"]),
        ("/v2/models/{model}/versions/{version}", ["model", "version"]),
    ):
        paths[prefix] = {"get": _operation("A model's inputs and outputs", "Any", names=names)}
        paths[f"{prefix}/ready"] = {"get": _operation("Whether a model is ready", "Ready", {400: "Ready"}, names=names)}
        paths[f"{prefix}/config"] = {"get": _operation("A model's configuration", "Any", names=names)}
        paths[f"{prefix}/stats"] = {"get": _operation("A model's statistics", "Any", names=names)}
        paths[f"{prefix}/infer"] = {"post": _infer(names)}
    model = ["model"]
    paths["/v2/models/{model}/feedback"] = {
        "post": _operation("Labels of answered requests, by the ids of these", "Any", body="Feedback", names=model)
    }
    paths["/v2/models/{model}/trace/setting"] = {
        "get": _operation("A model's trace settings", "Any", names=model),
        "post": _operation("Change a model's trace settings", "Any", body="Any", names=model),
    }
    for action in ("load", "unload"):
        paths[f"/v2/repository/models/{{model}}/{action}"] = {
            "post": _operation(f"{action.capitalize()} a model", "Any", body="LoadRequest", names=model)
        }
    return paths | _language_paths()


def _language_paths() -> dict[str, Any]:
    """The API of OpenAI. Of a request, the parameters that it must have."""
    paths = {
        "/v1/models": {"get": _operation("The language models", "Any")},
        "/v1/models/{model}": {"get": _operation("A language model", "Any", names=["model"])},
        "/v1/completions": {"post": _operation("Texts that go on from prompts", "Any", body="Completion")},
        "/v1/chat/completions": {"post": _operation("The answer to a conversation", "Any", body="Chat")},
    }
    for operations in paths.values():
        for operation in operations.values():
            operation["responses"]["default"] = _content("An error", "OpenAiError")
    for path in ("/v1/completions", "/v1/chat/completions"):
        answer = paths[path]["post"]["responses"]["200"]["content"]
        answer["text/event-stream"] = {"schema": _TEXT}  # where `stream` is true
    return paths


def _infer(names: list[str]) -> dict[str, Any]:
    operation = _operation("Run a model", "InferResponse", body="InferRequest", names=names)
    operation["requestBody"]["required"] = True
    operation["requestBody"]["content"]["application/octet-stream"] = {"schema": {"type": "string", "format": "binary"}}
    operation["parameters"] += [
        {
            "name": HEADER_LENGTH,
            "in": "header",
            "description": "Bytes of JSON before the binary tensors",
            "schema": {"type": "integer", "minimum": 0},
        },
        {
            "name": TIMEOUT_HEADER,
            "in": "header",
            "description": "Milliseconds after which the client does not want the answer any more",
            "schema": {"type": "number", "exclusiveMinimum": 0},
        },
    ]
    return operation


def _operation(
    summary: str,
    answer: str,
    others: dict[int, str] | None = None,
    *,
    body: str | None = None,
    names: list[str] | None = None,
) -> dict[str, Any]:
    responses = {"200": _content("An answer", answer)}
    responses |= {str(status): _content("Not so", schema) for status, schema in (others or {}).items()}
    responses["default"] = _content("An error, in one sentence", "Error")
    operation: dict[str, Any] = {
        "summary": summary,
        "parameters": [{"name": name, "in": "path", "required": True, "schema": _TEXT} for name in names or ()],
        "responses": responses,
    }
    if body is not None:
        operation["requestBody"] = {
            "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{body}"}}}
        }
    return operation


def _content(description: str, schema: str) -> dict[str, Any]:
    return {
        "description": description,
        "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}},
    }
