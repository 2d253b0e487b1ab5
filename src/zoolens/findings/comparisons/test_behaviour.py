from dataclasses import replace

import numpy as np
import pytest

from zoolens.base.errors import ZoolensError
from zoolens.findings.comparisons.behaviour import agreement_of, behaviour, worst
from zoolens.findings.comparisons.compare import compare_runs
from zoolens.findings.comparisons.compatibility import Compatibility, compatible
from zoolens.findings.comparisons.conftest import class_columns, one_hot, vector_columns, write_run
from zoolens.findings.comparisons.signatures import signature_of

LABELS = [0, 1, 2, 3, 4, 5, 6, 7]
EMBEDDING = [{"name": "v", "task": "embedding", "width": 2}]


@pytest.fixture
def compared(store):
    """Behaviour of two runs, each given by what it answers and further settings of `write_run`."""

    def compare(a, b, settings_a=None, settings_b=None, **both):
        runs = [
            write_run(store, name, answers, LABELS, **{**both, **(settings or {})})
            for name, answers, settings in (("a", a, settings_a), ("b", b, settings_b))
        ]
        fit = compatible(*runs)
        signatures = [signature_of(store, run) for run in runs]
        found = behaviour(*signatures, fit)
        assert agreement_of(*signatures, fit) == worst(found).agreement
        return found

    return compare


def test_answers_are_counted_input_by_input(compared):
    (found,) = compared(one_hot([0, 1, 2, 3, 9, 9, 9, 9]), one_hot([0, 1, 2, 9, 4, 5, 8, 9]))
    assert (found.n, found.agreeing, found.agreement) == (8, 4, 0.5)
    accuracy = found.accuracy
    assert (accuracy.right_a, accuracy.right_b, accuracy.only_a, accuracy.only_b) == (4, 5, 1, 2)
    assert (accuracy.a, accuracy.b, accuracy.difference) == (0.5, 0.625, 0.125)
    assert found.identical == 0.5


def test_a_model_is_its_own_equivalent(compared):
    answers = one_hot([0, 1, 2, 3, 9, 9, 9, 9])
    (found,) = compared(answers, answers)
    assert (found.agreement, found.identical, found.top5_overlap, found.l2) == (1, 1, 1, (0, 0))


def test_classes_in_another_order_agree_once_they_are_matched_by_name(compared):
    names = [f"class {i}" for i in range(10)]
    answers = np.random.default_rng(0).dirichlet(np.ones(10) * 0.3, len(LABELS)).astype(np.float32)
    plain, reversed_ = {"outputs": [{"labels": names}]}, {"outputs": [{"labels": names[::-1]}]}
    (found,) = compared(answers, answers[:, ::-1], plain, reversed_)
    assert (found.agreement, found.top5_overlap) == (1, 1)
    assert found.accuracy.right_a == found.accuracy.right_b
    (untold,) = compared(answers, answers[:, ::-1], plain, {})
    assert untold.agreement < 1


def test_vectors_are_compared_exactly(compared):
    ours = np.tile([3.0, 4.0], (8, 1))
    theirs = ours.copy()
    theirs[0] = [0, 0]  # distance 5
    theirs[1] = [-3, -4]  # distance 10, cosine -1
    theirs[2] *= 1 + 1e-4  # within the tolerance
    (found,) = compared(vector_columns(ours), vector_columns(theirs), about=EMBEDDING)
    assert found.agreeing == 6
    assert found.l2.low == found.l2.high == pytest.approx((5 + 10 + 5e-4) / 8, rel=1e-4)
    assert found.relative_l2 == pytest.approx((1 + 2 + 1e-4) / 8, rel=1e-4)
    assert found.cosine == pytest.approx((6 - 1 + 0) / 8, rel=1e-6)
    assert found.accuracy is None


def test_of_several_outputs_the_worst_counts(compared):
    about = [{"name": "cls", "task": "classification", "width": 10}, {"name": "vec", "task": "regression", "width": 1}]
    classes = class_columns(one_hot(LABELS), LABELS)
    values = np.arange(1.0, 9)[:, None]
    moved = values * np.array([1, 1, 1, 1, 1, 1, 1.5, 1.5])[:, None]
    first, second = compared(
        classes | vector_columns(values, "out1."), classes | vector_columns(moved, "out1."), about=about
    )
    assert (first.agreement, second.agreement) == (1, 0.75)
    assert worst((first, second)).output == "vec"
    assert second.cosine is None


def test_runs_on_other_inputs_cannot_be_paired(store):
    one = signature_of(store, write_run(store, "a", one_hot(LABELS), LABELS))
    two = signature_of(store, write_run(store, "b", one_hot(LABELS[:4]), LABELS[:4]))
    with pytest.raises(ZoolensError, match="same inputs"):
        behaviour(one, two, Compatibility())


def test_answers_to_inputs_in_another_order_are_not_paired(store):
    runs = [write_run(store, name, one_hot(LABELS), LABELS) for name in "ab"]
    a, b = (signature_of(store, run) for run in runs)
    with pytest.raises(ZoolensError, match="not about the same inputs"):
        agreement_of(a, replace(b, labels=b.labels[::-1]), Compatibility())


def test_outputs_that_both_have_in_another_order_are_paired_by_name(store):
    boxes, scores = np.arange(1.0, 9)[:, None], np.linspace(0.1, 0.9, 8)[:, None]
    about = [{"name": name, "task": "other", "width": 1} for name in ("boxes", "scores")]
    columns = [vector_columns(boxes) | vector_columns(scores, "out1.")]
    columns += [vector_columns(scores) | vector_columns(boxes, "out1.")]
    a = write_run(store, "a", columns[0], LABELS, about=about)
    b = write_run(store, "b", columns[1], LABELS, about=about[::-1])
    found = behaviour(signature_of(store, a), signature_of(store, b), compatible(a, b))
    assert [(one.output, one.agreement, one.identical) for one in found] == [("boxes", 1, 1), ("scores", 1, 1)]
    report = compare_runs(store, a, b)
    assert [(one.output, one.agreeing) for one in report.vectors] == [("boxes", 8), ("scores", 8)]
    assert not report.differs
