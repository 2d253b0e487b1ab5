"""Manifests on disk: YAML that cannot bomb or run code, errors that carry line numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from zoolens.errors import ManifestError
from zoolens.manifests.schema import Manifest

MAX_BYTES = 1 << 20  # a manifest is prose and numbers; a megabyte of it is something else
SUFFIXES = (".yaml", ".yml")


def read_manifest(path: Path) -> Manifest:
    """The manifest in a file, or a ManifestError that lists every problem with its line."""
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise ManifestError(f"{path} has {size:,} bytes, but a manifest has at most {MAX_BYTES:,}.")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ManifestError(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ManifestError(f"{path} is not UTF-8 text: byte {error.start} is invalid.") from error
    return parse_manifest(text, str(path))


def parse_manifest(text: str, source: str = "manifest") -> Manifest:
    node = _compose(text, source)
    lines = _Lines(node)
    try:
        return Manifest.model_validate(lines.value)
    except ValidationError as error:
        problems = [
            f"  line {lines.at(problem['loc'])}: {_where(problem['loc'])}{_what(problem)}" for problem in error.errors()
        ]
        count = f"{len(problems)} problem{'s' if len(problems) > 1 else ''}"
        raise ManifestError(f"{source} is not a valid manifest, {count}:\n" + "\n".join(problems)) from error


def write_manifest(manifest: Manifest, path: Path) -> None:
    path.write_text(dump_manifest(manifest), encoding="utf-8")


def dump_manifest(manifest: Manifest) -> str:
    data = manifest.model_dump(mode="json", exclude_defaults=True)
    # The discriminator and the version are defaults to pydantic and essential to a reader.
    data = {"zoolens": manifest.zoolens, **data}
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=110)


def _compose(text: str, source: str) -> yaml.Node:
    """The node tree. Anchors and aliases are refused: nobody needs them here, and they make YAML bombs."""
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                line = event.start_mark.line + 1 if event.start_mark else 1
                raise ManifestError(
                    f"{source} line {line}: YAML aliases (*name) are not allowed in a manifest.",
                    hint="Write the value out.",
                )
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise ManifestError(f"{source} line {line}: not valid YAML: {error.problem or error.context}.") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ManifestError(f"{source} is not valid YAML: {error}.") from error
    if not isinstance(node, yaml.MappingNode):
        raise ManifestError(f"{source} is not a manifest: it must be a mapping that starts with 'zoolens: 1'.")
    return node


class _Lines:
    """Plain values of a node tree, and the line each one stands on, by its path."""

    def __init__(self, root: yaml.Node) -> None:
        self._line: dict[tuple[Any, ...], int] = {}
        try:
            self.value = self._build(root, ())
        except RecursionError as error:
            raise ManifestError("The manifest nests too deeply.") from error

    def at(self, location: tuple[Any, ...]) -> int:
        """The line of a location, or of its nearest ancestor that exists in the file."""
        path = tuple(part for part in location)
        while path:
            if path in self._line:
                return self._line[path]
            path = path[:-1]
        # pydantic puts union tags into locations ("resize"): drop them and try again
        for cut in range(len(location), 0, -1):
            stripped = tuple(part for part in location[:cut] if part in self._parts)
            if stripped in self._line:
                return self._line[stripped]
        return 1

    @property
    def _parts(self) -> set[Any]:
        return {part for path in self._line for part in path}

    def _build(self, node: yaml.Node, path: tuple[Any, ...]) -> Any:
        self._line[path] = node.start_mark.line + 1
        if isinstance(node, yaml.MappingNode):
            result: dict[Any, Any] = {}
            for key_node, value_node in node.value:
                key = self._scalar(key_node)
                if key in result:
                    raise ManifestError(f"line {key_node.start_mark.line + 1}: {key!r} is given twice.")
                result[key] = self._build(value_node, (*path, key))
                self._line[(*path, key)] = key_node.start_mark.line + 1
            return result
        if isinstance(node, yaml.SequenceNode):
            return [self._build(item, (*path, index)) for index, item in enumerate(node.value)]
        return self._scalar(node)

    @staticmethod
    def _scalar(node: yaml.Node) -> Any:
        try:
            value = yaml.SafeLoader("").construct_object(node)
        except yaml.YAMLError as error:
            raise ManifestError(f"line {node.start_mark.line + 1}: {error}") from error
        if isinstance(value, (list, dict)):
            raise ManifestError(f"line {node.start_mark.line + 1}: a key must be plain text.")
        return value


def _where(location: tuple[Any, ...]) -> str:
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return f"{text}: " if text else ""


def _what(problem: Any) -> str:
    kind, message = problem["type"], str(problem["msg"])
    if kind == "extra_forbidden":
        return "unknown key; remove it or check the spelling"
    if kind == "missing":
        return "is missing"
    message = message.removeprefix("Value error, ")
    given = problem.get("input")
    if isinstance(given, (str, int, float)) and kind != "value_error":
        message += f" (given: {given!r})"
    return message
