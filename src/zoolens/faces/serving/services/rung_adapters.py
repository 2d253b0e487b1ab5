"""Between a service and one of its models: how what clients send is fed, and what they get of its answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError, ZoolensError
from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.messages import Tensor, TensorMetadata
from zoolens.faces.serving.contracts.adapter import Adapter, Fed, Told
from zoolens.faces.serving.plane.signature import tensor_metadata
from zoolens.faces.serving.services.candidates import Candidate, declared_input
from zoolens.faces.serving.services.definition import Service
from zoolens.faces.serving.services.input_conversion import (
    Convert,
    NotConvertible,
    image_conversion,
    pixel_conversion,
    tensor_conversion,
)
from zoolens.faces.serving.services.output_conversion import (
    ScoreColumns,
    column_order,
    mapped_conversion,
    probability_conversion,
    require_raw,
)
from zoolens.faces.serving.services.sample_decoding import (
    IMAGE,
    MODALITY,
    made_up_sample,
    sample_decoder,
    sample_metadata,
)
from zoolens.faces.serving.services.text_profiles import check_writes
from zoolens.findings.measure.measured_reading import MeasuredReading, RowMemo
from zoolens.inventory.manifests.schema import MODALITIES
from zoolens.inventory.preprocess.classes import NAMES_SHOWN
from zoolens.inventory.tasks.documents import AnswerClasses, as_json
from zoolens.inventory.tasks.task import Answers

PROBABILITIES: Final = "probabilities"  # the name of the output of a service of classifiers
ANSWER: Final = "answer"  # of any other service

Feed = Callable[[Tensor], Fed]
Read = Callable[[Mapping[str, Tensor], Sequence[Any]], Told]


class RungAdapter(Adapter):
    """Converts the one input of a service, and the answers of a model to it. `joins`: see `Adapter`."""

    def __init__(self, name: str, feed: Feed, read: Read, *, quick: bool = False, joins: bool = True) -> None:
        self._input, self._feed, self._read = name, feed, read
        self.quick, self.joins = quick, joins

    def feeds(self, inputs: Mapping[str, Tensor]) -> Fed:
        return self._feed(inputs[self._input])

    def outputs(self, answers: Mapping[str, Tensor], memos: Sequence[Any]) -> Told:
        return self._read(answers, memos)


def adapter_between(service: Service, reference: Candidate, candidate: Candidate) -> Adapter:
    """NotConvertible where the candidate cannot answer for the reference."""
    if service.texts is not None:
        check_writes(service.texts, reference, candidate)
        return Adapter()
    read = (
        _class_read(service, reference, candidate) if candidate.columns else _task_read(service, reference, candidate)
    )
    (given,) = service_inputs(service, reference)
    if candidate.reading is not None and service.input != "tensor":
        feed = _sample_feed(service.input, candidate, candidate.reading)
        # Texts are filled up to the longest of a batch, and constants are fed once.
        alone = candidate.job.manifest.takes_text or len(candidate.reading.session.inputs) > 1
        return RungAdapter(given.name, feed, read, joins=not alone)
    if candidate.reading is not None and len(candidate.reading.session.inputs) > 1:
        raise ZoolensError(f"it takes {len(candidate.reading.session.inputs)} inputs, and tensors are sent for one.")
    into = _input_conversion(service, reference, candidate)
    memos = candidate.columns is None
    quick = into is None and not memos
    return RungAdapter(given.name, _converted_feed(candidate.source.name, into, memos=memos), read, quick=quick)


# --- what is fed


def _converted_feed(name: str, into: Convert | None, *, memos: bool) -> Feed:
    """Feeds a tensor that is converted as a whole. `memos`: rows have one, although there is nothing to remember."""

    def feed(tensor: Tensor) -> Fed:
        ready = tensor if into is None else into(tensor)
        return Fed({name: ready}, (RowMemo(),) * len(ready) if memos else ())

    return feed


def _input_conversion(service: Service, reference: Candidate, candidate: Candidate) -> Convert | None:
    if service.input == "tensor":
        return tensor_conversion(reference.input, reference.source, candidate.input, candidate.source)
    _require_modality(service.input, candidate)
    conversion = image_conversion if service.input == "image" else pixel_conversion
    return conversion(candidate.input, candidate.source)


def _sample_feed(sent: str, candidate: Candidate, reading: MeasuredReading) -> Feed:
    """Feeds samples that are decoded here and prepared as when the model was measured."""
    _require_modality(sent, candidate)
    decode = sample_decoder(sent, candidate.input, reading.task)

    def feed(tensor: Tensor) -> Fed:
        samples = decode(tensor)
        try:
            return Fed(*reading.prepared(samples))
        except DatasetError as error:
            # Hints of datasets are for whoever evaluates.
            raise ServingError(Refusal.INVALID, error.message) from error

    return feed


def _require_modality(sent: str, candidate: Candidate) -> None:
    modality = candidate.input.modality
    if modality != MODALITY[sent]:
        raise NotConvertible(f"it takes {MODALITIES[modality]}, and clients send {MODALITY[sent]}s")


# --- what is answered


def _class_read(service: Service, reference: Candidate, candidate: Candidate) -> Read:
    """What clients of classifiers get: probabilities of the reference's classes, or its raw output."""
    if reference.columns is None or candidate.columns is None:
        raise NotConvertible(_other_task(reference, candidate))
    back: Convert | None
    if service.output == "raw":
        order = column_order(reference.columns, candidate.columns)
        require_raw(reference.output, reference.target, candidate.output, candidate.target, ordered=order is not None)
        output, back = reference.target.name, None
    else:
        output, back = PROBABILITIES, _probabilities(reference.columns, candidate)
    target, reading = candidate.target.name, candidate.reading

    def read(answers: Mapping[str, Tensor], memos: Sequence[Any]) -> Told:
        tensor = answers[target] if reading is None or not memos else reading.raw(answers, memos)
        return Told({output: tensor if back is None else back(tensor)})

    return read


def _probabilities(columns: ScoreColumns, candidate: Candidate) -> Convert:
    """From the candidate's raw answers to probabilities of the reference's classes."""
    assert candidate.columns is not None
    try:
        order = column_order(columns, candidate.columns)
    except NotConvertible:
        known = columns.judged is not None and None not in columns.judged
        if not candidate.output.label_map or not known:
            raise
        return mapped_conversion(candidate.output, candidate.target, columns)
    return probability_conversion(candidate.output, candidate.target, order)


def _task_read(service: Service, reference: Candidate, candidate: Candidate) -> Read:
    """What clients of all other tasks get: a JSON document for each row, made by the task."""
    ours, theirs = reference.reading, candidate.reading
    if reference.columns is not None or ours is None or theirs is None or ours.task.name != theirs.task.name:
        raise NotConvertible(_other_task(reference, candidate))
    if service.output == "raw":
        raise ZoolensError(
            f"its task is {theirs.task.name}, and raw outputs are given of classifiers only.",
            hint="Leave output out, or serve the model by its name, which gives all of its raw tensors.",
        )
    if theirs.task.located and service.input == "tensor":
        modality = candidate.input.modality
        raise ZoolensError(
            f"its answers ({theirs.task.name}) are places in {MODALITIES[modality]}, which a tensor does not tell: "
            f"say input: {modality} in the definition."
        )
    _require_same_classes(ours, theirs)
    classes = ours.classes

    def read(answers: Mapping[str, Tensor], memos: Sequence[Any]) -> Told:
        kept = theirs.answers(answers, memos)
        return Told({ANSWER: _documents(theirs, kept, memos, classes)}, kept)

    return read


def _documents(reading: MeasuredReading, kept: Answers, memos: Sequence[RowMemo], classes: AnswerClasses) -> Tensor:
    documents = np.empty((len(memos), 1), object)
    for place, memo in enumerate(memos):
        sample = getattr(memo.memo, "sample", None)
        documents[place, 0] = as_json(reading.task.document(kept, place, classes, sample))
    return documents


def _other_task(reference: Candidate, candidate: Candidate) -> str:
    return f"its task is {candidate.job.manifest.task} and the reference's {reference.job.manifest.task}"


def _require_same_classes(ours: MeasuredReading, theirs: MeasuredReading) -> None:
    """Answers are kept in the classes of the dataset that both were measured on."""
    if ours.data.classes != theirs.data.classes:
        raise NotConvertible("it was measured with other names of the dataset's classes than the reference")
    known, other = ours.answerable, theirs.answerable
    if known is None or other is None or known == other:
        return
    lacking = sorted(known - other)
    places = lacking or sorted(other - known)
    named = ours.data.classes or {place: f"{place} of the dataset" for place in places}
    names = ", ".join(named[place] for place in places[:NAMES_SHOWN])
    raise NotConvertible(
        f"it has no class {names}, which the reference has"
        if lacking
        else f"it answers class {names}, which the reference does not have"
    )


# --- what clients see


def service_inputs(service: Service, reference: Candidate) -> tuple[TensorMetadata, ...]:
    if service.texts is not None:
        return (TensorMetadata("prompt", "BYTES", (1,)),)
    if service.input != "tensor":
        return (sample_metadata(service.input, reference.input),)
    return tensor_metadata([declared_input(reference.source, reference.input)], batched=True)


def service_outputs(service: Service, reference: Candidate) -> tuple[TensorMetadata, ...]:
    if service.texts is not None:
        return (TensorMetadata("text", "BYTES", (1,)),)
    if reference.columns is None:
        return (TensorMetadata(ANSWER, "BYTES", (-1, 1)),)
    if service.output == "raw":
        return tensor_metadata([reference.target], batched=True)
    return (TensorMetadata(PROBABILITIES, "FP32", (-1, len(reference.columns))),)


def sample_input(service: Service, candidate: Candidate) -> Mapping[str, NDArray[Any]] | None:
    """A made-up input whose preparation is worth timing; None where tensors are sent, which take next to no time."""
    if service.input == "tensor":
        return None
    (given,) = service_inputs(service, candidate)
    return {given.name: made_up_sample(service.input, candidate.input)}


__all__ = ["IMAGE", "RungAdapter", "adapter_between"]
