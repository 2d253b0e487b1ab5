"""`fleet.yaml`: which models are measured on which kinds of machine again and again, and what about it is an alarm."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, Final, Self, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from zoolens.base.errors import ZoolensError
from zoolens.base.safety.untrusted import read_text
from zoolens.findings.comparisons.gate import ComparisonGate, parse_gate
from zoolens.findings.measure.latency import LatencySettings
from zoolens.findings.measure.plan import EvaluationPlan
from zoolens.inventory.catalog.sessions import RunOptions
from zoolens.inventory.fleet.budget import Budget, parse_duration, parse_price
from zoolens.inventory.manifests.yaml_tree import YamlRefused, YamlTree, path_words
from zoolens.inventory.runtimes.runtime import Options

NEW_FAILURE: Final = "new failure"
KIND_DISAPPEARED: Final = "kind disappeared"
_MAX_BYTES: Final = 1 << 18
_MOST: Final = 10_000  # items of a list

T = TypeVar("T")


def _one_or_more(value: Any) -> Any:
    return [value] if isinstance(value, str | int) else value


def _said(parse: Callable[[str], T], text: str) -> T:
    """What is wrong as an error that pydantic knows, and tells with its place."""
    try:
        return parse(text)
    except ZoolensError as error:
        raise ValueError(str(error)) from error


def _seconds(value: Any) -> Any:
    return _said(parse_duration, value) if isinstance(value, str) else value


def _per_hour(value: Any) -> Any:
    return _said(parse_price, value) if isinstance(value, str) else value


def _known_alarm(text: str) -> str:
    if text in (NEW_FAILURE, KIND_DISAPPEARED):
        return text
    gate = _said(parse_gate, text)
    if not isinstance(gate, ComparisonGate) or gate.way is None or gate.scope or not gate.op.startswith(">"):
        raise ValueError(f"{text[:60]!r} is no alarm; write '{NEW_FAILURE}', '{KIND_DISAPPEARED}' or METRIC drop > N%")
    return text


def _each_once(values: list[T]) -> list[T]:
    """Twice the same would be measured twice, and told apart by nothing."""
    return list(dict.fromkeys(values))


def _printable(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise ValueError("a name is made of characters that can be read")
    return text


_Names = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=500)]],
    BeforeValidator(_one_or_more),
    Field(max_length=_MOST),
    AfterValidator(_each_once),
]
_Alarms = Annotated[
    list[Annotated[str, Field(max_length=200), AfterValidator(_known_alarm)]],
    BeforeValidator(_one_or_more),
    Field(max_length=100),
    AfterValidator(_each_once),
]
# Numbers are strict: true is no number, and neither is a text.
_Price = Annotated[float, BeforeValidator(_per_hour), Field(ge=0, lt=1e9, strict=True)]
_Count = Annotated[int, Field(ge=1, strict=True)]
_Batches = Annotated[
    list[Annotated[int, Field(ge=1, le=1_000_000, strict=True)]],
    BeforeValidator(_one_or_more),
    AfterValidator(_each_once),
]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PlanOptions(_Part):
    """The options of `zoolens eval` that a plan may set."""

    limit: _Count | None = None
    seed: Annotated[int, Field(ge=0, strict=True)] | None = None
    batch: _Batches = [1]
    accuracy: bool = True
    cold: bool = False
    latency_seconds: Annotated[float, Field(ge=0.05, le=86_400, strict=True)] = 5.0
    threads: _Count | None = None
    device: str = "cpu"
    precision: str = "default"
    mode: str = "default"

    @model_validator(mode="after")
    def _measures_something(self) -> Self:
        if not self.accuracy and not self.batch and not self.cold:
            raise ValueError("nothing is measured without accuracy, batch sizes and cold starts")
        return self


class PlanBudget(_Part):
    time: Annotated[float, BeforeValidator(_seconds), Field(gt=0, lt=1e9, strict=True)] | None = None
    money: Annotated[float, Field(gt=0, lt=1e12, strict=True)] | None = None


class FleetPlan(_Part):
    """A recurring plan. `fresh`: every pass measures anew; otherwise only what is not in the store."""

    name: Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_printable)]
    models: _Names = Field(min_length=1)
    datasets: _Names = Field(min_length=1)
    runtimes: _Names = []
    on: str = "each-kind"
    require: str = ""
    fresh: bool = True
    options: PlanOptions = PlanOptions()
    budget: PlanBudget = PlanBudget()
    price: dict[str, _Price] = {}
    alarms: _Alarms = []

    def evaluation(self, dataset: str) -> EvaluationPlan:
        """The evaluation of all its models on one of its datasets."""
        chosen, budget = self.options, self.budget
        budgeted = budget.time is not None or budget.money is not None
        return EvaluationPlan(
            models=self.models,
            data=dataset,
            limit=chosen.limit,
            seed=chosen.seed,
            wanted=RunOptions(
                runtimes=tuple(self.runtimes),
                require=self.require,
                options=Options(chosen.threads, chosen.device, chosen.precision, chosen.mode),
            ),
            batches=tuple(chosen.batch),
            accuracy=chosen.accuracy,
            cold=chosen.cold,
            fresh=self.fresh,
            latency=LatencySettings(max_seconds=chosen.latency_seconds),
            budget=Budget(budget.time, budget.money, self.price) if budgeted else None,
        )


def load_fleet_plan(path: Path | str) -> FleetPlan:
    """The plan in a file, or one sentence about what is wrong in which line."""
    path = Path(path)
    try:
        # A field is called "on", which YAML takes for true.
        tree = YamlTree(read_text(path, _MAX_BYTES), text_keys=True)
    except OSError as error:
        raise ZoolensError(f"{path} cannot be read: {error.strerror}.", hint="Is it a plan?") from error
    except UnicodeDecodeError as error:
        raise ZoolensError(f"{path} is not UTF-8 text.") from error
    except YamlRefused as refusal:
        raise ZoolensError(f"{path}, line {refusal.line}: {refusal.what}.") from refusal
    if not isinstance(tree.value, dict):
        raise ZoolensError(f"{path} holds no fields.", hint="A plan is written as NAME: VALUE lines: models, datasets.")
    try:
        return FleetPlan.model_validate(tree.value)
    except ValidationError as error:
        raise ZoolensError(_first_problem(path, error, tree)) from error


def _first_problem(path: Path, error: ValidationError, tree: YamlTree) -> str:
    # What is missing is often there, misspelt.
    problem = min(error.errors(), key=lambda one: one["type"] == "missing")
    location = tuple(problem["loc"])
    line, known = tree.find(location)
    where = f"{path}, line {line}: {path_words(known) or path_words(location)}"
    if problem["type"] == "extra_forbidden":
        near = difflib.get_close_matches(str(location[-1]), _fields_of(location), n=1)
        return f"{where} is no field of a plan.{f' Did you mean {near[0]}?' if near else ''}"
    if problem["type"] in ("model_type", "dict_type"):
        return f"{where}: NAME: VALUE lines are expected."
    if problem["type"] == "missing":
        return f"{path}: {path_words(location)} is missing."
    return f"{where}: {problem['msg'].removeprefix('Value error, ').rstrip('.')}."


def _fields_of(location: tuple[Any, ...]) -> Iterable[str]:
    parts: dict[str, type[BaseModel]] = {"options": PlanOptions, "budget": PlanBudget}
    part = parts.get(str(location[0]), FleetPlan) if len(location) > 1 else FleetPlan
    return list(part.model_fields)
