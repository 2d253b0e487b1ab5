"""Recipes and plans as users write them: YAML files that cannot run code, and what is wrong in them said in words."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from zoolens import plugins
from zoolens.crosstrain.architectures import NAMES
from zoolens.crosstrain.data import prepared
from zoolens.crosstrain.pairing import HYPERPARAMETERS, apply
from zoolens.crosstrain.plan import Dimension, Plan, Search
from zoolens.crosstrain.recipe import Optimizer, Recipe
from zoolens.crosstrain.search.hyperspace import subspaces
from zoolens.crosstrain.semantics import Semantics
from zoolens.crosstrain.study import Hyperparameter
from zoolens.errors import UnknownName, ZoolensError

M = TypeVar("M", bound=BaseModel)
Where = tuple[str | int, ...]

_MAX_BYTES: Final = 1 << 18
_MAX_DEPTH: Final = 16
_PARTS: Final[Mapping[str, type[BaseModel]]] = {
    "recipe": Recipe, "optimizer": Optimizer, "semantics": Semantics, "search": Search, "space": Dimension,
}  # fmt: skip
_SHAPING: Final = ("architecture", "dataset", "train_limit", "test_limit")  # what a recipe is checked for as a whole


class PlanError(ZoolensError):
    """A file that is no recipe or plan; the sentence names its line and field."""


def load_recipe(path: Path | str) -> Recipe:
    """The recipe in a file, with an architecture and data that exist."""
    recipe = _load(Path(path), Recipe)
    check_recipe(recipe)
    return recipe


def load_plan(path: Path | str) -> Plan:
    """The plan in a file; whatever can be found wrong before anything is trained has been looked for."""
    plan = _load(Path(path), Plan)
    check_plan(plan)
    return plan


def check_plan(plan: Plan) -> None:
    """Trainers, architectures, data and hyperparameters that do not exist, and ranges that no recipe allows."""
    check_frameworks(plan.frameworks)
    check_recipe(plan.recipe)
    subspaces(plan.space, plan.search)
    (whole,) = subspaces(plan.space, Search(split=()))
    for axis in whole.axes:
        for value in axis.choices or (axis.low, axis.high):
            varied = apply(plan.recipe, {axis.name: value})
            if axis.name in _SHAPING:
                check_recipe(varied)


def check_recipe(recipe: Recipe) -> None:
    if recipe.architecture not in NAMES:
        raise UnknownName("architecture", recipe.architecture, NAMES)
    prepared(recipe)


def check_frameworks(frameworks: Sequence[str]) -> None:
    known = plugins.names(plugins.TRAINERS)
    for name in frameworks:
        if name not in known:
            raise UnknownName("trainer", name, known)
    if len(set(frameworks)) < max(2, len(frameworks)):
        raise ZoolensError("A trial compares at least two different trainers.", hint=f"Known: {', '.join(known)}.")


def read_settings(words: Iterable[str]) -> dict[str, Hyperparameter]:
    """ "learning_rate=0.01" and the like, with numbers as numbers."""
    found: dict[str, Hyperparameter] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or name not in HYPERPARAMETERS:
            if equals:
                raise UnknownName("hyperparameter", name, HYPERPARAMETERS)
            raise ZoolensError(f"{word[:60]!r} sets nothing.", hint="Write NAME=VALUE, such as learning_rate=0.01.")
        try:
            value = _parsed(text)[0]
        except yaml.YAMLError:
            value = text
        if not isinstance(value, str | int | float):
            raise ZoolensError(f"{word[:60]!r} gives no single value.", hint="Write a number or a word.")
        found[name] = value
    return found


# --- YAML


class _Loader(yaml.SafeLoader):
    """YAML 1.1 takes 1e-3 for a word; everybody who writes it means a number."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def _load(path: Path, model: type[M]) -> M:
    text = _text(path)
    try:
        value, lines = _parsed(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise PlanError(f"{path}{f', line {mark.line + 1}' if mark else ''}: not valid YAML: {problem}.") from error
    if not isinstance(value, dict):
        raise PlanError(f"{path} holds no fields.", hint=f"A {model.__name__.lower()} is written as NAME: VALUE lines.")
    if wrong := _other_kind(value, model):
        raise PlanError(f"{path} is {wrong[0]}.", hint=wrong[1])
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise _explained(path, error, lines, model) from error


def _other_kind(value: Mapping[Any, Any], model: type[BaseModel]) -> tuple[str, str] | None:
    if model is Recipe and "recipe" in value:
        return "a plan, not a recipe", "`zoolens crosstrain run` takes plans."
    if model is Plan and "architecture" in value and "recipe" not in value:
        return "a recipe, not a plan", "`zoolens crosstrain train` takes recipes; a plan has one under `recipe:`."
    return None


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise PlanError(f"{path} cannot be read: {error.strerror}.") from error
    if len(content) > _MAX_BYTES:
        raise PlanError(f"{path} is larger than {_MAX_BYTES >> 10} KiB.", hint="Is it a recipe or a plan?")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PlanError(f"{path} is not UTF-8 text.") from error


def _parsed(text: str) -> tuple[Any, dict[Where, int]]:
    """The value, and the line of each of its parts."""
    _check_events(text)
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        return (None, {}) if node is None else (loader.construct_document(node), dict(_lines(node, ())))
    except (ValueError, OverflowError) as error:  # such as a date that is none
        raise yaml.YAMLError(str(error)) from error
    finally:
        loader.dispose()


def _check_events(text: str) -> None:
    """Refuse aliases, which can make much of little, and depth, which takes the parser long."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.AliasEvent):
            raise yaml.YAMLError(f"aliases (*name) are not allowed, and line {line} has one")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _MAX_DEPTH:
            raise yaml.YAMLError(f"line {line} is nested more than {_MAX_DEPTH} levels deep")


def _lines(node: yaml.Node, where: Where) -> Iterator[tuple[Where, int]]:
    yield where, node.start_mark.line + 1
    if isinstance(node, yaml.SequenceNode):
        for place, item in enumerate(node.value):
            yield from _lines(item, (*where, place))
    if isinstance(node, yaml.MappingNode):
        seen = set()
        for key, value in node.value:
            if key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"{key.value!r} is given twice", problem_mark=key.start_mark)
            seen.add(key.value)
            yield from _lines(value, (*where, str(key.value)))
            yield (*where, str(key.value)), key.start_mark.line + 1


# --- words


def _explained(path: Path, error: ValidationError, lines: Mapping[Where, int], model: type[BaseModel]) -> PlanError:
    """The problem that stands first in the file, and how many more there are. What is missing comes last: often it is
    there, misspelt."""
    details = sorted(error.errors(), key=lambda one: (one["type"] == "missing", _line(one["loc"], lines)))
    first = details[0]
    place = f"{path}, line {_line(first['loc'], lines)}"
    more = len({(_line(one["loc"], lines), _where(one["loc"], lines)) for one in details}) - 1
    others = f" ({more} more problem{'s' if more > 1 else ''})" if more else ""
    what, hint = _problem(first, lines, model)
    return PlanError(f"{place}: {what}{others}.", hint=hint)


def _problem(detail: Mapping[str, Any], lines: Mapping[Where, int], model: type[BaseModel]) -> tuple[str, str | None]:
    kind, where = detail["type"], _where(detail["loc"], lines)
    if kind == "missing":
        return f"{where} is missing", None
    if kind == "extra_forbidden":
        *parents, name = detail["loc"]
        fields = _model_at(parents, model).model_fields
        close = difflib.get_close_matches(str(name), fields, n=1)
        hint = f"Did you mean {close[0]}?" if close else f"Known: {', '.join(fields)}."
        return f"{where} is no field", hint
    said = str(detail["msg"]).removeprefix("Value error, ")
    if kind == "value_error":
        return f"{where}: {said}" if where else said, None
    said = said.replace("Input should", "it should").replace("Tuple", "List")
    given = detail.get("input")
    shown = f" {str(given)[:60]!r}" if isinstance(given, str | int | float) else ""
    return f"{where or 'it'} cannot be{shown or ' that'}: {said}", None


def _model_at(where: Sequence[str | int], model: type[BaseModel]) -> type[BaseModel]:
    names = [part for part in where if isinstance(part, str) and part in _PARTS]
    return _PARTS[names[-1]] if names else model


def _where(location: Where, lines: Mapping[Where, int]) -> str:
    """Names of union members, which pydantic puts at the end, are not in the file and left out."""
    kept = list(location)
    while len(kept) > 1 and tuple(kept) not in lines and tuple(kept[:-1]) in lines and not _is_field(kept[-1]):
        kept.pop()
    text = ""
    for part in kept:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _is_field(name: str | int) -> bool:
    models: tuple[type[BaseModel], ...] = (Plan, *_PARTS.values())
    return any(name in model.model_fields for model in models)


def _line(location: Where, lines: Mapping[Where, int]) -> int:
    """Of the location, or of its nearest ancestor that is in the file."""
    kept = tuple(location)
    while kept not in lines and kept:
        kept = kept[:-1]
    return lines.get(kept, 1)
