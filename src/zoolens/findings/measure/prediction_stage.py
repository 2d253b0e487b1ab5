"""The first stage of a run: the model answers every input, and its answers are kept in parts."""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import islice
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ModelError, StoreError, ZoolensError
from zoolens.base.store.records import Observation
from zoolens.findings.measure.class_order import AS_NAMED
from zoolens.findings.measure.input_checks import (
    COPIES,
    QUANTISED_DATA,
    refuse_not_finite,
    said_of_copies,
    taken_for_real,
)
from zoolens.findings.measure.judged_output import JudgedOutput, Raw
from zoolens.findings.measure.prediction_buffer import AnswerBatch, PredictionBuffer
from zoolens.findings.measure.predictions import KIND, numbers
from zoolens.findings.measure.stages import Context
from zoolens.findings.measure.subject import Subject
from zoolens.findings.measure.suspicions import ALL_THE_SAME, MIXES_ROWS, ROW_SUM, SUMS_TO_ONE
from zoolens.inventory.datasets.dataset import Dataset, Sample
from zoolens.inventory.datasets.loader import Batch as Inputs
from zoolens.inventory.datasets.loader import batches
from zoolens.inventory.datasets.read_ahead import ReadAhead
from zoolens.inventory.datasets.text_dataset import text_values
from zoolens.inventory.datasets.truth import Truth
from zoolens.inventory.preprocess.outputs import ANOTHER_OUTPUT
from zoolens.inventory.preprocess.text import TextFacts, joined_facts
from zoolens.inventory.runtimes.outputs.noise_probe import is_one, row_sum, rows_differ, sums_to_one
from zoolens.inventory.runtimes.runtime import TensorSpec, shape_text
from zoolens.inventory.tasks.task import task_named

SECONDS_BETWEEN_PARTS = float(os.environ.get("ZOOLENS_PART_SECONDS", "2"))  # the most work a kill -9 can cost
ACCURACY_BATCH = 32
TEXTS: Final = "texts"  # in run.resolved: how many texts were cut, and how many tokens were unknown
_FIRST_ANSWER: Final = "first_answer"  # among the facts of a run while it lasts
PARTS: Final = "parts"  # of an output in run.resolved: the names of its tensors by role
GIVEN: Final = "given"  # of an output in run.resolved: how many numbers the network gives for each input
_AMONG: Final = 4  # inputs of a batch, to see whether they change each other's answers
JUDGED_TOGETHER = 512  # inputs
BATCHES_HANDED_OVER = 16  # to a worker at once, at the most; fewer of those that have
BYTES_HANDED_OVER = 1 << 20  # or take
SECONDS_HANDED_OVER = 0.05


def predict_all(context: Context) -> list[Observation]:
    """Run the model over the data, writing a part every few seconds, starting where the last run was stopped.

    Part number i always starts where the parts before it end. Should another process be at work on the same run and
    have written a part first, ours is dropped and we go on behind its parts: nothing is doubled, nothing left out.
    """
    size = len(context.dataset)
    context.progress.begin(context.job.title, "predictions", size)
    while True:
        parts = context.store.parts(context.run.id, KIND)
        done = sum(part.rows for part in parts)
        context.progress.advance(done)
        # The answers of before, or of another process, are not seen here.
        if done:
            context.facts[ALL_THE_SAME] = False
        if done >= size or _predict_from(context, done, len(parts)):
            break
        context.progress.begin(context.job.title, "predictions", size)
    context.progress.end()
    context.facts[MIXES_ROWS] = _mixes_rows(context)
    for fact in (SUMS_TO_ONE, ALL_THE_SAME, MIXES_ROWS):
        if context.facts.get(fact):
            context.store.set_resolved(context.run.id, {fact: True})
    if context.facts.get(ROW_SUM):
        context.store.set_resolved(context.run.id, {ROW_SUM: context.facts[ROW_SUM]})
    if said := _said_of_quantised(context):
        context.store.set_resolved(context.run.id, {QUANTISED_DATA: said})
    if said := _said_of_copies(context):
        context.store.set_resolved(context.run.id, {COPIES: said})
    if context.subject().reads_records:
        context.store.set_resolved(context.run.id, {TEXTS: asdict(_text_facts(context))})
    # The answers are facts in bulk; figures come from the metrics.
    return []


def _mixes_rows(context: Context) -> bool:
    """Whether the first input is answered otherwise alone than among others."""
    subject, dataset = context.subject(), context.dataset
    if not subject.outputs or subject.fixed_batch is not None or len(dataset) < _AMONG:
        return False
    batch = subject.inputs(dataset, _AMONG)
    try:
        together, alone = (_tensors(subject.predict(some)[0]) for some in (batch, batch[:1]))
    except ZoolensError:
        # The answers that count are there; a model may refuse other batches.
        return False
    pairs = zip(together, alone, strict=True)
    return any(many.dtype.kind == "f" and rows_differ(many[:1], one) for many, one in pairs)


def _tensors(raw: Raw) -> tuple[Any, ...]:
    return tuple(raw.values()) if isinstance(raw, Mapping) else (raw,)


def _said_of_copies(context: Context) -> str | None:
    # One at a time: answers that are vectors are large.
    parts = context.store.iter_tables(context.run.id, KIND)
    try:
        digests = [np.array(numbers(part["digest"])) for part in parts]
    except StoreError:
        # Whoever needs the answers says that a part is damaged.
        return None
    return said_of_copies(context.dataset, np.concatenate(digests)) if digests else None


def _said_of_quantised(context: Context) -> str | None:
    subject, manifest = context.subject(), context.job.manifest
    if subject.has_several_inputs or (manifest.code and manifest.code.preprocess):
        return None
    return taken_for_real(manifest.inputs[0], subject.input, context.dataset)


def _text_facts(context: Context) -> TextFacts:
    """Gathers the facts of all texts, also of those that were answered before the run was stopped."""
    subject, dataset = context.subject(), context.dataset
    if subject.text is not None:
        return joined_facts([subject.text.facts(_values(dataset, lambda sample: sample.value.item()))])
    several = subject.several
    assert several is not None  # a model that takes text has been asked
    return joined_facts(
        [text.facts(_values(dataset, partial(several.text_part, name=name))) for name, text in several.texts.items()]
    )


def _values(dataset: Dataset, part: Callable[[Sample], Any]) -> Iterator[NDArray[Any]]:
    """The texts of all samples, many at a time."""
    for start in range(0, len(dataset), JUDGED_TOGETHER):
        indices = range(start, min(start + JUDGED_TOGETHER, len(dataset)))
        yield text_values([part(dataset.read(index)) for index in indices])


def predict_slice(context: Context, start: int, stop: int) -> None:
    """Predict the inputs from `start` to `stop`, where a batch ends, into parts of a run that has none."""
    context.progress.begin(context.job.title, f"predictions from {start:,} on", stop - start)
    _predict_from(context, start, 0, stop)
    context.progress.end()


def batch_size(subject: Subject) -> int:
    """How many inputs are answered at a time."""
    return subject.fixed_batch or min(ACCURACY_BATCH, subject.session.largest_batch or ACCURACY_BATCH)


def _predict_from(context: Context, start: int, part: int, stop: int | None = None) -> bool:
    """Predict all inputs from `start` on, or those before `stop`. False: another process wrote the same part before
    us."""
    store = context.store
    with ReadAhead(context.dataset, start) as dataset:
        subject = context.subject()
    subject.check_answers()
    size = batch_size(subject)
    waiting: list[_Answered] = []
    buffer, written = PredictionBuffer(start, [output.task for output in subject.outputs]), time.monotonic()
    # Tokens are made elsewhere, many texts at once.
    workers = 1 if subject.reads_records else context.decode_threads
    inputs = batches(dataset, subject.preparation, size, start=start, workers=workers)
    wanted = inputs if stop is None else islice(inputs, -(-(stop - start) // size))
    for batch, answers in answered_batches(subject, wanted):
        waiting.append((batch, answers))
        context.progress.advance(len(batch.labels))
        due = time.monotonic() - written > SECONDS_BETWEEN_PARTS
        # Tensors that are read by role may differ in shape from batch to batch.
        if due or subject.has_parts or len(waiting) * size >= JUDGED_TOGETHER:
            _judge(context, buffer, waiting)
        if due:
            if not store.add_part(context.run.id, KIND, part, buffer.take()):
                return False
            part, written = part + 1, time.monotonic()
    _judge(context, buffer, waiting)
    return not buffer.rows or store.add_part(context.run.id, KIND, part, buffer.take())


_Answered = tuple[Inputs, tuple[Raw, ...]]
_Waiting = tuple[list[Inputs], Callable[[], list[tuple[Raw, ...]]]]


def _judge(context: Context, buffer: PredictionBuffer, waiting: list[_Answered]) -> None:
    """Raw answers become rows of the table, several batches at once: small models answer faster than numpy starts."""
    if not waiting:
        return
    outputs = context.subject().outputs
    raw = [_together(output, [answers[place] for _, answers in waiting]) for place, output in enumerate(outputs)]
    ids = [input_id for batch, _ in waiting for input_id in batch.ids]
    labels = np.concatenate([batch.labels for batch, _ in waiting])
    memos = [memo for batch, _ in waiting for memo in batch.memos]
    try:
        answers = [
            AnswerBatch(output.answers(values, memos), values) for output, values in zip(outputs, raw, strict=True)
        ]
        _check_widths(context, outputs, answers)
        buffer.add(ids, labels, answers, _truths(context, [batch.indices for batch, _ in waiting]))
    except ModelError:
        refuse_not_finite([(batch.ids, batch.array) for batch, _ in waiting])
        raise
    waiting.clear()
    context.facts[ALL_THE_SAME] = context.facts.get(ALL_THE_SAME, True) and _repeats_first(context, raw)
    _look_at_sums(context, raw[0], outputs[0].tensor)
    if "outputs" not in context.facts:
        described = [_described(output, answer) for output, answer in zip(outputs, answers, strict=True)]
        context.facts["outputs"] = described
        context.store.set_resolved(context.run.id, {"outputs": described, AS_NAMED: True})


def _truths(context: Context, indices: Sequence[NDArray[np.int64]]) -> list[Truth | None] | None:
    """What the dataset says is right of these inputs; None: nothing of the kind that judges the main output."""
    if not task_named(context.subject().outputs[0].task).judged_by(context.dataset.truth_kind):
        return None
    return [context.dataset.truth(int(index)) for index in np.concatenate(indices)]


def _check_widths(context: Context, outputs: Sequence[JudgedOutput], answers: Sequence[AnswerBatch]) -> None:
    before = context.facts.get("outputs") or context.run.resolved.get("outputs") or ()
    for output, answer, known in zip(outputs, answers, before, strict=False):
        width = _width(answer)
        if known.get("width") not in (None, width):
            raise _uneven(output, f"{known['width']:,} numbers", f"{width:,}")


def _width(answer: AnswerBatch) -> int | None:
    """How many classes or numbers an answer has; None: that differs from input to input."""
    return None if isinstance(answer.raw, Mapping) else int(answer.values.shape[1])


def _described(output: JudgedOutput, answer: AnswerBatch) -> dict[str, Any]:
    about = {"name": output.tensor.name, "task": output.task, "width": _width(answer)}
    if isinstance(answer.raw, Mapping):
        return {**about, PARTS: {role: tensor.name for role, tensor in output.parts.items()}}
    return {**about, GIVEN: int(answer.raw[:1].size)}


def _look_at_sums(context: Context, raw: Raw, tensor: TensorSpec) -> None:
    """Whether rows of scores add up to one, or to another number, all of them."""
    # Then rows that add up to one are no news, or there are no rows of scores.
    if isinstance(raw, Mapping) or context.subject().session.postprocessed:
        context.facts |= {SUMS_TO_ONE: False, ROW_SUM: None}
        return
    seen = context.facts.get(SUMS_TO_ONE, context.run.resolved.get(SUMS_TO_ONE, True))
    context.facts[SUMS_TO_ONE] = seen and sums_to_one(raw, tensor)
    context.facts[ROW_SUM] = _common_sum(context, raw, tensor)


def _common_sum(context: Context, raw: Any, tensor: TensorSpec) -> float | None:
    """The sum, other than 1, that the rows of all batches have so far. Where no number is above 1, it is not that of
    percentages and the like."""
    total = row_sum(raw, tensor)
    if total is None or is_one(total) or float(raw.max()) <= 1:
        return None
    before: float | None = context.facts.get(ROW_SUM, total)
    same = before is not None and math.isclose(total, before, rel_tol=1e-3)
    return before if same else None


def _repeats_first(context: Context, raw: Sequence[Raw]) -> bool:
    """Whether all of these inputs are answered, in every output, like the first input of all."""
    tensors = [tensor for values in raw for tensor in _tensors(values)]
    first = context.facts.setdefault(_FIRST_ANSWER, [values[:1] for values in tensors])
    pairs = zip(tensors, first, strict=True)
    return all(values.shape[1:] == one.shape[1:] and bool((values == one).all()) for values, one in pairs)


def _together(output: JudgedOutput, answers: Sequence[Any]) -> Any:
    """The answers of several batches in one array; those that are read by role come one batch at a time."""
    if output.read_parts is not None:
        (only,) = answers
        return only
    shapes = list(dict.fromkeys(answer.shape[1:] for answer in answers))
    if len(shapes) > 1:
        raise _uneven(output, *map(shape_text, shapes[:2]))
    return np.concatenate(answers)


def _uneven(output: JudgedOutput, some: str, others: str) -> ModelError:
    return ModelError(
        f"The output {output.tensor.name} gives {some} for some inputs and {others} for others: answers of different "
        "lengths cannot be kept beside each other.",
        hint=f"Detections and scores of single tokens are such answers. {ANOTHER_OUTPUT}",
    )


def answered_batches(subject: Subject, inputs: Iterable[Inputs]) -> Iterator[_Answered]:
    """Batches and their answers. While a worker or a device runs some batches, the next are prepared and the last ones
    are judged.

    Small batches are handed over several at a time, since waking a worker takes as long as a small model does.
    """
    waiting: deque[_Waiting] = deque()
    for group in _handed_over(subject, inputs):
        done = _answered(waiting.popleft()) if len(waiting) == subject.session.in_flight else ()
        begun = subject.begin_predict([_padded(batch.array, subject.fixed_batch) for batch in group])
        waiting.append((group, begun))
        yield from done
    while waiting:
        yield from _answered(waiting.popleft())


def _answered(waiting: _Waiting) -> Iterator[_Answered]:
    """Wait for the answers to some batches."""
    group, finish = waiting
    return _cut(group, finish())


def _handed_over(subject: Subject, inputs: Iterable[Inputs]) -> Iterator[list[Inputs]]:
    """One batch at a time in our own process; for a worker more of them as long as they are small and done at once."""
    if not subject.session.elsewhere:
        yield from ([batch] for batch in inputs)
        return
    group: list[Inputs] = []
    most = 1
    for batch in inputs:
        group.append(batch)
        if len(group) >= most or sum(waiting.array.nbytes for waiting in group) >= BYTES_HANDED_OVER:
            yield group
            quick = (subject.session.last_predict_seconds or math.inf) < SECONDS_HANDED_OVER
            most = min(2 * most, BATCHES_HANDED_OVER) if quick else max(1, most // 2)
            group = []
    if group:
        yield group


def _padded(array: Any, fixed: int | None) -> Any:
    """The last batch of a model with a fixed batch size is filled up with its last input."""
    missing = (fixed or len(array)) - len(array)
    return array if missing <= 0 else np.concatenate([array, np.repeat(array[-1:], missing, axis=0)])


def _cut(group: Sequence[Inputs], answers: Sequence[tuple[Raw, ...]]) -> Iterator[_Answered]:
    """Each batch with its answers; answers to inputs that only fill up a batch are cut off."""
    for batch, answered in zip(group, answers, strict=True):
        yield batch, tuple(_first_rows(answer, len(batch.array)) for answer in answered)


def _first_rows(raw: Raw, count: int) -> Raw:
    return {role: tensor[:count] for role, tensor in raw.items()} if isinstance(raw, Mapping) else raw[:count]
