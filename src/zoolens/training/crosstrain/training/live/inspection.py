"""Ask processes about live objects: one for each framework, all at once."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Final

from zoolens.base.engine.pool import WorkerPool
from zoolens.base.errors import ModelError, UnexpectedError, UnknownName, WorkerError, ZoolensError
from zoolens.findings.graph.ir.model import Graph
from zoolens.findings.graph.ir.serialisation import unpack
from zoolens.findings.graph.structures.export_pool import reader
from zoolens.training.crosstrain.training.architectures import NAMES
from zoolens.training.crosstrain.training.recipe import LIBRARY_ONLY_SHIPPED
from zoolens.training.crosstrain.training.trainers.registry import inspectable_trainers
from zoolens.training.pairs.reading.side_facts import SideFacts

TIMEOUT: Final = 300.0
_SHIPPED_CHANNELS: Final = 3
_NO_ROOM: Final = ("allocate memory", "not enough memory", "OOM when allocating", "ran out of memory")


@dataclass(frozen=True)
class Question:
    """What a process is asked to build and read."""

    framework: str
    architecture: str
    input_shape: tuple[int, int, int]
    classes: int
    inspector: str  # "module:NAME" of the importer that reads the live objects of the framework
    variables: tuple[tuple[str, str], ...]  # of the process; for Keras they decide about the framework below it

    @property
    def ref(self) -> str:
        return f"{self.framework}:{self.architecture}"


@dataclass(frozen=True)
class InspectedSide:
    """`graph` is canonical, at a size where the structure shows."""

    ref: str
    graph: Graph
    facts: SideFacts


def question(ref: str, input_shape: tuple[int, int, int], classes: int) -> Question:
    """Parses "FRAMEWORK:ARCHITECTURE"; unknown names are refused before any process starts."""
    framework, colon, architecture = ref.partition(":")
    known = inspectable_trainers()
    if not colon and framework.lower() in NAMES:
        raise ModelError(f"{ref} names no framework.", hint=f"Write {next(iter(known))}:{ref}, for example.")
    if framework not in known:
        raise UnknownName("framework", framework, known)
    if not colon:
        raise ModelError(f"{ref} names no architecture.", hint=f"Write {framework}:resnet50, for example.")
    if architecture.lower() not in NAMES:
        raise UnknownName("architecture", architecture, NAMES)
    if architecture.lower() in LIBRARY_ONLY_SHIPPED and input_shape[0] != _SHIPPED_CHANNELS:
        raise ModelError(
            f"{architecture} as libraries ship it takes images of three channels, not {input_shape[0]}.",
            hint="Use another input shape.",
        )
    trainer = known[framework]
    variables = tuple(trainer.variables.items())
    return Question(framework, architecture.lower(), input_shape, classes, str(trainer.inspector), variables)


def inspected(questions: Sequence[Question], *, timeout: float = TIMEOUT) -> list[InspectedSide]:
    """One side for each question, in order. Questions to the same framework are asked one after another in one
    process, since importing a framework takes longer than most answers."""
    processes = len({(*question.variables, question.inspector) for question in questions})
    with ThreadPoolExecutor(processes) as threads, WorkerPool(stopped="The comparison was stopped.") as workers:
        coming = [threads.submit(_side, question, workers, timeout) for question in questions]
        return [future.result() for future in coming]


def _message(question: Question) -> dict[str, Any]:
    channels, *size = question.input_shape
    return {
        "importer": question.inspector,
        "subject": question.architecture,
        "size": size,
        "arguments": {"channels": channels, "classes": question.classes},
    }


def _side(question: Question, workers: WorkerPool, timeout: float) -> InspectedSide:
    kind = reader(question.inspector.partition(":")[0], None, None)
    kind = replace(kind, variables=(*kind.variables, *question.variables))
    try:
        answer = workers.ask(kind, _message(question), f"inspecting {question.ref}", timeout=timeout)
        graph = unpack(base64.b64decode(answer["graph"]))
        return InspectedSide(question.ref, graph, SideFacts.model_validate(graph.facts.get("live")))
    except (KeyError, TypeError, ValueError) as error:
        raise WorkerError(f"The process that inspected {question.ref} returned an invalid answer: {error}.") from error
    except UnexpectedError as error:
        raise _refusal(question, error) from error
    except WorkerError:
        raise
    except ZoolensError as error:
        raise _refusal(question, error) from error


def _refusal(question: Question, error: ZoolensError) -> ModelError:
    if any(words in error.message for words in _NO_ROOM):
        size = "×".join(map(str, question.input_shape[1:]))
        sentence = f"There is not enough memory to build {question.ref} for images of {size}."
        return ModelError(sentence, hint="Compare it for smaller ones.")
    return ModelError(f"{question.ref}: {error.message}", hint=error.hint)
