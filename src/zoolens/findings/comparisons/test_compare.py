"""Two runs compared input by input, with every number worked out by hand."""

import json
from dataclasses import replace

import numpy as np
import pytest

from zoolens.base.errors import ZoolensError
from zoolens.base.statistics.intervals import paired_difference
from zoolens.base.statistics.significance import exact_mcnemar
from zoolens.base.store.records import Observation
from zoolens.base.store.store import open_store
from zoolens.findings.comparisons.compare import (
    FigurePair,
    VectorChange,
    _class_changes,
    _compare_answers,
    _disagreements,
    _figures,
    _unpaired,
    as_data,
    compare,
    compare_runs,
)
from zoolens.findings.comparisons.gate import parse_gate
from zoolens.findings.comparisons.report_page import change_words
from zoolens.findings.comparisons.signatures import identical_share
from zoolens.findings.measure.lock import resolve_stack
from zoolens.findings.measure.prediction_buffer import AnswerBatch, PredictionBuffer
from zoolens.findings.measure.predictions import Predictions
from zoolens.inventory.runtimes.fake import Fake
from zoolens.inventory.runtimes.runtime import Options
from zoolens.inventory.tasks.task import Answers
from zoolens.testing.store_records import dataset_record, model_record

LABELS = [0, 0, 1, 1, 2, 2, 2, 0]
A = [0, 1, 1, 0, 2, 0, 1, 1]  # right: yes, no, yes, no, yes, no, no, no
B = [0, 0, 0, 1, 2, 1, 1, 2]  # right: yes, yes, no, yes, yes, no, no, no
SURE_A = [0.9, 0.6, 0.8, 0.5, 0.7, 0.6, 0.5, 0.6]
SURE_B = [0.8, 0.9, 0.5, 0.7, 0.7, 0.9, 0.75, 0.4]
DIGESTS_A = [1, 2, 3, 4, 5, 6, 7, 8]
DIGESTS_B = [1, 2, 3, 4, 5, 6, 0, 0]


def predictions(answers, sure, digests, labels=LABELS, second=0.1, classes=None):
    columns = {
        "top": np.array([[best, 9] for best in answers], np.int32),
        "score": np.array([[score, second] for score in sure], np.float64),
        "label_score": np.zeros(len(answers), np.float32),
        "sum_squares": np.zeros(len(answers), np.float32),
        "digest": np.array(digests, np.uint64),
    }
    return Predictions(
        inputs=np.array([f"image-{i}" for i in range(len(answers))], dtype=object),
        labels=np.array(labels, np.int32),
        outputs=(Answers("logits", "classification", columns),),
        classes=classes,
    )


@pytest.fixture
def sides():
    return predictions(A, SURE_A, DIGESTS_A), predictions(B, SURE_B, DIGESTS_B, second=0.4)


def test_answers_by_hand(sides):
    found = _compare_answers(*sides)
    assert (found.n, found.both_right, found.only_a, found.only_b, found.both_wrong) == (8, 2, 1, 2, 3)
    assert found.top1_change == 1 / 8
    assert found.difference == paired_difference(1, 2, 8)
    assert found.p_value == exact_mcnemar(1, 2)
    assert found.agreement == 3 / 8  # inputs 0, 4 and 6
    assert found.identical_outputs == 6 / 8
    assert found.max_score_change == pytest.approx(0.25)
    assert found.median_score_change == pytest.approx(0.1)  # of 0.1, 0 and 0.25
    assert found.labelled is True
    assert (found.ties_a, found.ties_b) == (0, 1)
    assert [one.label for one in found.classes] == [0, 1]
    assert len(found.disagreements) == 5


def test_the_other_way_round_is_the_opposite(sides):
    found = _compare_answers(sides[1], sides[0])
    assert (found.only_a, found.only_b, found.top1_change) == (2, 1, -1 / 8)
    assert found.difference == paired_difference(2, 1, 8)
    assert (found.ties_a, found.ties_b) == (1, 0)


def test_without_a_single_common_answer_no_score_changed():
    found = _compare_answers(
        predictions([0, 1], [0.5, 0.5], [1, 2], [0, 0]), predictions([1, 0], [0.9] * 2, [3, 4], [0, 0])
    )
    assert (found.agreement, found.max_score_change, found.median_score_change) == (0.0, 0.0, 0.0)


def test_without_labels_there_are_no_classes():
    found = _compare_answers(
        predictions([0, 1], [0.5, 0.5], [1, 2], [-1, -1]), predictions([1, 1], [0.9, 0.9], [1, 2], [-1, -1])
    )
    assert (found.labelled, found.classes) == (False, ())
    assert (found.n, found.both_right, found.only_a, found.only_b, found.both_wrong) == (2, 0, 0, 0, 2)
    assert (found.difference, found.p_value) == (paired_difference(0, 0, 2), 1.0)
    some = _compare_answers(
        predictions([0, 1], [0.5, 0.5], [1, 2], [-1, 0]), predictions([1, 0], [0.9, 0.9], [1, 2], [-1, 0])
    )
    assert some.labelled is True
    assert [one.label for one in some.classes] == [0]


def test_answers_without_scores_have_no_score_changes():
    unsure = predictions([0, 1], [np.nan] * 2, [1, 2], [0, 0], second=np.nan)
    sure = predictions([0, 0], [0.5, 0.5], [1, 3], [0, 0])
    for a, b in ((unsure, sure), (sure, unsure)):
        changes = _compare_answers(a, b)
        assert (changes.max_score_change, changes.median_score_change) == (None, None)
    [only] = _disagreements(unsure, sure)
    assert (only.input, only.score_a, only.score_b) == ("image-1", None, 0.5)


def test_disagreements_that_are_as_sure_come_in_the_order_of_the_inputs():
    count = 40  # more than a sort that is not stable leaves alone
    ours, theirs = ([answer] * count for answer in (0, 1))
    found = _disagreements(
        predictions(ours, [0.5, 0.25] * 20, ours, ours), predictions(theirs, [0.5] * count, ours, ours)
    )
    order = [*range(0, count, 2), *range(1, count, 2)]
    assert [disagreement.input for disagreement in found] == [f"image-{place}" for place in order]


def test_class_changes_come_clearest_first(sides):
    labels = [0] * 6 + [1] * 4 + [2] * 2 + [3]
    right_a = np.array([1, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 0, 1], bool)
    right_b = np.array([0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0, 1, 1], bool)
    named = predictions([0] * 13, [0.5] * 13, [0] * 13, labels, classes=("ant", "bee"))
    first, second, third = _class_changes(named, right_a, right_b)
    assert (first.label, first.name, first.n, first.recall_a, first.recall_b) == (0, "ant", 6, 5 / 6, 0.0)
    assert first.p_value == exact_mcnemar(5, 0)
    assert (second.label, second.name, second.n, second.recall_a, second.recall_b) == (1, "bee", 4, 0.25, 1.0)
    assert second.p_value == exact_mcnemar(0, 3)
    assert (third.label, third.name, third.recall_a, third.recall_b, third.p_value) == (2, "class 2", 0.5, 0.5, 1.0)


def test_classes_that_are_as_clear_come_in_their_order():
    labels = [2, 1, 0]
    right_a, right_b = np.array([1, 1, 1], bool), np.array([0, 0, 0], bool)
    found = _class_changes(predictions([0] * 3, [0.5] * 3, [0] * 3, labels), right_a, right_b)
    assert [one.label for one in found] == [0, 1, 2]


def test_disagreements_come_surest_first(sides):
    found = _disagreements(*sides)
    # The less sure of the two: 0.6, 0.5, 0.5, 0.6 and 0.4 for the inputs 1, 2, 3, 5 and 7.
    assert [one.input for one in found] == ["image-1", "image-5", "image-2", "image-3", "image-7"]
    first = found[0]
    assert (first.label, first.answer_a, first.answer_b, first.score_a, first.score_b) == (0, 1, 0, 0.6, 0.9)


def test_figures_are_those_that_both_have():
    a = [Observation("top1", 0.5, unit="fraction"), Observation("top1", 0.6, scope="x"), Observation("only_a", 1)]
    b = [Observation("top1", 0.7, unit="other"), Observation("top1", 0.8, scope="y"), Observation("only_b", 1)]
    assert _figures(a, b, ()) == [FigurePair("top1", "", "fraction", a[0], b[0])]


def test_figures_of_one_run_alone_are_kept_apart():
    a = [Observation("latency_p50", 1.0, scope="batch=1"), Observation("latency_p50", 2.0, scope="batch=8")]
    about_the_pair = Observation("churn", 0.1, scope="with=b")
    assert _unpaired([*a, about_the_pair], a[:1], "with=b") == (a[1],)


@pytest.mark.parametrize(
    ("unit", "a", "b", "change"),
    [
        ("fraction", 0.5, 0.75, 0.25),
        ("fraction", 0.0, 0.25, 0.25),
        ("s", 2.0, 5.0, 1.5),
        ("s", 0.0, 5.0, None),
        ("s", None, 5.0, None),
        ("s", 5.0, None, None),
        ("s", 4.0, 0.0, -1.0),
        ("fraction", None, None, None),
    ],
)
def test_the_change_of_a_figure(unit, a, b, change):
    assert FigurePair("m", "", unit, Observation("m", a), Observation("m", b)).change == change


@pytest.mark.parametrize(
    ("metric", "unit", "a", "b", "words"),
    [
        ("brier", "", 3.1e-9, 0.2479, "+0.248"),
        ("brier", "", 0.20, 0.15, "−0.05"),
        ("nll", "", 0.0, 0.5, "+0.5"),
        ("energy", "J", 1e-12, 0.5, "+500 mJ"),
        ("latency_p50", "s", 0.0, 0.002, "+2 ms"),
        ("latency_p50", "s", 0.001, 0.0012, "+20.0 %"),
        ("latency_p50", "s", 0.001, 0.5, "+499 ms"),
        ("top1", "fraction", 0.5, 0.25, "−25.00 pt"),
        ("energy", "J", float("nan"), 0.5, ""),
        ("energy", "J", None, 0.5, ""),
    ],
)
def test_a_change_relative_to_next_to_nothing_is_told_in_the_unit(metric, unit, a, b, words):
    pair = FigurePair(metric, "", unit, Observation(metric, a, unit=unit), Observation(metric, b, unit=unit))
    assert change_words(pair) == words


def test_vectors_that_agree_are_a_share():
    assert VectorChange("out", "embedding", 8, 6, 0.5, 0.0, 0.0, 1.0).agreement == 0.75


# --- through the store


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    with open_store(tmp_path_factory.mktemp("paired") / "store.sqlite") as opened:
        yield opened


def _run(
    store, name, tasks, answers, *, finish=True, dataset=None, figures=(), widths=None, labels=(0, 1, 1), model=None
):
    """A run whose outputs answered `answers`, one array of inputs × numbers for each."""
    count = len(answers[0])
    described = replace(dataset_record(), name=f"{count} digits", size=count, fingerprint=f"{count} digits")
    stack = resolve_stack(Fake(), Options(), None)
    run = store.begin_run(model or model_record(name), dataset or described, stack)
    widths = widths or [array.shape[1] for array in answers]
    store.set_resolved(
        run.id,
        {
            "outputs": [
                {"name": f"out{i}", "task": task, "width": width}
                for i, (task, width) in enumerate(zip(tasks, widths, strict=True))
            ]
        },
    )
    buffer = PredictionBuffer(tasks=tasks)
    buffer.add([f"i{n}" for n in range(count)], np.array(labels[:count]), [AnswerBatch(a, a) for a in answers])
    store.add_part(run.id, "predictions", 0, buffer.take())
    if finish:
        store.finish_stage(run.id, "predictions", list(figures))
    return store.run(run.id)


def _array(*rows):
    return np.array(rows, np.float32)


CLASSES = _array([0.9, 0.1], [0.2, 0.8], [0.6, 0.4])
OTHERS = _array([0.9, 0.1], [0.7, 0.3], [0.4, 0.6])


def test_a_gate_sees_the_figures_that_only_one_run_has(store):
    figures = [Observation("latency_p50", 0.1, scope=f"batch={size}", unit="s") for size in (1, 8)]
    a = _run(store, "zoo:more@1", ["classification"], [CLASSES], figures=figures)
    b = _run(store, "zoo:fewer@1", ["classification"], [CLASSES], figures=figures[:1])
    report = compare_runs(store, a, b)
    assert (report.only_a, report.only_b) == ((figures[1],), ())
    assert not {"only_a", "only_b"} & set(as_data(report))
    with pytest.raises(ZoolensError, match=r"latency_p50\[batch=8\] is known of A and not of B"):
        parse_gate("latency_p50 rise > 10%").verdict(report)


def test_runs_of_classes_are_compared(store):
    figures = [Observation("top1", 2 / 3, unit="fraction")]
    a = _run(store, "zoo:a@1", ["classification"], [CLASSES], figures=figures)
    b = _run(store, "zoo:b@1", ["classification"], [OTHERS], figures=figures)
    report = compare_runs(store, a, b)
    assert (report.a, report.b) == (a, b)
    assert (report.answers.n, report.answers.only_a, report.answers.only_b) == (3, 1, 1)
    assert report.answers.identical_outputs == 1 / 3
    assert [one.name for one in report.answers.classes] == ["one"]
    assert [(one.metric, one.change) for one in report.figures] == [("top1", 0.0)]
    assert report.vectors == ()
    assert report.cause is not None
    assert identical_share(store, a, b) == 1 / 3
    assert identical_share(store, a, a) == 1.0
    assert compare_runs(store, a, a).cause is None
    data = json.loads(json.dumps(as_data(report)))
    assert data["a"] == {"run": a.id, "model": "zoo:a@1", "runtime": "fake", "resolved": dict(a.resolved)}
    assert (data["b"]["run"], data["answers"]["only_a"], data["figures"][0]["metric"]) == (b.id, 1, "top1")


def test_two_models_that_answer_alike_need_no_cause(store):
    vectors = _array([1, 2], [3, 4], [5, 6])
    tasks = ["classification", "embedding"]
    a = _run(store, "zoo:alike@1", tasks, [CLASSES, vectors])
    b = _run(store, "zoo:alike@2", tasks, [CLASSES, vectors])
    report = compare_runs(store, a, b)
    assert (report.answers.agreement, report.answers.identical_outputs) == (1.0, 1.0)
    assert report.vectors[0].identical_outputs == 1.0
    assert report.cause is None
    assert [one.what for one in report.environment] == ["model fingerprint"]


def test_what_the_manifests_say_differently_comes_before_the_stack(store):
    a, b = (
        _run(
            store,
            f"zoo:said@{scale}",
            ["classification"],
            [answers],
            model=replace(
                model_record(f"zoo:said@{scale}"), manifest={"inputs": [{"name": "x", "preprocess": {"scale": scale}}]}
            ),
        )
        for scale, answers in ((1, CLASSES), (255, OTHERS))
    )
    report = compare_runs(store, a, b)
    first = report.environment[0]
    assert first.what.startswith("manifest ")
    assert first.what.endswith("scale")
    assert (first.a, first.b, first.telling) == ("1", "255", True)
    assert [one.what for one in report.environment[1:]] == ["model fingerprint"]
    assert "The manifests differ: " in report.cause
    assert "1 → 255" in report.cause


def test_runs_are_compared_by_their_ids(store):
    a = _run(store, "zoo:left@1", ["classification"], [CLASSES])
    b = _run(store, "zoo:right@1", ["classification"], [OTHERS])
    asked = [
        compare(a.id, b.id, store=store),
        compare(a.id[:12], b.id[:12], runtimes="fake", store=store),
        compare(a.id, b.id, runtimes=["fake", "fake"], store=store),
    ]
    assert [(one.a.id, one.b.id, one.answers.only_a) for one in asked] == [(a.id, b.id, 1)] * 3
    for runtimes in ("onnxruntime", ["fake", "onnxruntime"], ["onnxruntime", "fake"]):
        with pytest.raises(ZoolensError, match=r"^Run \w{8} \(zoo:\w+@1\) is in fake, not in onnxruntime\."):
            compare(a.id, b.id, runtimes=runtimes, store=store)


def test_a_store_that_is_not_there_is_not_made(tmp_path):
    with pytest.raises(ZoolensError):
        compare("last", "last~1", store=tmp_path / "absent.sqlite")
    assert list(tmp_path.iterdir()) == []


def test_runs_of_vectors_are_compared(store):
    mine = _array([3, 4], [1, 0], [2, 0], [0, 0])
    other = _array([3, 4], [1, 0.0005], [0, 2], [0, 0])
    labels = [0, 1, 1, 0]
    a = _run(store, "zoo:v@1", ["embedding"], [mine], labels=labels)
    b = _run(store, "zoo:w@1", ["embedding"], [other], labels=labels)
    report = compare_runs(store, a, b)
    assert report.answers is None
    [found] = report.vectors
    assert (found.output, found.task, found.n, found.agreeing) == ("out0", "embedding", 4, 3)
    assert found.identical_outputs == 0.5
    assert found.median_distance == pytest.approx(0.00025)
    assert found.max_distance == pytest.approx(2**0.5)
    assert found.cosine == pytest.approx(0.75, abs=1e-6)
    assert report.cause is not None
    assert compare_runs(store, a, a).cause is None


def test_only_outputs_of_one_kind_and_width_are_compared(store):
    vectors, wide = _array([1, 2], [3, 4], [5, 6]), _array([1, 2, 3], [3, 4, 5], [5, 6, 7])
    tasks = ["classification", "embedding", "embedding", "regression"]
    a = _run(store, "zoo:m@1", tasks, [CLASSES, vectors, vectors, vectors])
    b = _run(store, "zoo:n@1", tasks, [CLASSES, vectors, wide, vectors * 2])
    report = compare_runs(store, a, b)
    assert report.answers.identical_outputs == 1.0
    assert [(one.output, one.task, one.identical_outputs, one.agreeing) for one in report.vectors] == [
        ("out1", "embedding", 1.0, 3),
        ("out3", "regression", 0.0, 0),
    ]
    assert report.vectors[1].max_distance == 1.0
    assert report.uncompared == ("out2",)
    with pytest.raises(ZoolensError, match=r"^Nothing is known of the disagreement in out2,"):
        parse_gate("disagreement > 2%").verdict(report)
    assert "uncompared" not in as_data(report)
    twice = [
        _run(store, f"zoo:twice@{n}", tasks[:1] * 2, [CLASSES, second]) for n, second in enumerate((CLASSES, OTHERS))
    ]
    assert compare_runs(store, *twice).uncompared == ("out1",)
    assert report.cause is not None
    assert identical_share(store, a, b) == 0.0
    swapped = _run(store, "zoo:p@1", tasks[:3], [OTHERS, vectors, vectors])
    assert identical_share(store, _run(store, "zoo:q@1", tasks[:3], [CLASSES, vectors, vectors]), swapped) == 1 / 3
    fewer = _run(store, "zoo:o@1", tasks[:2], [CLASSES, vectors])
    assert [one.output for one in compare_runs(store, a, fewer).vectors] == ["out1"]
    assert identical_share(store, a, fewer) == 0.0


def test_a_run_of_classes_and_one_of_vectors_cannot_be_paired(store):
    a = _run(store, "zoo:c@1", ["classification"], [CLASSES])
    b = _run(store, "zoo:d@1", ["embedding"], [CLASSES])
    with pytest.raises(ZoolensError, match=rf"Run {b.id[:8]} \(zoo:d@1\) answers with vectors and the other with"):
        compare_runs(store, a, b)
    with pytest.raises(ZoolensError, match=rf"Run {b.id[:8]} \(zoo:d@1\) answers with vectors"):
        compare_runs(store, b, a)


def test_unfinished_predictions_are_said(store):
    a = _run(store, "zoo:e@1", ["classification"], [CLASSES])
    b = _run(store, "zoo:f@1", ["classification"], [CLASSES], finish=False)
    with pytest.raises(ZoolensError, match=rf"Run {b.id[:8]} \(zoo:f@1\) has no finished predictions"):
        compare_runs(store, a, b)
    assert identical_share(store, a, b) is None
    assert identical_share(store, b, a) is None
    unfinished = _run(store, "zoo:g@1", ["embedding"], [CLASSES], finish=False)
    vectors = _run(store, "zoo:h@1", ["embedding"], [CLASSES])
    assert compare_runs(store, vectors, unfinished).vectors == ()


def test_other_data_cannot_be_paired(store):
    a = _run(store, "zoo:i@1", ["classification"], [CLASSES])
    b = _run(store, "zoo:j@1", ["classification"], [CLASSES], dataset=dataset_record("other"))
    with pytest.raises(ZoolensError, match=r"is on 3 digits \(3 inputs\) and run \w{8} on other \(100 inputs\)"):
        compare_runs(store, a, b)
    assert identical_share(store, a, _run(store, "zoo:k@1", ["classification"], [CLASSES[:2]])) == 0.0
