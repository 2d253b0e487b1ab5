"""Write `explorer/src/answers.ts`, the API's answers as TypeScript types, made of the declared endpoints, and
`explorer/src/commands.ts`, the commands that the explorer's search finds. `make ui` runs it.

python -m scripts.make_ui_types
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from zoolens.faces.cli.main import SECTIONS
from zoolens.faces.ui.endpoint import Answer
from zoolens.faces.ui.openapi import answer_schemas
from zoolens.faces.ui.resources import endpoints

TARGET = Path(__file__).parent.parent / "explorer" / "src" / "answers.ts"
COMMANDS = TARGET.with_name("commands.ts")
HEAD = "// Written by scripts/make_ui_types.py from the endpoints of src/zoolens/faces/ui/resources: do not edit.\n"
_PLAIN = {"string": "string", "number": "number", "integer": "number", "boolean": "boolean", "null": "null"}


def types() -> str:
    """The whole file."""
    schemas = answer_schemas()
    declared = [endpoint for resource in endpoints().values() for endpoint in resource]
    answers = [
        f'  "{endpoint.path.replace(":path}", "}")}": {endpoint.answer.__name__};'
        for endpoint in declared
        if issubclass(endpoint.answer, Answer) and endpoint.method == "GET" and not endpoint.stream
    ]
    parts = [_interface(name, schema) for name, schema in sorted(schemas.items())]
    parts.append("/** What a GET of each path answers. */\nexport interface Answers {\n" + "\n".join(answers) + "\n}\n")
    return HEAD + "\n" + "\n".join(parts)


def commands() -> str:
    """The names of all commands, each with its line of help."""
    known = [command for section in SECTIONS.values() for command in section.items()]
    rows = "".join(f"  [{json.dumps(name)}, {json.dumps(about, ensure_ascii=False)}],\n" for name, about in known)
    head = "// Written by scripts/make_ui_types.py from the command line: do not edit.\n"
    return f"{head}export const COMMANDS: [name: string, about: string][] = [\n{rows}];\n"


def _interface(name: str, schema: dict[str, Any]) -> str:
    comment = _comment(schema, "")
    if "properties" not in schema:
        return f"{comment}export type {name} = {_type(schema)};\n"
    required = set(schema.get("required", ()))
    lines = []
    for field, inner in schema["properties"].items():
        optional = "" if field in required else "?"
        lines.append(f"{_comment(inner, '  ')}  {field}{optional}: {_type(inner)};")
    return f"{comment}export interface {name} {{\n" + "\n".join(lines) + "\n}\n"


def _comment(schema: dict[str, Any], indent: str) -> str:
    words = " ".join(schema.get("description", "").split())
    return f"{indent}/** {words} */\n" if words else ""


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " | ".join(map(json.dumps, schema["enum"]))
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return " | ".join(dict.fromkeys(map(_type, choices)))
    if schema.get("type") == "array":
        if "prefixItems" in schema:
            return "[" + ", ".join(map(_type, schema["prefixItems"])) + "]"
        return f"({_type(schema.get('items', {}))})[]"
    if schema.get("type") == "object":
        more = schema.get("additionalProperties")
        return f"Record<string, {_type(more) if isinstance(more, dict) else 'unknown'}>"
    return _PLAIN.get(str(schema.get("type")), "unknown")


if __name__ == "__main__":
    TARGET.write_text(types(), encoding="utf-8", newline="\n")
    COMMANDS.write_text(commands(), encoding="utf-8", newline="\n")
