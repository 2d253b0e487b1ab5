"""What is said beside the figures of an evaluation: what they rest on, and why some are absent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from zoolens.base import plugins
from zoolens.base.phrases import first_few
from zoolens.base.store.records import Provenance, Run
from zoolens.findings.measure.class_order import matched_by_name
from zoolens.findings.measure.input_checks import COPIES, QUANTISED_DATA
from zoolens.findings.measure.prediction_stage import GIVEN, TEXTS
from zoolens.findings.measure.stages import TIMED_WITH, Context
from zoolens.findings.measure.task_metrics import NOTES
from zoolens.inventory.datasets.dataset import Dataset
from zoolens.inventory.datasets.subset import Subset
from zoolens.inventory.datasets.truth import WORDS as TRUTH_WORDS
from zoolens.inventory.manifests.guesses import guesses_in
from zoolens.inventory.preprocess.classlookup import assumed_order, unnamed_classes
from zoolens.inventory.preprocess.outputs import labels_of, remaining_columns
from zoolens.inventory.tasks.task import Task, task_named

ENOUGH_TO_TELL: Final = 20  # inputs for each output of a model, with which all of its classes would be among the labels
UNKNOWN_SHARE: Final = 0.2  # of all tokens, above which it is said


def guesses_of(context: Context, run: Run) -> Iterator[str]:
    """What the accuracy rests on that nobody has written down."""
    manifest, dataset = context.job.manifest, context.dataset
    output = manifest.outputs[0] if manifest.outputs else None
    if output is None:
        return
    task = task_named(output.task)
    known = dataset.labelled if task.truth is None else task.judged_by(dataset.truth_kind)
    if not (task.judged or task.truth) or not known:
        return  # there is no figure that judges answers
    yield from guesses_in(manifest.attributes)
    if task.roles and dataset.classes and not (output.label_map or output.labels or output.labels_file):
        yield f"the model's classes are numbered as those of {dataset.name}: {dataset.classes[0]!r} is 0"
    if not task.discrete or output.label_map:
        return
    width = int((run.resolved.get("outputs") or [{}])[0].get("width") or 0)
    if assumed := assumed_order(labels_of(output, context.job.entry.folder), width, dataset):
        yield assumed


def notes_of(context: Context, run: Run, *, answered: bool) -> Iterator[str]:
    """Why figures are absent that one would look for. `answered`: the model was to answer the data, and no stage of it
    failed."""
    if answered:
        yield from _said_of_accuracy(context, run)
        yield from said_of_texts(run)
        yield from filter(None, [run.resolved.get(QUANTISED_DATA), run.resolved.get(COPIES)])
        yield from context.dataset.notes
    if not context.job.runtime.can("run_here"):
        yield context.job.runtime.cannot["run_here"]
    made_up = run.resolved.get(TIMED_WITH)
    if made_up:
        yield f"it was timed with {made_up}"
    for timing in context.store.observations(run.id, metric="latency_p50"):
        if timing.provenance is Provenance.UNAVAILABLE:
            yield f"no latency at {timing.scope}: {timing.details.get('reason')}"


def _said_of_accuracy(context: Context, run: Run) -> Iterator[str]:
    name = context.job.manifest.task
    task = task_named(name)
    if task.truth is not None:
        yield from _said_of_truths(context, run, task)
        return
    if not task.judged:
        yield f"its answers are not classes (task: {name}): no accuracy, but `compare` and `equiv` compare them"
        guesses = guesses_in(context.job.manifest.attributes)
        yield from (f"a guess: {words}" for words in guesses if words.startswith("the task "))
        return
    if not context.dataset.labelled:
        kind = context.dataset.truth_kind
        what = "no labels" if kind is None else f"no classes for labels, but {TRUTH_WORDS[kind]}"
        yield f"the dataset has {what}: no accuracy, but `compare` and `equiv` compare models on it"
        return
    yield from _said_of_outputs(context, run)
    yield from said_of_classes(context.dataset)
    if not task.discrete:
        metrics = ", ".join(plugins.names(plugins.METRICS))
        yield f"metrics of classes ({metrics}) are not computed for the task {name}, whose own score is"


def _said_of_truths(context: Context, run: Run, task: Task) -> Iterator[str]:
    """Notes on a task that is judged by truths of its own kind."""
    dataset, output = context.dataset, context.job.manifest.outputs[0]
    if not task.judged_by(dataset.truth_kind):
        given = f", but {TRUTH_WORDS[dataset.truth_kind]}" if dataset.truth_kind else ""
        yield (
            f"the dataset has no {TRUTH_WORDS[task.truth or '']} that could judge the task {output.task}{given}: "
            "`compare` and `equiv` compare models on it"
        )
        return
    yield from run.resolved.get(NOTES) or ()
    named = output.model_copy(update={"labels": labels_of(output, context.job.entry.folder), "labels_file": None})
    missing = unnamed_classes(named, dataset)
    if missing:
        yield (
            f"the model has no class for {len(missing):,} of the dataset's {len(dataset.classes or ()):,} classes "
            f"({first_few(missing, 5)}), which therefore count as never found"
        )


def _said_of_outputs(context: Context, run: Run) -> Iterator[str]:
    """Outputs that stand for no class of the data, where no names tell that this is meant."""
    classes = context.dataset.classes
    outputs = run.resolved.get("outputs") or [{}]
    width = int(outputs[0].get("width") or 0)
    given, declared = int(outputs[0].get(GIVEN) or 0), context.job.manifest.outputs[0]
    left_out = remaining_columns(declared, given) - len(declared.label_map) if declared.label_map else 0
    if given and left_out > 0:
        yield (
            f"its label_map leaves out {left_out:,} of its outputs: the answer is the best of the others, which is "
            "more accurate than the best of all"
        )
    if given == 1:
        second = f" ({classes[1]})" if classes and len(classes) > 1 else ""
        yield f"its only score is taken for that of class 1{second}: a label_map of {{0: 1, 1: 0}} swaps the two"
    if classes and width > len(classes) and not matched_by_name(run):
        yield (
            f"the dataset has {len(classes):,} classes, taken for the model's first outputs; answers among its other "
            f"{width - len(classes):,} count as wrong"
        )
    whole = context.dataset.parent if isinstance(context.dataset, Subset) else context.dataset
    numbers = int(whole.labels().max(initial=-1)) + 1
    if not classes and 0 < numbers < width and len(whole) >= ENOUGH_TO_TELL * width:
        yield (
            f"no label of the data is above {numbers - 1}, but the model has {width:,} outputs: are these the same "
            "classes? Name them in the order of the labels, such as --data 'FILE?classes=NAME,NAME'"
        )


def said_of_classes(dataset: Dataset) -> Iterator[str]:
    """Folders are read class by class: the first inputs of them may be of a few classes only."""
    if not isinstance(dataset, Subset):
        return
    here, all_ = (len(np.unique(data.labels())) for data in (dataset, dataset.parent))
    if here < 0.5 * min(all_, len(dataset)):
        yield (
            f"these {len(dataset):,} inputs are of {here:,} of the dataset's {all_:,} classes, so that the accuracy is "
            "that of those; --seed draws inputs of all"
        )


def said_of_texts(run: Run) -> Iterator[str]:
    """What became of the texts that a model was given."""
    facts = run.resolved.get(TEXTS)
    if not facts:
        return
    longest = run.model.manifest["inputs"][0]["tokenizer"]["max_length"]
    if facts["cut"]:
        yield f"{facts['cut']:,} of {facts['texts']:,} texts have more than {longest:,} tokens and were cut"
    unknown = facts["unknown"] or 0
    if unknown > UNKNOWN_SHARE * facts["tokens"]:
        yield (
            f"{unknown:,} of {facts['tokens']:,} tokens are unknown to its tokenizer: is it the right one for these "
            "texts?"
        )
