import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from zoolens.base.errors import ModelError
from zoolens.base.present.figures import with_interval
from zoolens.findings.measure.metrics.calibration import calibration
from zoolens.findings.measure.metrics.per_class import per_class
from zoolens.findings.measure.metrics.topk import topk
from zoolens.findings.measure.prediction_buffer import AnswerBatch, PredictionBuffer, bit_digest
from zoolens.findings.measure.predictions import read_predictions
from zoolens.findings.measure.suspicions import remarks
from zoolens.inventory.tasks.classification import best_classes
from zoolens.inventory.tasks.foreseen_columns import SAMPLE, Foreseen
from zoolens.inventory.tasks.scoring.next_tokens import kept_tokens
from zoolens.inventory.tasks.scoring.token_samples import position_seeds

VALUES = [-2.0, -1e-7, 0.0, -0.0, 0.125, 0.25, 0.5, 1.0]


@given(arrays.arrays(np.float32, (3, 40), elements=st.sampled_from(VALUES)), st.integers(1, 5))
def test_best_classes_is_a_stable_sort_even_with_ties(scores, k):
    expected = np.argsort(-(scores + 0.0), axis=1, kind="stable")[:, :k]
    assert (best_classes(scores, k) == expected).all()


def test_digests_see_every_bit_and_only_bits():
    raw = np.random.default_rng(0).normal(size=(50, 13)).astype(np.float32)
    other = raw.copy()
    other[7, 12] = np.nextafter(other[7, 12], np.float32(9))
    changed = bit_digest(raw) != bit_digest(other)
    assert changed.tolist() == [row == 7 for row in range(50)]
    assert (bit_digest(raw[10:20]) == bit_digest(raw)[10:20]).all()
    swapped = raw[:, ::-1]
    assert (bit_digest(swapped) != bit_digest(raw)).all()


def made(probabilities, labels):
    buffer = PredictionBuffer()
    probabilities = np.asarray(probabilities, np.float32)
    buffer.add([f"i{n}" for n in range(len(labels))], np.asarray(labels), [AnswerBatch(probabilities, probabilities)])
    return read_predictions(buffer.take(), ("cat", "dog", "eel"))


def test_a_run_that_was_begun_before_a_column_was_kept_has_it_of_no_input():
    def part(start):
        scores, following = np.random.default_rng(start).normal(size=(4, 9)), np.zeros(4, np.int64)
        text = Foreseen(
            following, kept_tokens(scores, following, 3, seeds=position_seeds(np.array([7]), np.array([4]))), 9, 7
        )
        buffer = PredictionBuffer(start, ["language-model"])
        buffer.add([f"i{start}"], np.array([-1]), [AnswerBatch([text], {"logits": scores[None]})])
        return buffer.take()

    old = part(0).drop_columns([*SAMPLE])
    table = pa.concat_tables([old, part(1)], promote_options="default")
    columns = read_predictions(table, declared=[{"task": "language-model"}]).main.columns
    assert {"following", "top_ids", "digest"} <= set(columns)
    assert not set(SAMPLE) & set(columns)
    assert set(SAMPLE) <= set(read_predictions(part(0), declared=[{"task": "language-model"}]).main.columns)


def test_metrics_of_a_case_done_by_hand():
    predictions = made([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.6, 0.3, 0.1], [0.2, 0.3, 0.5]], [0, 1, 1, 2])
    (top1,) = [one for one in topk(predictions) if one.metric == "top1"]
    assert (top1.value, top1.n, top1.details["correct"]) == (0.75, 4, 3)
    found = {one.metric: one.value for one in calibration(predictions)}
    brier = np.mean([0.09 + 0.04 + 0.01, 0.01 + 0.04 + 0.01, 0.36 + 0.49 + 0.01, 0.04 + 0.09 + 0.25])
    assert found["brier"] == pytest.approx(brier, abs=1e-6)
    assert found["nll"] == pytest.approx(-np.log([0.7, 0.8, 0.3, 0.5]).mean(), abs=1e-6)
    assert found["ece"] == pytest.approx((0.3 + 0.2 + 0.6 + 0.5) / 4, abs=1e-6)


def test_a_probability_of_nought_counts_as_one_in_ten_million():
    (nll,) = [one for one in calibration(made([[1.0, 0.0], [0.5, 0.5]], [1, 0])) if one.metric == "nll"]
    assert nll.value == pytest.approx((7 * np.log(10) + np.log(2)) / 2, abs=1e-12)
    assert (nll.details["floor"], nll.details["floored"]) == (1e-7, 1)
    (nll,) = [one for one in calibration(made([[1.0, 2e-7], [0.5, 0.5]], [1, 0])) if one.metric == "nll"]
    assert nll.value == pytest.approx((-np.log(2e-7) + np.log(2)) / 2, abs=1e-7)
    assert nll.details["floored"] == 0


def test_recall_per_class_leaves_out_classes_with_hardly_any_input():
    probabilities = np.tile([0.9, 0.1, 0.0], (12, 1))
    predictions = made(probabilities, [0] * 6 + [1] * 5 + [2])
    found = {one.details["class"]: one.value for one in per_class(predictions)}
    assert found == {"cat": 1.0, "dog": 0.0}


def test_an_interval_has_a_width_also_where_all_inputs_are_alike():
    """One input, and fifty that are answered alike: neither shows that the next one is answered so, too."""
    for n in (1, 50):
        for one in calibration(made([[0.9, 0.1]] * n, [0] * n)):
            assert one.low < one.value < one.high
            assert with_interval(one).endswith("]")


def test_scores_that_are_no_probabilities_have_no_interval():
    predictions = made([[7.0, 3.0]] * 30, [0] * 30)
    brier = next(one for one in calibration(predictions) if one.metric == "brier")
    assert (brier.low, brier.high) == (None, None)


def test_what_is_not_finite_is_refused_with_the_input_named():
    with pytest.raises(ModelError, match="first for input i1"):
        made([[0.5, 0.5], [np.nan, 1.0]], [0, 1])


def test_a_label_beyond_the_outputs_is_refused():
    with pytest.raises(ModelError, match="class 5"):
        made([[0.5, 0.5]], [5])


def test_large_finite_numbers_are_no_infinity():
    large = np.full((2, 4), 3e38, np.float32)
    buffer = PredictionBuffer(tasks=["regression"])
    buffer.add(["a", "b"], np.zeros(2, int), [AnswerBatch(large, large)])
    assert buffer.take()["vector"].to_pylist() == large.tolist()
    large[1, 2] = np.inf
    with pytest.raises(ModelError, match="1 of 2 inputs, first for input b"):
        buffer.add(["a", "b"], np.zeros(2, int), [AnswerBatch(large, large)])


def test_exact_ties_between_the_two_best_classes_are_counted():
    buffer = PredictionBuffer()
    rows = np.array([[0.5, 0.5, 0.0], [0.6, 0.2, 0.2], [0.0, 0.5, 0.5]], np.float32)
    buffer.add(["a", "b", "c"], np.array([1, 0, 1]), [AnswerBatch(rows, rows)])
    predictions = read_predictions(buffer.take())
    assert predictions.ties == 2
    (told,) = remarks(predictions)
    assert told.startswith("2 of 3 answers are exact ties")
    assert next(topk(predictions)).details["ties"] == 2


def test_of_uneven_data_it_is_said_how_good_a_constant_answer_is():
    buffer = PredictionBuffer()
    rows = np.tile(np.array([[0.7, 0.3]], np.float32), (10, 1))
    rows[0] = [0.2, 0.8]
    buffer.add([str(place) for place in range(10)], np.array([0] * 9 + [1]), [AnswerBatch(rows, rows)])
    (told,) = remarks(read_predictions(buffer.take()))
    assert told == "9 of 10 inputs are of one class (class 0): always answering it would have an accuracy of 90.0 %"


def test_answers_are_kept_without_pandas(monkeypatch):
    """`pa.array` imports it where it is installed, which takes half a second of every evaluation."""
    monkeypatch.setattr(pa, "array", None)
    buffer = PredictionBuffer()
    rows = np.array([[0.5, 0.3, 0.2], [0.6, 0.2, 0.2]], np.float32)
    buffer.add(["naïve", ""], np.array([1, 0]), [AnswerBatch(rows, rows)])
    table = buffer.take()
    assert table["input"].to_pylist() == ["naïve", ""]
    assert table["label"].to_pylist() == [1, 0]
    assert table["top"].to_pylist() == [[0, 1, 2], [0, 1, 2]]
    table.validate(full=True)
