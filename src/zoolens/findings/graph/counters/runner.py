"""Runs the installed counters on one model, in a process of their own, and sets what they say beside our count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from zoolens.base import plugins
from zoolens.base.engine.policy import Rights
from zoolens.base.engine.pool import WorkerPool
from zoolens.base.engine.process import WorkerKind
from zoolens.base.engine.sandbox import trusted
from zoolens.base.errors import ZoolensError
from zoolens.findings.graph.counters.counter import KINDS, Counter
from zoolens.findings.graph.counters.subjects import CountedModel
from zoolens.findings.graph.counters.terms import MACS
from zoolens.findings.graph.structures.structure_sources import Source

TIMEOUT: Final = 600.0  # seconds for all counters of one model
_NONSENSE: Final = "its process returned an invalid answer"
_QUIET: Final = (
    ("OMP_NUM_THREADS", "1"),
    ("TF_CPP_MIN_LOG_LEVEL", "3"),
    ("CUDA_VISIBLE_DEVICES", "-1"),
    ("KERAS_BACKEND", "tensorflow"),  # whose profiler is one of the counters
)


@dataclass(frozen=True)
class Count:
    """What one counter says, explained: its terms add up to the value but for the residual. Or why it says nothing."""

    counter: Counter
    value: float | None = None
    terms: Mapping[str, int] = field(default_factory=dict)
    reason: str | None = None

    @property
    def residual(self) -> float:
        if self.value is None:
            return 0.0
        return self.value - sum(self.terms.values())

    @property
    def differences(self) -> dict[str, int]:
        """What makes it differ from our multiply-accumulates."""
        return {term: amount for term, amount in self.terms.items() if term != MACS}


def all_counters() -> list[Counter]:
    """Returns the counters of this package and of plug-ins."""
    return [plugins.load(plugins.COUNTERS, name) for name in plugins.names(plugins.COUNTERS)]


def run_counters(source: Source, counters: Sequence[Counter] | None = None) -> list[Count]:
    """Every counter that can look at the model and is installed is run; the others say why not."""
    chosen = all_counters() if counters is None else list(counters)
    subject = CountedModel(source.plugin, source.request)
    fitting = [counter for counter in chosen if counter.version and counter.kind == subject.kind]
    counted = zip(fitting, _counted(source, fitting), strict=True)
    counts = {counter.name: count for counter, count in counted}
    return [counts.get(counter.name) or Count(counter, reason=_why_not(counter)) for counter in chosen]


def _why_not(counter: Counter) -> str:
    return f"for {KINDS.get(counter.kind, counter.kind)} only" if counter.version else "not installed"


def _counted(source: Source, counters: Sequence[Counter]) -> Iterator[Count]:
    """A counter that takes the process with it is a reason of its own; the others are run in a new one."""
    left = list(counters)
    while left:
        answers, trouble = _run(source, left)
        for counter, answer in zip(left, answers, strict=False):
            yield Count(counter, answer.get("value"), answer.get("terms", {}), answer.get("error"))
        left = left[len(answers) :]
        if left:
            yield Count(left.pop(0), reason=trouble)


def _run(source: Source, counters: Sequence[Counter]) -> tuple[list[dict[str, Any]], str]:
    """What the counters say, as far as they came, and why they came no further."""
    answers: list[dict[str, Any]] = []
    with WorkerPool() as workers:
        try:
            workers.ask(
                _worker(source),
                _job(source, counters),
                f"counting {Path(source.request.subject).name}",
                timeout=TIMEOUT,
                report=lambda answer: answers.append(_checked(answer)),
            )
        except ZoolensError as error:
            return answers, str(error)
    return answers, _NONSENSE


def _checked(answer: Any) -> dict[str, Any]:
    """The process has read a stranger's file: what is no answer is an error of its counter."""
    try:
        value = answer.get("value")
        terms = dict(answer.get("terms", {}))
        error = answer.get("error")
    except (ValueError, TypeError, AttributeError):
        return {"error": _NONSENSE}
    if not all(isinstance(number, int | float) for number in (0 if value is None else value, *terms.values())):
        return {"error": _NONSENSE}
    return {"value": value, "terms": terms, "error": None if error is None else str(error)}


def _worker(source: Source) -> WorkerKind:
    """Sandboxed, unless the user trusts the model."""
    request = source.request
    files = (request.subject, *request.files.values()) if source.plugin in plugins.names(plugins.GRAPH_FILES) else ()
    return WorkerKind(
        "counting process",
        "zoolens.findings.graph.counters.counter_worker",
        source.point.partition(":")[0],
        variables=_QUIET,
        rights=None if trusted() else Rights(files=files),
        own_folder=True,
    )


def _job(source: Source, counters: Sequence[Counter]) -> dict[str, Any]:
    registered = plugins.registered(plugins.COUNTERS)
    return {
        "plugin": source.plugin,
        "importer": source.point,
        "request": source.request.as_message(),
        "counters": [registered[counter.name].value for counter in counters],
    }
