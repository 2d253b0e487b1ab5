"""The API's own description (OpenAPI 3.1), made of the declared endpoints."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from functools import cache
from itertools import chain, pairwise
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, models_json_schema
from pydantic_core import core_schema

from zoolens.faces.ui.endpoint import PREFIX, Answer, Endpoint, File
from zoolens.faces.ui.resources import endpoints

_ERROR = {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}}


@cache
def document() -> dict[str, Any]:
    """The description of every endpoint; it never changes while the program runs."""
    from zoolens.base.version import __version__

    schemas, names = _schemas()
    paths: dict[str, Any] = {}
    for resource, declared in endpoints().items():
        for endpoint in declared:
            paths.setdefault(endpoint.plain_path, {})[endpoint.method.lower()] = _operation(resource, endpoint, names)
    description = {"summary": "This description", "responses": {"200": {"description": "OpenAPI 3.1"}}}
    paths[f"{PREFIX}/openapi.json"] = {"get": description}
    return {
        "openapi": "3.1.0",
        "info": {"title": "zoolens explorer", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": {**schemas, "Error": _ERROR},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def answer_schemas() -> dict[str, Any]:
    """The JSON schemas of every answer and of what it is made of, by name: the types of the browser's client."""
    return _schemas()[0]


def _schemas() -> tuple[dict[str, Any], dict[Any, dict[str, Any]]]:
    declared = list(chain.from_iterable(endpoints().values()))
    answers = {endpoint.answer for endpoint in declared if issubclass(endpoint.answer, Answer)}
    ordered = sorted(answers, key=lambda answer: answer.__name__)
    if len({answer.__name__ for answer in ordered}) < len(ordered):
        raise ValueError("two answers of the API have the same name")
    bodies = sorted({posted.query for posted in declared if posted.method == "POST"}, key=lambda body: body.__name__)
    modes: list[Any] = [(answer, "serialization") for answer in ordered] + [(body, "validation") for body in bodies]
    references, definitions = models_json_schema(
        modes, ref_template="#/components/schemas/{model}", schema_generator=_DescribedSchema
    )
    return definitions.get("$defs", {}), {model: schema for (model, _), schema in references.items()}


class _DescribedSchema(GenerateJsonSchema):
    """Adds the docstring of each field as its description.

    Pydantic does the same with `use_attribute_docstrings`, but when a class is made: reading the sources of all answers
    took 0.2 s of every start of the explorer (2.3 s of CPU without, 2.5 s with it), and few readers open this page.
    """

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        described = super().model_schema(schema)
        for name, text in _field_docstrings(schema["cls"]):
            described["properties"][name].setdefault("description", text)
        return described


def _field_docstrings(model: type) -> Iterator[tuple[str, str]]:
    """Yields the fields of a class that have a docstring below them."""
    if "[" in model.__name__:
        # A generic class with its parameter: it has no source of its own, and its subclass has the docstrings.
        return
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    assert isinstance(tree, ast.ClassDef)
    for field, below in pairwise(tree.body):
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            yield ast.unparse(field.target), " ".join(str(below.value.value).split())


def _operation(resource: str, endpoint: Endpoint, schemas: dict[Any, dict[str, Any]]) -> dict[str, Any]:
    if issubclass(endpoint.answer, File):
        content: dict[str, Any] = {"application/octet-stream": {}}
    else:
        media_type = "text/event-stream" if endpoint.stream else "application/json"
        content = {media_type: {"schema": schemas[endpoint.answer]}}
    operation: dict[str, Any] = {
        "tags": [resource],
        "summary": endpoint.summary,
        "parameters": list(_parameters(endpoint)),
        "responses": {
            str(endpoint.status): {"description": "The answer", "content": content},
            "default": {
                "description": "An error, in one sentence",
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
            },
        },
    }
    if endpoint.upload_bytes is not None:
        operation["requestBody"] = {"content": {"application/octet-stream": {}}, "required": True}
    elif endpoint.method == "POST":
        operation["requestBody"] = {
            "content": {"application/json": {"schema": schemas[endpoint.query]}},
            "required": True,
        }
    return operation


def _parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    schema = endpoint.query.model_json_schema()
    parameters = []
    for name, field in schema.get("properties", {}).items():
        in_path = name in endpoint.names
        if not in_path and endpoint.method == "POST" and endpoint.upload_bytes is None:
            continue
        described = {key: value for key, value in field.items() if key not in ("title", "description")}
        parameters.append({
            "name": name,
            "in": "path" if in_path else "query",
            "required": in_path or name in schema.get("required", ()),
            "description": field.get("description", ""),
            "schema": described,
        })  # fmt: skip
    return parameters
