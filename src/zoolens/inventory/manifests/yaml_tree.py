"""YAML that people write: it cannot bomb or run code, and every value knows its line."""

from __future__ import annotations

import re
from typing import Any

import yaml

MAX_DEPTH = 32
_CORE = "tag:yaml.org,2002:"
_COLLECTIONS = (f"{_CORE}map", f"{_CORE}seq")
_MAX_DIGITS = 4000  # characters of a number: base 60 takes quadratic time, and Python reads little more in base 10
_MAX_INTEGER = 2**63  # hexadecimal digits make integers that Python cannot print, and nobody means a larger one
_PLAIN = ("null", "bool", "int", "float")
_TEXTS = ("str", "timestamp", "merge", "value")


class YamlRefused(Exception):
    """The text is not YAML, or none that we take; `line` is where."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line, self.what = line, what


# libyaml where it is compiled in: the pure Python scanner takes ten times as long on a long list of labels.
class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    pass


def load_own_yaml(text: str) -> Any:
    """The values of a YAML file that comes with zoolens, and so needs no line numbers and no checks."""
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 (both are safe loaders)


def read_exponents(resolving: Any) -> None:
    """For a loader or a dumper: YAML 1.1 takes 1e-3 for a word; everybody who writes it means a number."""
    number = re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$")
    resolving.add_implicit_resolver("tag:yaml.org,2002:float", number, list("-+0123456789"))


read_exponents(_Loader)


class YamlTree:
    """The plain values of a text, and the line each one stands on, by its path. Raises Refused.

    `text_keys`: keys are the text as it is written. To YAML 1.1, `on`, `off`, `yes` and `no` are true and false.
    """

    def __init__(self, text: str, *, text_keys: bool = False) -> None:
        self._text_keys = text_keys
        self._line: dict[tuple[Any, ...], int] = {}
        self._constructor = yaml.constructor.SafeConstructor()
        root = _compose(text)
        self.value = None if root is None else self._build(root, ())

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
        if isinstance(node, yaml.CollectionNode) and node.tag not in _COLLECTIONS:
            raise YamlRefused(node.start_mark.line + 1, f"YAML tags such as {node.tag[:60]} are not allowed")
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
                raise YamlRefused(line, "a key must be plain text")
            key = self._scalar(key_node)
            if self._text_keys:
                key = str(key_node.value)
            if key in result:
                raise YamlRefused(line, f"{key!r} is given twice")
            self._line[(*path, key)] = line
            result[key] = self._build(value_node, (*path, key))
        return result

    def _scalar(self, node: yaml.Node) -> Any:
        """A text, a number, true or false, or nothing. Dates stay the text they are written as."""
        kind = node.tag.removeprefix(_CORE)
        if kind in _TEXTS:
            return str(node.value)
        if kind not in _PLAIN:
            raise YamlRefused(node.start_mark.line + 1, f"YAML tags such as {node.tag[:60]} are not allowed")
        if len(node.value) > _MAX_DIGITS:
            raise YamlRefused(node.start_mark.line + 1, f"a number of {len(node.value):,} digits is not read")
        try:
            value = self._constructor.construct_object(node)
        # the constructor trusts that a value is written as its tag says, and a stranger may write both
        except (yaml.YAMLError, ValueError, ArithmeticError, LookupError, AttributeError, TypeError) as error:
            what = f"{str(node.value)[:60]!r} is not written as the YAML type {kind}"
            raise YamlRefused(node.start_mark.line + 1, what) from error
        if isinstance(value, int) and abs(value) > _MAX_INTEGER:
            raise YamlRefused(node.start_mark.line + 1, f"the integer {str(node.value)[:60]} is larger than 2^63")
        return value


def path_words(path: tuple[Any, ...]) -> str:
    """A path as a person writes it: `space.learning_rate.low`, `inputs[0].shape`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _compose(text: str) -> yaml.Node | None:
    """Returns the node tree, after a cheap pass over the events has refused aliases (bombs) and deep nesting."""
    try:
        _check_events(text)
        root: yaml.Node | None = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlRefused(mark.line + 1 if mark else 1, f"not valid YAML: {error.problem or error.context}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise YamlRefused(1, f"not valid YAML: {' '.join(str(error).split())}") from error
    return root


def _check_events(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.AliasEvent):
            raise YamlRefused(line, "YAML aliases (*name) are not allowed; write the value out")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise YamlRefused(line, f"nested more than {MAX_DEPTH} levels deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
