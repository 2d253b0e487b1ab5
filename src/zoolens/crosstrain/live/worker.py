"""Ask processes about live objects: one for each side, both at once, since each framework is chosen for a process."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from zoolens.crosstrain.architectures import NAMES
from zoolens.crosstrain.diff.facts import SideFacts
from zoolens.crosstrain.recipe import LIBRARY_ONLY_SHIPPED
from zoolens.errors import ModelError, UnknownName, WorkerError
from zoolens.graph.model import Graph
from zoolens.graph.serialise import unpack
from zoolens.graph.workerprocess import WorkerProcess

TIMEOUT: Final = 300.0
# framework -> importer of its live objects; "keras" is Keras on the backend that most have
IMPORTERS: Final = {
    "torch": "zoolens.crosstrain.live.torch:TORCH",
    "keras": "zoolens.crosstrain.live.keras:TENSORFLOW",
    "tensorflow": "zoolens.crosstrain.live.keras:TENSORFLOW",
    "jax": "zoolens.crosstrain.live.keras:JAX",
}
_SHIPPED_CHANNELS: Final = 3
_NO_ROOM: Final = ("allocate memory", "not enough memory", "OOM when allocating")


@dataclass(frozen=True)
class Question:
    framework: str
    architecture: str
    input_shape: tuple[int, int, int]
    classes: int

    @property
    def ref(self) -> str:
        return f"{self.framework}:{self.architecture}"


@dataclass(frozen=True)
class Side:
    """`graph` is canonical, at a size where the structure shows."""

    ref: str
    graph: Graph
    facts: SideFacts


def question(ref: str, input_shape: tuple[int, int, int], classes: int) -> Question:
    """From "FRAMEWORK:ARCHITECTURE"; unknown names are refused before any process starts."""
    framework, colon, architecture = ref.partition(":")
    if not colon and framework.lower() in NAMES:
        raise ModelError(f"{ref} names no framework.", hint=f"Write torch:{ref} or keras:{ref}, for example.")
    if framework not in IMPORTERS:
        raise UnknownName("framework", framework, IMPORTERS)
    if not colon:
        raise ModelError(f"{ref} names no architecture.", hint=f"Write {framework}:resnet50, for example.")
    if architecture.lower() not in NAMES:
        raise UnknownName("architecture", architecture, NAMES)
    if architecture.lower() in LIBRARY_ONLY_SHIPPED and input_shape[0] != _SHIPPED_CHANNELS:
        raise ModelError(
            f"{architecture} as libraries ship it takes images of three channels, not {input_shape[0]}.",
            hint="Use another input shape.",
        )
    return Question(framework, architecture.lower(), input_shape, classes)


def inspected(questions: Sequence[Question], *, timeout: float = TIMEOUT) -> list[Side]:
    """One side for each question, in order."""
    workers = [WorkerProcess(IMPORTERS[one.framework].partition(":")[0]) for one in questions]
    with ThreadPoolExecutor(len(workers)) as pool:
        asking = [pool.submit(_asked, *pair, timeout) for pair in zip(questions, workers, strict=True)]
        try:
            return [one.result() for one in asking]
        finally:
            for worker in workers:
                worker.interrupt()  # also when the other side failed or the user has had enough


def _asked(question: Question, worker: WorkerProcess, timeout: float) -> Side:
    try:
        return _side(question, worker.ask(_message(question), timeout))
    finally:
        worker.stop()


def _message(question: Question) -> dict[str, Any]:
    channels, *size = question.input_shape
    return {
        "importer": IMPORTERS[question.framework],
        "subject": question.architecture,
        "size": size,
        "arguments": {"channels": channels, "classes": question.classes},
    }


def _side(question: Question, answer: dict[str, Any]) -> Side:
    if "graph" not in answer:
        if any(words in str(answer.get("error")) for words in _NO_ROOM):
            size = "×".join(map(str, question.input_shape[1:]))
            said = f"There is not enough memory to build {question.ref} for images of {size}."
            raise ModelError(said, hint="Compare it for smaller ones.")
        raise ModelError(f"{question.ref}: {answer.get('error')}", hint=answer.get("hint"))
    graph = unpack(base64.b64decode(answer["graph"]))
    try:
        return Side(question.ref, graph, SideFacts.model_validate(graph.facts.get("live")))
    except ValidationError as error:
        raise WorkerError(f"The process that inspected {question.ref} answered nonsense: {error}.") from error
