"""The definition of services: a YAML file that says what is promised, not which models are used.

services:
  fashion:
    reference: demo:lenet-wide
    within: 85%
    objectives:
      latency: {percentile: 99, bound: 50 ms}
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from zoolens.base import plugins
from zoolens.base.errors import ZoolensError
from zoolens.base.safety.untrusted import read_text
from zoolens.faces.serving.amounts import Bytes, Delay, Joules, Seconds, Share
from zoolens.inventory.manifests.files import Problem, problems_of
from zoolens.inventory.manifests.yaml_tree import YamlRefused, YamlTree

MAX_BYTES: Final = 1 << 20
MAX_SERVICES: Final = 100


class ServiceError(ZoolensError):
    """A file that defines no services, or services that cannot be served; the message names line and field."""


class ServicePart(BaseModel):
    """Base of every piece: unknown keys are errors, so that a typo is found and not ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class LatencyObjective(ServicePart):
    """Answers within `bound`, for this percentile of the requests. Both are also what the policy aims at."""

    bound: Seconds
    percentile: float = Field(default=99.0, gt=0, lt=100, strict=True)


class Objectives(ServicePart):
    """What a service promises. Fallbacks that need more memory or energy are left out."""

    latency: LatencyObjective | None = None
    memory: Bytes | None = None  # of one model
    energy: Joules | None = None  # of one input


class NamedFallback(ServicePart):
    """A model that answers where no tier keeps the promise, although it need not be as equivalent as promised."""

    model: str


class PolicyChoice(ServicePart):
    """Which policy chooses the tier, and its settings."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str

    @property
    def settings(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


def _known_policy(choice: PolicyChoice) -> PolicyChoice:
    if choice.name not in plugins.registered(plugins.POLICIES):
        known = ", ".join(plugins.names(plugins.POLICIES))
        raise ValueError(f"there is no policy {choice.name!r}; policies are {known}")
    return choice


class BatchSettings(ServicePart):
    """At most `size` inputs run together; the first of them waits at most `delay` seconds for others."""

    size: int = Field(default=16, ge=1, le=1024, strict=True)
    delay: Delay = 0.0
    instances: int = Field(default=1, ge=1, le=64, strict=True)


class HeaderMatch(ServicePart):
    """Requests whose header of this name has this value."""

    name: str = Field(pattern=r"^[A-Za-z0-9-]+$")
    value: str


class Split(ServicePart):
    """An arm of an A/B test: this model answers a share of the requests, or those with a header."""

    model: str
    weight: Share | None = None
    header: HeaderMatch | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.weight is None) == (self.header is None):
            raise ValueError("give either weight or header")
        return self


class ShadowSettings(ServicePart):
    """Ask a model too, after the answer has gone out, for this share of the requests."""

    model: str
    share: Share = 0.05


class PromiseCheck(ServicePart):
    """Ask the reference too for this share of what fallbacks answered, and compare with what `query` promised."""

    share: Share = 0.02
    violated: Literal["warn", "remove"] = "warn"  # say so, or take the tier off the ladder as well


class TextSettings(ServicePart):
    """The service writes texts, behind prompts of at most so many tokens and of at most so many tokens themselves."""

    prompt: int = Field(ge=1, le=1 << 20, strict=True)
    answer: int = Field(ge=2, le=1 << 20, strict=True)


_NO_TEXTS: Final = {
    "shadow": "answers of two models are texts, which are not compared while serving",
    "splits": "answers of two models are texts, which are not compared while serving",
    "promise": "answers of two models are texts, which are not compared while serving",
    "input": "clients send prompts",
    "output": "clients get texts",
}
_TEXT_POLICIES: Final = frozenset({"time-of-day"})  # which count the energy and the time of inputs, not of tokens


class Service(ServicePart):
    """One service. The ladder is asked for with CORR reference WITHIN within; `bounds` are what a query has behind ON
    (a word that YAML takes for true)."""

    reference: str
    runtime: str | None = Field(default=None, description="The only runtime for reference and fallbacks.")
    within: Share
    confidence: Share | None = Field(default=None, description="Promise `within` with this confidence.")
    data: str | None = Field(default=None, description="The stored dataset on which answers are compared.")
    bounds: tuple[str, ...] = Field(default=(), description="Further bounds of the query, such as 'memory <= 80%'.")
    where: str | None = Field(default=None, description="Condition on fallbacks, such as \"zoo = 'demo'\".")
    input: Literal["tensor", "image", "pixels", "text", "sound"] = "tensor"
    output: Literal["probabilities", "raw"] = "probabilities"
    objectives: Objectives = Objectives()
    fallback: Literal["shed", "best effort"] | NamedFallback = "shed"
    policy: Annotated[
        PolicyChoice | None,
        BeforeValidator(lambda given: {"name": given} if isinstance(given, str) else given),
        AfterValidator(lambda choice: None if choice is None else _known_policy(choice)),
    ] = None
    batch: BatchSettings = BatchSettings()
    rungs: int = Field(
        default=8, ge=1, le=64, strict=True, description="At most so many models, the reference among them."
    )
    memory_limit_file: str | None = Field(
        default=None, description="A file that holds the bytes that all models may take, such as a cgroup's memory.max."
    )
    ladder: str | None = Field(
        default=None, description="A file with the ladder that is served as it is, from `--check --freeze`."
    )
    splits: tuple[Split, ...] = ()
    sticky: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9-]+$",
        description="Split by the value of this header, so that a user always gets the same arm; default: request id.",
    )
    shadow: ShadowSettings | None = None
    promise: PromiseCheck = PromiseCheck()
    texts: TextSettings | None = Field(default=None, description="It writes texts, of at most this length.")

    @model_validator(mode="after")
    def _texts_alone(self) -> Self:
        """Refuse what has no meaning, or no truthful one yet, where texts are written."""
        if self.texts is None:
            return self
        for name, why in _NO_TEXTS.items():
            if name in self.model_fields_set:
                raise ValueError(f"a service with texts has no {name}: {why}")
        if {"size", "delay"} & self.batch.model_fields_set:
            raise ValueError("a service with texts has no batch size or delay: each text is written by itself")
        if self.objectives.energy is not None:
            raise ValueError("a service with texts has no objectives.energy: it was measured of inputs, not of texts")
        if self.policy_name in _TEXT_POLICIES:
            raise ValueError(f"the policy {self.policy_name} does not know what texts cost")
        return self

    @property
    def largest(self) -> int:
        """The inputs of the largest batch, or the tokens of the longest text."""
        return self.batch.size if self.texts is None else self.texts.answer

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.policy_name == "latency" and self.objectives.latency is None:
            raise ValueError("the policy latency needs objectives.latency with a bound")
        if sum(split.weight or 0.0 for split in self.splits) > 1:
            raise ValueError("the weights of the splits add up to more than 100%")
        if len({split.model for split in self.splits}) < len(self.splits):
            raise ValueError("two splits name the same model")
        return self

    @property
    def policy_name(self) -> str:
        if self.policy is not None:
            return self.policy.name
        return "latency" if self.objectives.latency is not None else "fixed"

    @property
    def policy_settings(self) -> dict[str, Any]:
        """What the policy is given: its own settings, and the objective that belongs to it."""
        settings = {} if self.policy is None else self.policy.settings
        if self.policy_name == "latency" and self.objectives.latency is not None:
            latency = self.objectives.latency
            settings = {"target": latency.bound, "percentile": latency.percentile, **settings}
            if self.texts is not None:
                settings = {"inputs": self.texts.answer, **settings}
        if self.policy_name == "memory" and self.objectives.memory is not None:
            settings = {"limit": self.objectives.memory, **settings}
        return settings


Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]


class ServiceFile(ServicePart):
    services: dict[Name, Service] = Field(min_length=1, max_length=MAX_SERVICES)


def read_services(path: Path | str) -> dict[str, Service]:
    """The services that a file defines, by name, or a ServiceError that lists every problem with its line."""
    try:
        text = read_text(Path(path), MAX_BYTES)
    except OSError as error:
        raise ServiceError(f"{path} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise ServiceError(f"{path} is not UTF-8 text: byte {error.start} is invalid.") from error
    return parse_services(text, str(path))


def parse_services(text: str, source: str = "the service file") -> dict[str, Service]:
    defined, problems = check_services(text)
    if defined is None:
        count = f"{len(problems)} problem{'s' if len(problems) > 1 else ''}"
        listed = "\n".join(f"  {problem}" for problem in problems)
        raise ServiceError(f"{source} does not define services, {count}:\n{listed}")
    return dict(defined.services)


def check_services(text: str) -> tuple[ServiceFile | None, list[Problem]]:
    try:
        tree = YamlTree(text)
    except YamlRefused as refusal:
        return None, [Problem(refusal.line, "", refusal.what)]
    if not isinstance(tree.value, dict):
        return None, [Problem(1, "", "a service file is a mapping with the key 'services'")]
    try:
        return ServiceFile.model_validate(tree.value), []
    except ValidationError as error:
        return None, problems_of(error, tree)
