"""Recipes and plans as users write them: YAML files that cannot run code, and what is wrong in them said in words."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from zoolens.base import plugins
from zoolens.base.errors import UnknownName, ZoolensError
from zoolens.base.safety.untrusted import read_text
from zoolens.inventory.manifests.yaml_tree import YamlRefused, YamlTree, path_words
from zoolens.training.crosstrain.study.search.hyperspace import subspaces
from zoolens.training.crosstrain.study.study_plan import Dimension, Plan, Search
from zoolens.training.crosstrain.training.architectures import NAMES
from zoolens.training.crosstrain.training.recipe import Optimizer, Recipe, Schedule
from zoolens.training.crosstrain.training.trial_runner import HYPERPARAMETERS, apply
from zoolens.training.crosstrain.training.trials import Hyperparameter
from zoolens.training.pairs.data.prepared_data import prepared
from zoolens.training.pairs.semantics import Semantics

M = TypeVar("M", bound=BaseModel)

_MAX_BYTES: Final = 1 << 18
_PARTS: Final[Mapping[str, type[BaseModel]]] = {
    "recipe": Recipe, "optimizer": Optimizer, "semantics": Semantics, "schedule": Schedule,
    "search": Search, "space": Dimension,
}  # fmt: skip
_SHAPING: Final = ("architecture", "dataset", "train_limit", "test_limit")  # what a recipe is checked for as a whole


_COUNTED: Final = ("train_limit", "test_limit", "every", "epochs")  # whole numbers that may be left out


class PlanError(ZoolensError):
    """A file that is no recipe or plan; the sentence names its line and field."""


def load_recipe(path: Path | str) -> Recipe:
    """The recipe in a file, with an architecture and data that exist."""
    recipe = load_fields(Path(path), Recipe)
    check_recipe(recipe)
    return recipe


def load_plan(path: Path | str) -> Plan:
    """The plan in a file; whatever can be found wrong before anything is trained has been looked for."""
    plan = load_fields(Path(path), Plan)
    check_plan(plan)
    return plan


def check_plan(plan: Plan) -> None:
    """Trainers, architectures, data and hyperparameters that do not exist, and ranges that no recipe allows."""
    check_frameworks(plan.frameworks)
    check_recipe(plan.recipe)
    subspaces(plan.space, plan.search)
    (whole,) = subspaces(plan.space, Search(split=()))
    for axis in whole.axes:
        _check_whole(plan, axis.name)
        for value in axis.choices or (axis.low, axis.high):
            varied = apply(plan.recipe, {axis.name: value})
            if axis.name in _SHAPING:
                check_recipe(varied)


def _check_whole(plan: Plan, name: str) -> None:
    """A range of what is counted gives whole numbers only where it says so."""
    if name not in HYPERPARAMETERS:
        return  # said where it is applied
    (dimension,) = (candidate for candidate in plan.space if candidate.name == name)
    part, dot, field = name.rpartition(".")
    value = getattr(getattr(plan.recipe, part) if dot else plan.recipe, field)
    counted = isinstance(value, int) and not isinstance(value, bool)
    if dimension.low is not None and not dimension.integer and (counted or field in _COUNTED):
        raise PlanError(
            f"{name} is a whole number, and its range gives others too.", hint=f"Add integer: true to {name}."
        )


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
    settings: dict[str, Hyperparameter] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or name not in HYPERPARAMETERS:
            if equals:
                raise UnknownName("hyperparameter", name, HYPERPARAMETERS)
            raise ZoolensError(f"{word[:60]!r} sets nothing.", hint="Write NAME=VALUE, such as learning_rate=0.01.")
        try:
            value = YamlTree(text).value
        except YamlRefused:
            value = text
        if not isinstance(value, str | int | float):
            raise ZoolensError(f"{word[:60]!r} gives no single value.", hint="Write a number or a word.")
        settings[name] = value
    return settings


# --- files


def load_fields(path: Path, model: type[M]) -> M:
    """The fields of a file as such a model; what is wrong is told with its line."""
    try:
        tree = YamlTree(_text(path))
    except YamlRefused as refusal:
        raise PlanError(f"{path}, line {refusal.line}: {refusal.what}.") from refusal
    value = tree.value
    if not isinstance(value, dict):
        raise PlanError(f"{path} holds no fields.", hint=f"A {model.__name__.lower()} is written as NAME: VALUE lines.")
    if wrong := _other_kind(value, model):
        raise PlanError(f"{path} is {wrong[0]}.", hint=wrong[1])
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise _explained(path, error, tree, model) from error


def _other_kind(value: Mapping[Any, Any], model: type[BaseModel]) -> tuple[str, str] | None:
    if model is Recipe and "recipe" in value:
        return "a plan, not a recipe", "`zoolens crosstrain run` takes plans."
    if model is Plan and "architecture" in value and "recipe" not in value:
        return "a recipe, not a plan", "`zoolens crosstrain train` takes recipes; a plan has one under `recipe:`."
    return None


def _text(path: Path) -> str:
    try:
        return read_text(path, _MAX_BYTES)
    except OSError as error:
        raise PlanError(f"{path} cannot be read: {error.strerror}.", hint="Is it a recipe or a plan?") from error
    except UnicodeDecodeError as error:
        raise PlanError(f"{path} is not UTF-8 text.") from error


# --- words


def _explained(path: Path, error: ValidationError, tree: YamlTree, model: type[BaseModel]) -> PlanError:
    """The problem that stands first in the file, and how many more there are. What is missing comes last: often it is
    there, misspelt."""
    places = [(*_place(problem, tree), problem) for problem in error.errors()]
    line, where, first = min(places, key=lambda place: (place[2]["type"] == "missing", place[0]))
    more = len({(line, where) for line, where, _ in places}) - 1
    others = f" ({more} more problem{'s' if more > 1 else ''})" if more else ""
    what, hint = _problem(first, where, model)
    return PlanError(f"{path}, line {line}: {what}{others}.", hint=hint)


def _place(detail: Mapping[str, Any], tree: YamlTree) -> tuple[int, str]:
    """Line and name of what is wrong; what is missing has only the line of the part that it is missing from."""
    line, path = tree.find(detail["loc"])
    return line, path_words((*path, detail["loc"][-1]) if detail["type"] == "missing" else path)


def _problem(detail: Mapping[str, Any], where: str, model: type[BaseModel]) -> tuple[str, str | None]:
    kind = detail["type"]
    if kind == "missing":
        return f"{where} is missing", None
    if kind == "extra_forbidden":
        *parents, name = detail["loc"]
        fields = _model_at(parents, model).model_fields
        close = difflib.get_close_matches(str(name), fields, n=1)
        hint = f"Did you mean {close[0]}?" if close else f"Known: {', '.join(fields)}."
        return f"{where} is no field", hint
    message = str(detail["msg"]).removeprefix("Value error, ")
    if kind == "value_error":
        return f"{where}: {message}" if where else message, None
    message = message.replace("Input should", "it should").replace("Tuple", "List")
    given = detail.get("input")
    shown = f" {str(given)[:60]!r}" if isinstance(given, str | int | float) else ""
    return f"{where or 'it'} cannot be{shown or ' that'}: {message}", None


def _model_at(where: Sequence[str | int], model: type[BaseModel]) -> type[BaseModel]:
    names = [part for part in where if isinstance(part, str) and part in _PARTS]
    return _PARTS[names[-1]] if names else model
