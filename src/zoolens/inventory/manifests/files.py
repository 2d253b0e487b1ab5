"""Manifests on disk, and errors that carry line numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from zoolens.base.errors import ManifestError
from zoolens.base.safety import untrusted
from zoolens.inventory.manifests.schema import Manifest
from zoolens.inventory.manifests.yaml_tree import YamlRefused, YamlTree, path_words, read_exponents

MAX_BYTES = 1 << 20  # a manifest is prose and numbers; a megabyte of it is something else
SUFFIXES = (".yaml", ".yml")

_MARK = re.compile(r"^zoolens\s*:", re.MULTILINE)


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
        return untrusted.read_text(path, MAX_BYTES)
    except OSError as error:
        raise ManifestError(f"{path} cannot be read as a manifest: {error.strerror}.") from error
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
        tree = _tree(text)
    except YamlRefused as refusal:
        return None, [Problem(refusal.line, "", refusal.what)]
    try:
        return Manifest.model_validate(tree.value), []
    except ValidationError as error:
        return None, problems_of(error, tree)


def line_of(text: str, *location: str | int) -> int:
    """The line on which a value of a valid manifest stands."""
    return _tree(text).find(location)[0]


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
read_exponents(_Dumper)


def _tree(text: str) -> YamlTree:
    tree = YamlTree(text)
    if not isinstance(tree.value, dict):
        raise YamlRefused(1, "a manifest is a mapping that starts with 'zoolens: 1'")
    return tree


def problems_of(error: ValidationError, tree: YamlTree) -> list[Problem]:
    """One problem a place: a value that fits no member of a union is one mistake, not several."""
    reasons: dict[tuple[int, str], list[str]] = {}
    for detail in error.errors():
        if detail["type"] == "too_short" and detail["input"]:
            # An item was refused, which is reported by itself.
            continue
        line, path = tree.find(detail["loc"])
        if detail["type"] == "missing":
            path = (*path, detail["loc"][-1])
        whats = reasons.setdefault((line, path_words(path)), [])
        what = _what(detail)
        if what not in whats:
            whats.append(what)
    return sorted((Problem(line, where, ", or ".join(whats)) for (line, where), whats in reasons.items()), key=_by_line)


def _by_line(problem: Problem) -> int:
    return problem.line


def _what(detail: Mapping[str, Any]) -> str:
    kind, message = detail["type"], str(detail["msg"])
    if kind == "extra_forbidden":
        return "unknown key; remove it or check the spelling"
    if kind == "missing":
        return "is missing"
    if kind == "string_type" and isinstance(detail.get("input"), (int, float)):
        return "must be text, but YAML reads it as a number; put it in quotes"
    if kind in ("dict_type", "model_type", "model_attributes_type"):
        return "must be a mapping of names to values"
    if kind == "union_tag_not_found":
        return "op is missing: say which step this is"
    message = message.removeprefix("Value error, ").replace("Tuple", "List").replace("tuple", "list")
    given = detail.get("input")
    if isinstance(given, (str, int, float)) and kind != "value_error":
        message += f" (given: {str(given)[:60]!r})"
    return message
