"""Manifests on disk: YAML that cannot bomb or run code, errors that carry line numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from zoolens.errors import ManifestError
from zoolens.manifests.schema import Manifest

MAX_BYTES = 1 << 20  # a manifest is prose and numbers; a megabyte of it is something else
MAX_DEPTH = 32
SUFFIXES = (".yaml", ".yml")

_MARK = re.compile(r"^zoolens\s*:", re.MULTILINE)
# libyaml where it is compiled in: the pure Python scanner takes ten times as long on a long list of labels.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Problem:
    line: int
    where: str
    what: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.where}: {self.what}" if self.where else f"line {self.line}: {self.what}"


def read_manifest(path: Path) -> Manifest:
    """The manifest in a file, or a ManifestError that lists every problem with its line."""
    return parse_manifest(read_text(path), str(path))


def read_text(path: Path) -> str:
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise ManifestError(f"{path} has {size:,} bytes, but a manifest has at most {MAX_BYTES:,}.")
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ManifestError(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ManifestError(f"{path} is not UTF-8 text: byte {error.start} is invalid.") from error


def is_manifest(text: str) -> bool:
    """Whether a YAML text means to be a manifest; folders hold other YAML too."""
    return _MARK.search(text) is not None


def parse_manifest(text: str, source: str = "manifest") -> Manifest:
    manifest, problems = check_manifest(text)
    if manifest is None:
        count = f"{len(problems)} problem{'s' if len(problems) > 1 else ''}"
        listed = "\n".join(f"  {problem}" for problem in problems)
        raise ManifestError(f"{source} is not a valid manifest, {count}:\n{listed}")
    return manifest


def check_manifest(text: str) -> tuple[Manifest | None, list[Problem]]:
    """The manifest in a text, or every problem that keeps it from being one, in order of line."""
    try:
        tree = _Tree(_compose(text))
    except _Refused as refusal:
        return None, [refusal.problem]
    try:
        return Manifest.model_validate(tree.value), []
    except ValidationError as error:
        return None, _problems(error, tree)


def line_of(text: str, *location: str | int) -> int:
    """The line on which a value of a valid manifest stands."""
    return _Tree(_compose(text)).find(location)[0]


def write_manifest(manifest: Manifest, path: Path) -> None:
    path.write_text(dump_manifest(manifest), encoding="utf-8")


def dump_manifest(manifest: Manifest) -> str:
    data = manifest.model_dump(mode="json", exclude_defaults=True)
    # The version is a default to pydantic and essential to a reader.
    data = {"zoolens": manifest.zoolens, **data}
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


class _Dumper(yaml.SafeDumper):
    """Short lists of plain values on one line: shapes and means read better so. No anchors: we refuse them."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_sequence(self, tag: str, sequence: Any, flow_style: bool | None = None) -> yaml.SequenceNode:
        plain = len(sequence) <= 8 and not any(isinstance(item, (dict, list)) for item in sequence)
        return super().represent_sequence(tag, sequence, flow_style=plain if sequence else True)


# Lists are looked up by type: the override above must be what is found.
_Dumper.add_representer(list, lambda dumper, data: dumper.represent_sequence("tag:yaml.org,2002:seq", data))


class _Refused(Exception):
    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.problem = Problem(line, "", what)


def _compose(text: str) -> yaml.Node:
    """The node tree, once a cheap pass over the events has ruled out aliases (bombs) and depth (stack overflows)."""
    try:
        _check_events(text)
        node = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _Refused(mark.line + 1 if mark else 1, f"not valid YAML: {error.problem or error.context}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise _Refused(1, f"not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(node, yaml.MappingNode):
        raise _Refused(1, "a manifest is a mapping that starts with 'zoolens: 1'")
    return node


def _check_events(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.AliasEvent):
            raise _Refused(line, "YAML aliases (*name) are not allowed in a manifest; write the value out")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise _Refused(line, f"nested more than {MAX_DEPTH} levels deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


class _Tree:
    """Plain values of a node tree, and the line each one stands on, by its path."""

    def __init__(self, root: yaml.Node) -> None:
        self._line: dict[tuple[Any, ...], int] = {}
        self._constructor = yaml.constructor.SafeConstructor()
        self.value = self._build(root, ())

    def find(self, location: tuple[Any, ...]) -> tuple[int, tuple[Any, ...]]:
        """Line and path of a location, or of its nearest ancestor that exists in the file.

        pydantic puts names of union members ("resize", "int") between the parts of a location: what is not in
        the tree is passed over.
        """
        path: tuple[Any, ...] = ()
        for part in location:
            if (*path, part) in self._line:
                path = (*path, part)
        return self._line[path], path

    def _build(self, node: yaml.Node, path: tuple[Any, ...]) -> Any:
        self._line.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self._build(item, (*path, index)) for index, item in enumerate(node.value)]
        return self._scalar(node)

    def _mapping(self, node: yaml.MappingNode, path: tuple[Any, ...]) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise _Refused(line, "a key must be plain text")
            key = self._scalar(key_node)
            if key in result:
                raise _Refused(line, f"{key!r} is given twice")
            self._line[(*path, key)] = line
            result[key] = self._build(value_node, (*path, key))
        return result

    def _scalar(self, node: yaml.Node) -> Any:
        try:
            return self._constructor.construct_object(node)
        except (yaml.YAMLError, ValueError, OverflowError) as error:
            what = getattr(error, "problem", None) or str(error)
            raise _Refused(node.start_mark.line + 1, what) from error


def _problems(error: ValidationError, tree: _Tree) -> list[Problem]:
    """One problem a place: a value that fits no member of a union is one mistake, not several."""
    found: dict[tuple[int, str], list[str]] = {}
    for detail in error.errors():
        if detail["type"] == "too_short" and detail["input"]:
            continue  # an item was refused, which is reported by itself
        line, path = tree.find(detail["loc"])
        if detail["type"] == "missing":
            path = (*path, detail["loc"][-1])
        whats = found.setdefault((line, _where(path)), [])
        what = _what(detail)
        if what not in whats:
            whats.append(what)
    return sorted((Problem(line, where, ", or ".join(whats)) for (line, where), whats in found.items()), key=_by_line)


def _by_line(problem: Problem) -> int:
    return problem.line


def _where(path: tuple[Any, ...]) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _what(detail: Mapping[str, Any]) -> str:
    kind, message = detail["type"], str(detail["msg"])
    if kind == "extra_forbidden":
        return "unknown key; remove it or check the spelling"
    if kind == "missing":
        return "is missing"
    if kind == "string_type" and isinstance(detail.get("input"), (int, float)):
        return "must be text, but YAML reads it as a number; put it in quotes"
    if kind == "union_tag_not_found":
        return "op is missing: say which step this is"
    message = message.removeprefix("Value error, ").replace("Tuple", "List").replace("tuple", "list")
    given = detail.get("input")
    if isinstance(given, (str, int, float)) and kind != "value_error":
        message += f" (given: {str(given)[:60]!r})"
    return message
