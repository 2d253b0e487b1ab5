"""An opened model with the manifest applied to it: decoded inputs go in, and what its tasks keep comes out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError, ManifestError, ModelError
from zoolens.findings.measure.class_order import class_order, in_data_order
from zoolens.findings.measure.jobs import Job
from zoolens.findings.measure.judged_output import JudgedOutput, Raw, read_by_parts
from zoolens.findings.measure.several_inputs import (
    SeveralInputs,
    lacks_batch_axis,
    sample_fields,
    several_inputs,
)
from zoolens.findings.measure.text_choices import answered_choices
from zoolens.findings.measure.text_generation import Writer, answered_prompts
from zoolens.findings.measure.text_pairs import beside, has_pairs, reading_both
from zoolens.inventory.datasets.choices import CHOICE
from zoolens.inventory.datasets.dataset import UNLABELLED, Dataset, Sample
from zoolens.inventory.datasets.loader import Preparation
from zoolens.inventory.datasets.prompts import PROMPT
from zoolens.inventory.datasets.sound.waveform import RECORD
from zoolens.inventory.datasets.text_dataset import Prompt
from zoolens.inventory.manifests.schema import MODALITIES, Input, Output
from zoolens.inventory.manifests.schema_texts import NextTokens
from zoolens.inventory.manifests.tokenizer import ROLE as TOKENIZER
from zoolens.inventory.preprocess.classlookup import class_translation, find_outputs
from zoolens.inventory.preprocess.outputs import build_scores, labels_of
from zoolens.inventory.preprocess.pipeline import build_prepare
from zoolens.inventory.preprocess.sound_feeds import SoundFeeds
from zoolens.inventory.preprocess.text import PrepareText, check_vocabulary
from zoolens.inventory.runtimes.isolation.isolated_session import IsolatedSession
from zoolens.inventory.runtimes.outputs.noise_probe import made_up_feeds
from zoolens.inventory.runtimes.runtime import Session, TensorSpec
from zoolens.inventory.tasks.generation import Generation
from zoolens.inventory.tasks.output_setup import OutputSetup, named_tensor, tensors_by_role
from zoolens.inventory.tasks.task import task_named

Array = NDArray[Any]
Lookup = Callable[[int], dict[int, int] | None]


@dataclass(frozen=True)
class Subject:
    job: Job
    session: Session
    input: TensorSpec
    outputs: tuple[JudgedOutput, ...]  # as the manifest declares them, the main one first
    preparation: Preparation
    text: PrepareText | None = None  # of a model that takes text
    sound: SoundFeeds | None = None  # of a model that takes sounds
    several: SeveralInputs | None = None  # of a model with several inputs that the dataset and the manifest fill
    alone: bool = False  # its inputs have no batch axis: one sample is run at a time
    choosing: bool = False  # samples are texts with choices, each of which is a call
    writing: Writer | None = None  # samples are prompts, which are continued token by token
    extents: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # shapes of made-up inputs

    @property
    def prepare(self) -> Callable[[Sample], Array]:
        return self.preparation.one

    @property
    def has_parts(self) -> bool:
        """Whether an output is read from several tensors, and may differ in shape from input to input."""
        return any(output.read_parts is not None for output in self.outputs)

    def memos(self, samples: Sequence[Sample]) -> tuple[Any, ...]:
        """What reading the answers needs to know of each sample."""
        memo = self.preparation.memo
        return tuple(None if memo is None else memo(sample) for sample in samples)

    @property
    def fixed_batch(self) -> int | None:
        """The batch size the file was exported with, if it was; 1 for texts that are not filled up to one length."""
        if self.alone or self.preparation.uneven or self._unfilled:
            return 1
        return self.input.shape[0] if self.input.shape else None

    @property
    def _unfilled(self) -> bool:
        """Whether texts are not filled up to one length."""
        alone = self.text is not None and self.text.declared.padding == "none"
        return alone or (self.several is not None and self.several.alone)

    @property
    def reads_records(self) -> bool:
        """Whether reading the answers needs to know what was fed: of texts, how long each is."""
        return self.text is not None or (self.several is not None and bool(self.several.texts))

    def predict(self, batch: Array) -> tuple[Raw, ...]:
        """Raw answers of one batch, for each output."""
        if self.sound is not None and self.sound.windowed:
            return self.raw_answers(self.sound.answered(self.session, batch), batch)
        if self.text is not None and self.writing is not None:
            return (answered_prompts(self.text, self.session, batch, self.writing),)
        if self.text is not None and self.choosing:
            return answered_choices(self.text, batch, self._answers_to)
        return beside([self._answers_to(call) for call in self._calls(batch)])

    def _answers_to(self, call: Array) -> tuple[Raw, ...]:
        return self.raw_answers(self.session.predict(self.named_inputs(call)), call)

    def begin_predict(self, batches: Sequence[Array]) -> Callable[[], list[tuple[Raw, ...]]]:
        """Hand batches to the model; what is given back waits for their answers. In our own process it waits here."""
        if self.choosing or self.writing is not None or (self.sound is not None and self.sound.windowed):
            # Each is many calls already, of which one may need the answer to the one before. Of the logits for a
            # choice, most are not needed and can be gone before the next ones come.
            answers = [self.predict(batch) for batch in batches]
            return lambda: answers
        calls = [self._calls(batch) for batch in batches]
        finish = self.session.begin_predict([self.named_inputs(half) for halves in calls for half in halves])

        def finished() -> list[tuple[Raw, ...]]:
            answers = iter(finish())
            return [beside([self.raw_answers(next(answers), half) for half in halves]) for halves in calls]

        return finished

    def _calls(self, batch: Array) -> list[Array]:
        """What the model is given one after the other for a batch: of pairs whose texts it takes one by one, two."""
        return [batch] if self.text is None else self.text.halves(batch)

    def named_inputs(self, batch: Array) -> dict[str, Array]:
        """What is fed for a batch: of records, a field for each input."""
        if self.text is not None and batch.dtype.names is not None:
            return self.text.feeds(batch)
        if self.sound is not None:
            return self.sound.first(batch)
        feeds = {self.input.name: batch} if self.several is None else self.several.feeds(batch)
        return {name: self._as_taken(name, array) for name, array in feeds.items()} if self.alone else feeds

    def _as_taken(self, name: str, array: Array) -> Array:
        """The only sample of a batch, for an input without a batch axis; constants are as they are."""
        if self.several is not None and name in self.several.constants:
            return array
        axes = next(len(spec.shape) for spec in self.session.inputs if spec.name == name)
        return array if array.ndim == axes else array[0]

    def raw_answers(self, answered: Mapping[str, Array], batch: Array) -> tuple[Raw, ...]:
        """What each output has of the tensors that were answered to a prepared batch."""
        if self.alone:
            # An output may have kept an axis of one. Only the file says so: an answer may have one row by chance.
            kept = {spec.name for spec in self.session.outputs if spec.shape[:1] == (1,)}
            answered = {name: value if name in kept else value[None] for name, value in answered.items()}
        answers = tuple(output.rows(answered, len(batch)) for output in self.outputs)
        if self.text is not None:
            return tuple(self._pooled(self.text, answers, batch))
        if self.several is not None and len(self.several.texts) == 1:
            ((name, text),) = self.several.texts.items()
            return tuple(self._pooled(text, answers, batch[name]))
        return answers

    def _pooled(self, text: PrepareText, answers: Sequence[Raw], batch: Array) -> Iterator[Raw]:
        for output, answer in zip(self.outputs, answers, strict=True):
            if isinstance(answer, Mapping):
                yield answer
            else:
                yield text.pooled(answer, batch, output.pooling, output.tensor.name)

    @property
    def has_several_inputs(self) -> bool:
        """Whether samples are records with a field for each input, as texts always are; sounds fill all inputs too."""
        return len(self.session.inputs) != 1 or self.text is not None or self.sound is not None

    def needs_made_up(self, dataset: Dataset) -> bool:
        """Whether the dataset does not give what it is timed with."""
        return not len(dataset) or (self.has_several_inputs and not self.outputs)

    def check_answers(self) -> None:
        """Refuse to judge a model that was not given all its inputs."""
        if (self.has_several_inputs or len(self.job.manifest.inputs) != 1) and not self.outputs:
            names = [spec.name for spec in self.session.inputs]
            ref, listed = self.job.entry.ref, ", ".join(names)
            raise ModelError(
                f"{ref} has {len(names)} inputs ({listed}), but datasets give one per example.",
                hint=f"Give arrays of these names, --data 'npz:FILE?x={','.join(names)}', or the columns of a table, "
                "--data 'records:FILE.csv?images=…&texts=…&numbers=…'; declare those that no sample has with modality: "
                "constant or size; or time it without its answers (--no-accuracy).",
            )

    def feeds(self, dataset: Dataset, batch: int) -> dict[str, Array]:
        """What latency is measured with: real inputs, or made-up ones for a model with several, or without data."""
        if self.has_several_inputs and self.fixed_batch not in (None, batch):
            unfilled = "The manifest declares padding: none, so that texts are run one at a time."
            reason = unfilled if self._unfilled else None
            raise ModelError(reason or f"The model takes batches of {self.fixed_batch} only.")
        if not self.needs_made_up(dataset):
            return self.named_inputs(self.inputs(dataset, batch))
        if self.has_several_inputs:
            return made_up_feeds(self.session.inputs, batch, self.extents)
        declared = (None, *self.job.manifest.inputs[0].shape[1:])
        return made_up_feeds([self.input.for_any_batch.with_extents(declared)], batch, self.extents)

    def inputs(self, dataset: Dataset, batch: int) -> Array:
        """One real batch, ready to be fed: what latency is measured with. Of inputs that differ in shape, the first."""
        others = 1 if self.preparation.uneven else len(dataset)
        wanted = [self.prepare(dataset.read(index % others)) for index in range(batch)]
        return np.ascontiguousarray(np.stack(wanted))


def judge_main_output(job: Job, session: Session, dataset: Dataset) -> JudgedOutput:
    """How the main output of a model is read, whatever its inputs are: with classes in the dataset's order."""
    return _judged(job, session, 0, dataset)


def prepare_subject(job: Job, session: Session, dataset: Dataset) -> Subject:
    manifest = job.manifest
    source = session.inputs[0]
    if manifest.takes_text:
        return _text_subject(job, session, dataset)
    if manifest.takes_sound:
        return _sound_subject(job, session, dataset)
    if sample_fields(dataset) == RECORD:
        raise DatasetError(
            f"The samples are sounds, but {job.entry.ref} takes {MODALITIES[manifest.inputs[0].modality]}.",
            hint="Declare modality: sound in its manifest, or give other data.",
        )
    many = len(session.inputs) != 1 or len(manifest.inputs) != 1 or sample_fields(dataset) is not None
    several = several_inputs(job, session, dataset) if many else None
    # Can be timed, not judged: see `check_answers`.
    if many and several is None:
        return Subject(job, session, source, (), Preparation(lambda sample: sample.value))
    if several is not None:
        source = named_tensor(session.inputs, _first_tensor(manifest.inputs[0]), "input", 0)
    preparation = _prepare(job, session, source) if several is None else several.preparation()
    outputs = tuple(_judged(job, session, place, dataset) for place in range(len(manifest.outputs)))
    return Subject(
        job,
        session,
        source,
        outputs,
        _without_needless_memo(preparation, outputs),
        several=several,
        alone=lacks_batch_axis(manifest.inputs[0], source),
    )


def _first_tensor(declared: Input) -> str | None:
    return declared.name if declared.tokenizer is None else declared.tokenizer.tensors.input_ids


def _without_needless_memo(preparation: Preparation, outputs: Sequence[JudgedOutput]) -> Preparation:
    """Most answers are read without knowing the sample."""
    located = any(task_named(output.task).located for output in outputs)
    return preparation if located else replace(preparation, memo=None)


def _text_subject(job: Job, session: Session, dataset: Dataset) -> Subject:
    tasks = [task_named(output.task) for output in job.manifest.outputs]
    # Vectors of two texts can be compared; any other answer is to a text alone.
    each = all(task.directional for task in tasks)
    check_vocabulary(job.manifest.inputs[0], job.files(), session.inputs)
    text = PrepareText(job.manifest.inputs[0], session.inputs, job.paths[TOKENIZER], each=each)
    outputs = tuple(_judged(job, session, place, dataset) for place in range(len(job.manifest.outputs)))
    if each and has_pairs(dataset):
        outputs = tuple(replace(output, read=reading_both(output.read)) for output in outputs)
    choosing = dataset.truth_kind == CHOICE
    if choosing and any(task.truth != CHOICE for task in tasks):
        raise DatasetError(
            f"The samples are texts with choices, but {job.entry.ref} does {tasks[0].name}.",
            hint="Models of the next token (task: language-model) choose.",
        )
    writing = _writer(job, dataset) if dataset.truth_kind == PROMPT else None
    uneven = choosing or writing is not None
    preparation = Preparation(lambda sample: text(sample.value), text.many, uneven=uneven)
    if any(task.located for task in tasks):
        preparation = replace(preparation, memo=lambda sample: text.places(sample.value))
    return Subject(
        job, session, text.tensors["input_ids"], outputs, preparation, text, choosing=choosing, writing=writing
    )


def _writer(job: Job, dataset: Dataset) -> Writer:
    """What the model is to write behind the prompts of a dataset, which are all alike in that."""
    task = job.manifest.outputs[0].task
    if task != Generation.name or len(job.manifest.outputs) > 1:
        raise DatasetError(
            f"The samples are prompts, but {job.entry.ref} does {task}.",
            hint="Models of the next token (task: language-model) go on with prompts.",
        )
    job.runtime.require("extend")
    first = dataset.read(0).value.item()
    assert isinstance(first, Prompt)  # of which the dataset is made
    steps = job.manifest.outputs[0].postprocess
    kept = next((step for step in steps if isinstance(step, NextTokens)), NextTokens(op="next_tokens"))
    return Writer(first.writing, kept.top, f"{job.model.fingerprint} {job.stack.fingerprint}")


def _sound_subject(job: Job, session: Session, dataset: Dataset) -> Subject:
    declared = job.manifest.inputs[0]
    assert declared.sound is not None  # the schema sees to it
    source = named_tensor(session.inputs, declared.name, "input", 0)
    sound = SoundFeeds(declared.sound, source, session.inputs, session.outputs)
    outputs = tuple(_judged(job, session, place, dataset) for place in range(len(job.manifest.outputs)))
    preparation = _without_needless_memo(_prepare(job, session, source), outputs)
    return Subject(job, session, source, outputs, preparation, sound=sound)


def _judged(job: Job, session: Session, place: int, dataset: Dataset) -> JudgedOutput:
    output = job.manifest.outputs[place]
    if task_named(output.task).roles:
        return _judged_by_parts(job, session, place, dataset)
    # A second time would drop classes, or weaken probabilities.
    if session.postprocessed and place == 0:
        output = output.model_copy(update={"name": None, "postprocess": (), "scores": "probabilities"})
    tensor = named_tensor(session.outputs, output.name, "output", place)
    if output.labels_file:
        labels = labels_of(output, job.entry.folder)
        output = output.model_copy(update={"labels": labels, "labels_file": None})
    if place == 0:
        order = class_order(job, dataset)
        output = in_data_order(output, order)
        lookup = partial(find_outputs, output.labels, dataset=dataset) if order.lookup else None
        read = _scores(job, session, output, tensor, dataset, lookup)
        return JudgedOutput(tensor, output.task, read, output.pooling, batch_axis=output.batch_axis)
    # The classes of the data are those of the main output.
    read = build_scores(output, tensor, discrete=_discrete(output))
    return JudgedOutput(tensor, output.task, read, output.pooling, batch_axis=output.batch_axis)


def _judged_by_parts(job: Job, session: Session, place: int, dataset: Dataset) -> JudgedOutput:
    """An output whose task reads its tensors by role."""
    output = job.manifest.outputs[place]
    task = task_named(output.task)
    if job.manifest.code and job.manifest.code.postprocess:
        raise ManifestError(
            f"code.postprocess makes scores of classes, which the task {output.task} does not read.",
            hint="Declare the steps of this output instead.",
        )
    if output.labels_file:
        output = output.model_copy(update={"labels": labels_of(output, job.entry.folder), "labels_file": None})
    tensors = tensors_by_role(output, task.roles, session.outputs, place)
    # The classes of the data are those of the main output.
    about = dataset if place == 0 else None
    setup = OutputSetup(
        output=output,
        inputs=job.manifest.inputs,
        tensors=tensors,
        folder=job.entry.folder,
        classes=about.classes if about is not None else None,
        translation=None if about is None else class_translation(output, about),
    )
    return read_by_parts(setup)


def _prepare(job: Job, session: Session, source: TensorSpec) -> Preparation:
    """How one sample becomes an input, and many at once where that is quicker."""
    if job.manifest.code and job.manifest.code.preprocess:
        isolated = _isolated(session)
        return Preparation(lambda sample: isolated.run_preprocess(sample.value))
    declared = build_prepare(job.manifest.inputs[0], source)
    return Preparation(
        lambda sample: declared(sample.value),
        declared.many,
        lambda sample: declared.memo(sample.value),
        uneven=declared.uneven,
    )


def _scores(
    job: Job, session: Session, output: Output, tensor: TensorSpec, dataset: Dataset, lookup: Lookup | None
) -> Callable[[Array], NDArray[np.float32]]:
    classes = int(dataset.labels().max(initial=UNLABELLED)) + 1
    if job.manifest.code and job.manifest.code.postprocess:
        isolated = _isolated(session)
        # The code stands for the declared steps; what it gives is checked like any model's answer.
        plain = TensorSpec("scores", (None, None), "float32")
        judged = build_scores(
            output.model_copy(update={"postprocess": ()}), plain, classes, lookup, discrete=_discrete(output)
        )
        return lambda raw: judged(isolated.run_postprocess({tensor.name: raw}))
    return build_scores(output, tensor, classes, lookup, discrete=_discrete(output))


def _discrete(output: Output) -> bool:
    return task_named(output.task).discrete


def _isolated(session: Session) -> IsolatedSession:
    assert isinstance(session, IsolatedSession), "code from a manifest runs in a process of its own"
    return session
