"""What kinds of jobs there are: each is what a command does, with the parameters that a browser may choose."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from zoolens.base.phrases import first_few
from zoolens.faces.ui.endpoint import Query, RequestError
from zoolens.faces.ui.jobs.permissions import check_data, check_model, check_runtime, check_subject

MOST_MODELS = 50
BUNDLE: Final = "bundle"  # the folder that an export writes, below that of its job
_NAMED: Final = 3  # models that the title of a job names; the rest is counted
_Name = str
_Id = Annotated[str, Field(pattern="^([0-9a-f]{12}|[0-9a-f]{16})$")]


class JobParameters(Query):
    """The parameters of one kind of job. `name` is that of its command."""

    name: ClassVar[str]
    summary: ClassVar[str]

    def check(self, allowed: Sequence[Path]) -> None:
        """Refuse what a job may not use; `allowed` are folders whose files it may read."""
        raise NotImplementedError

    def arguments(self) -> list[str]:
        """What stands behind `zoolens` on the command line. Values never begin an argument of their own before "--"."""
        raise NotImplementedError

    @property
    def title(self) -> str:
        """What is being done, in a few words."""
        raise NotImplementedError


class EvaluateJob(JobParameters):
    name = "evaluate"
    summary = "Measure models on a dataset"

    models: list[_Name] = Field(min_length=1, max_length=MOST_MODELS)
    data: str = "demo"
    runtimes: list[str] = Field([], max_length=20, description="None: every runtime that can open the model.")
    limit: int | None = Field(None, ge=1, description="Use this many inputs.")
    fresh: bool = Field(False, description="Measure all again, as a new run.")

    def check(self, allowed: Sequence[Path]) -> None:
        for model in self.models:
            check_model(model, allowed)
        for runtime in self.runtimes:
            check_runtime(runtime)
        check_data(self.data, allowed)

    def arguments(self) -> list[str]:
        chosen = _options(data=self.data, runtime=self.runtimes, limit=self.limit, fresh=self.fresh)
        return ["eval", *chosen, "--json", "--", *self.models]

    @property
    def title(self) -> str:
        return f"Evaluate {first_few(self.models, _NAMED)} on {self.data}"


class AuditJob(JobParameters):
    name = "audit"
    summary = "Audit the models of zoos"

    zoos: list[str] = Field([], max_length=20, description="None: all.")
    architectures: list[str] = Field([], max_length=50, description="Such as resnet50 or 'vgg*'; none: all.")

    def check(self, allowed: Sequence[Path]) -> None:
        for zoo in self.zoos:
            check_model(f"{zoo}:all", allowed)

    def arguments(self) -> list[str]:
        return ["audit", *_options(zoo=self.zoos, arch=self.architectures), "--json"]

    @property
    def title(self) -> str:
        architectures = first_few(self.architectures, _NAMED) or "all architectures"
        return f"Audit {architectures} of {first_few(self.zoos, _NAMED) or 'all zoos'}"


class _TwoSides(JobParameters):
    """A job about two things, each a stored run or MODEL@RUNTIME."""

    a: str = Field(description="MODEL@RUNTIME, or a stored run.")
    b: str

    def check(self, allowed: Sequence[Path]) -> None:
        check_subject(self.a, allowed)
        check_subject(self.b, allowed)


class CompareJob(_TwoSides):
    name = "compare"
    summary = "Compare two runs or models input by input"

    def arguments(self) -> list[str]:
        return ["compare", "--json", "--", self.a, self.b]

    @property
    def title(self) -> str:
        return f"Compare {self.a} and {self.b}"


class TraceJob(JobParameters):
    name = "trace"
    summary = "Say where the time of a model goes"

    model: str
    runtimes: list[str] = Field([], max_length=20, description="None: every runtime that can open the model.")
    batch: int = Field(1, ge=1, le=1024)
    level: Literal["pipeline", "model", "layer", "library", "system"] = Field("layer", description="How deep to look.")

    def check(self, allowed: Sequence[Path]) -> None:
        check_model(self.model, allowed)
        for runtime in self.runtimes:
            check_runtime(runtime)

    def arguments(self) -> list[str]:
        level = None if self.level == "layer" else self.level
        chosen = _options(runtime=self.runtimes, batch=self.batch, level=level)
        return ["trace", "run", *chosen, "--json", "--", self.model]

    @property
    def title(self) -> str:
        return f"Trace {self.model}"


class PeaksJob(JobParameters):
    name = "peaks"
    summary = "Measure this machine's peak performance"

    threads: int | None = Field(None, ge=1, le=4096, description="None: one for each core.")
    device: str = Field("cpu", pattern=r"^(cpu|cuda(:\d{1,3})?)$")

    def check(self, allowed: Sequence[Path]) -> None:
        """It reads no file."""

    def arguments(self) -> list[str]:
        return ["machine", "peaks", *_options(threads=self.threads, device=self.device), "--json"]

    @property
    def title(self) -> str:
        words = f"{self.threads} threads" if self.threads else "all threads"
        return f"Measure the peaks of {'this machine, ' + words if self.device == 'cpu' else self.device}"


class DivergeJob(_TwoSides):
    name = "diverge"
    summary = "Say at which layer two environments diverge, and why"

    data: str | None = Field(None, description="None: that of the stored runs.")
    limit: int | None = Field(None, ge=1)

    def check(self, allowed: Sequence[Path]) -> None:
        super().check(allowed)
        if self.data is not None:
            check_data(self.data, allowed)

    def arguments(self) -> list[str]:
        return ["diverge", *_options(data=self.data, limit=self.limit), "--json", "--", self.a, self.b]

    @property
    def title(self) -> str:
        return f"Diverge {self.a} and {self.b}"


class NetworkJob(JobParameters):
    name = "network"
    summary = "Read the network of a model, and count what its layers cost"

    model: str

    def check(self, allowed: Sequence[Path]) -> None:
        check_model(self.model, allowed)

    def arguments(self) -> list[str]:
        return ["cost", "--json", "--", self.model]

    @property
    def title(self) -> str:
        return f"Read the network of {self.model}"


class ExplainJob(JobParameters):
    name = "explain"
    summary = "Say which hidden default makes the gap of a trial"

    study: str = Field(min_length=1, max_length=500)
    trial: str = Field(min_length=1, max_length=500)
    frameworks: list[str] = Field([], max_length=2, description="Two sides; none: those with the largest difference.")
    replicates: int = Field(4, ge=2, le=64, description="Seeds; as many fresh ones verify.")

    def check(self, allowed: Sequence[Path]) -> None:
        """Studies and trials are looked up in the store by their names, and no file is read."""
        if len(self.frameworks) == 1:
            raise RequestError("An explanation is about two sides: name both, or none.")

    def arguments(self) -> list[str]:
        chosen = _options(with_=self.frameworks, replicates=self.replicates)
        return ["crosstrain", "explain", *chosen, "--json", "--", self.study, self.trial]

    @property
    def title(self) -> str:
        return f"Explain trial {self.trial[:100]} of {self.study[:100]}"


class QueryJob(JobParameters):
    name = "query"
    summary = "Find a model that answers like another within a budget"

    text: str = Field(min_length=1, max_length=10_000)

    def check(self, allowed: Sequence[Path]) -> None:
        """The query language names models and data of the store, and no files."""

    def arguments(self) -> list[str]:
        return ["query", "--json", "--", self.text]

    @property
    def title(self) -> str:
        return f"Query {self.text[:200]}"


class DemoJob(JobParameters):
    name = "demo"
    summary = "Evaluate the models that come with zoolens"

    task: Literal["classification", "detection"] = "classification"

    def check(self, allowed: Sequence[Path]) -> None:
        """Its models and data are built in."""

    def arguments(self) -> list[str]:
        return ["demo", self.task]

    @property
    def title(self) -> str:
        return "Evaluate the models of the demo" if self.task == "classification" else "Evaluate the demo's detectors"


class ExportJob(JobParameters):
    name = "export"
    summary = "Write a copy of the explorer with just what is named, to be sent to somebody"

    reports: list[_Id] = Field([], max_length=20, description="Ids of reports.")
    runs: list[_Id] = Field([], max_length=MOST_MODELS, description="Ids of runs.")
    compare: list[tuple[_Id, _Id]] = Field([], max_length=20, description="Pairs of ids of runs.")
    traces: list[_Id] = Field([], max_length=20, description="Ids of traces.")

    def check(self, allowed: Sequence[Path]) -> None:
        """Ids of the store, and no files. Pictures of inputs, which lie anywhere, are for the command line."""
        if not (self.reports or self.runs or self.compare or self.traces):
            raise RequestError("Nothing is named that could be exported.")

    def arguments(self) -> list[str]:
        named = _options(report=self.reports, runs=self.runs, trace=self.traces)
        pairs = [word for a, b in self.compare for word in ("--compare", a, b)]
        return ["ui", "export", *named, *pairs, "--json", "--", BUNDLE]

    @property
    def title(self) -> str:
        counts = (
            (len(self.reports), "report"), (len(self.runs), "run"), (len(self.compare), "comparison"),
            (len(self.traces), "trace"),
        )  # fmt: skip
        words = [f"{count} {noun}{'' if count == 1 else 's'}" for count, noun in counts if count]
        return f"Export {' and '.join(words)}"


KINDS: tuple[type[JobParameters], ...] = (
    EvaluateJob, AuditJob, CompareJob, TraceJob, PeaksJob, DivergeJob, NetworkJob, ExplainJob, QueryJob, DemoJob,
    ExportJob,
)  # fmt: skip
JobName = Literal[
    "evaluate", "audit", "compare", "trace", "peaks", "diverge", "network", "explain", "query", "demo", "export",
]  # fmt: skip


def _options(**chosen: str | int | bool | Sequence[str] | None) -> list[str]:
    """Options of a command, each as one argument, so that no value can be read as another option. Several values give
    an option each; True is a flag, and None or False is left out."""
    options: list[str] = []
    for keyword, value in chosen.items():
        name = f"--{keyword.rstrip('_')}"
        if value is True:
            options.append(name)
        elif isinstance(value, str | int) and value is not False:
            options.append(f"{name}={value}")
        elif value:
            options += [f"{name}={item}" for item in value]
    return options
