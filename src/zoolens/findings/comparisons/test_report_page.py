"""Figures of the whole and figures of classes, on the pages of comparisons and repetitions, whatever the task."""

import numpy as np
import pytest

from zoolens.base.store.records import DatasetRecord, ModelRecord, Observation, StackRecord, fingerprint
from zoolens.findings.comparisons.compare import compare_runs
from zoolens.findings.comparisons.conftest import one_hot, write_run
from zoolens.findings.comparisons.report_charts import told_figures
from zoolens.findings.comparisons.report_page import report_page
from zoolens.findings.comparisons.reproduce import FigureVerdict, Reproduction
from zoolens.findings.comparisons.reproduction_page import figures_table
from zoolens.findings.measure.prediction_buffer import AnswerBatch, PredictionBuffer
from zoolens.findings.measure.predictions import KIND
from zoolens.inventory.datasets.truth import Truth

TRUE = [["B-PER", "I-PER", "O"], ["O", "B-LOC", "O"], ["O", "O", "O"]]
WORSE = [["B-PER", "I-PER", "O"], ["O", "O", "O"], ["B-LOC", "O", "O"]]


def tagger(store, name, tags, *figures):
    """A run of a tagger over three texts, with these figures."""
    buffer = PredictionBuffer(tasks=["token-classification"])
    values = [np.array(row, object) for row in tags]
    truths = [Truth("tags", {"tags": np.array(row)}) for row in TRUE]
    digests = {"all": np.array([[sum(map(ord, "".join(row)))] for row in tags], np.int64)}
    buffer.add(["0", "1", "2"], np.full(3, -1), [AnswerBatch(values, digests)], truths)
    manifest = {"name": name, "inputs": [{"shape": [None, 8]}], "outputs": [{"task": "token-classification"}]}
    run = store.begin_run(
        ModelRecord(fingerprint(manifest), f"zoo:{name}@1", "fake", manifest),
        DatasetRecord(fingerprint("texts"), "texts", 3, {}),
        StackRecord(fingerprint("fake"), "fake", {"version": "1"}, {}),
        resolved={"outputs": [{"name": "tags", "task": "token-classification", "width": None}]},
    )
    store.add_part(run.id, KIND, 0, buffer.take())
    store.finish_stage(run.id, "predictions")
    store.finish_stage(run.id, "metric:task", figures)
    return store.run(run.id)


def figure(metric, value, number=None, name=""):
    scope, details = ("", {}) if number is None else (f"class={number}", {"class": name})
    return Observation(metric, value, scope=scope, unit="fraction", details=details)


@pytest.fixture
def taggers(store):
    """The recall is one of the whole here; figures of classes may have any name."""
    sides = (("good", TRUE, 1.0, 0.9), ("worse", WORSE, 0.5, 0.2))
    return [
        tagger(
            store,
            name,
            tags,
            figure("f1", whole),
            figure("recall", whole),
            figure("of_type", of_type, 15, "[b]person"),
            figure("of_type", 0.5, 3, "place"),
        )
        for name, tags, whole, of_type in sides
    ]


def table(page, heading):
    return next(section.tables[0][1] for section in page.sections if section.title == heading)


def test_figures_are_of_the_whole_and_classes_have_names(store, taggers):
    report = compare_runs(store, *taggers)
    page = report_page(report)
    assert [row[0] for row in table(page, "Figures").rows] == ["f1", "recall"]
    assert [(row[0], row[3]) for row in table(page, "Classes that change most").rows] == [("[b]person", "−70.00 pt")]
    assert [tile.caption for tile in page.tiles][1:] == ["F1 of A", "F1 of B"]
    assert [each.metric for each in told_figures(report)] == [
        "f1"
    ]  # the main metric of the task has a line of the chart


def test_the_inputs_on_which_two_agree_least_are_told_with_both_answers(store, taggers):
    report = compare_runs(store, *taggers)
    (change,) = report.vectors
    assert [(found.input, found.agreement) for found in change.contested] == [("1", 0.0), ("2", 0.0)]
    assert (change.contested[0].a, change.contested[0].b) == ("LOC 1–1 (words)", "no entities")
    assert [row[0] for row in table(report_page(report), "tags").rows] == ["1", "2"]


def test_classes_of_answers_have_the_names_of_the_dataset(store):
    labels = np.array([0, 1, 2, 0])
    runs = [
        write_run(store, name, one_hot(answers, 3), labels, classes=["cat", "dog", "[b]bird"])
        for name, answers in (("a", [0, 1, 2, 0]), ("b", [0, 1, 1, 0]))
    ]
    flips = table(report_page(compare_runs(store, *runs)), "Different answers")
    assert flips.rows[0][:3] == ("2", "[b]bird", "[b]bird")


def test_a_repetition_lists_a_class_where_it_fails(store, taggers):
    whole, of_person, of_place = figure("recall", 1.0), figure("iou", 0.9, 15, "person"), figure("iou", 0.5, 3, "place")
    verdicts = (
        FigureVerdict(whole, whole, inside=True),
        FigureVerdict(of_person, figure("iou", 0.1, 15, "person"), inside=False),
        FigureVerdict(of_place, of_place, inside=True),
    )
    result = Reproduction(*taggers, verdicts, compare_runs(store, *taggers))
    assert [row[1:3] for row in figures_table(result).rows] == [("recall", ""), ("iou", "class=15 (person)")]
