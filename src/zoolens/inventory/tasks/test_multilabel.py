import itertools

import numpy as np
import pytest

from zoolens.base.errors import ManifestError, ModelError
from zoolens.inventory.datasets.truth import Truth
from zoolens.inventory.manifests.schema import Input, Output
from zoolens.inventory.runtimes.runtime import TensorSpec
from zoolens.inventory.tasks import multilabel
from zoolens.inventory.tasks.multilabel import MultiLabel, Probabilities
from zoolens.inventory.tasks.output_setup import OutputSetup
from zoolens.inventory.tasks.task import TRUTH_KNOWN, Answers
from zoolens.testing.task_contract import WIDTH, N, TaskContract

TASK = MultiLabel()


class TestContract(TaskContract):
    task_class = MultiLabel

    def values(self, seed):
        return Probabilities(np.random.default_rng(seed).random((N, WIDTH)).astype(np.float32), 0.5)

    def truths(self):
        present = np.random.default_rng(9).integers(-1, 2, (N, WIDTH)).astype(np.int8)
        return [None, *(Truth("labels", {"present": row}) for row in present[1:])]


def kept(probabilities, present=None, threshold=0.5):
    columns = TASK.keep(Probabilities(np.asarray(probabilities, np.float32), threshold), None)
    if present is None:
        return Answers("out", TASK.name, columns)
    truths = TASK.keep_truth([Truth("labels", {"present": np.array(row, np.int8)}) for row in present])
    return Answers("out", TASK.name, columns, truths={**truths, TRUTH_KNOWN: np.ones(len(present), np.int8)})


def figures(answers, weights=None):
    judgement = TASK.judgement(answers)
    rows = np.ones((1, len(answers)), np.int64) if weights is None else np.array([weights])
    names = [metric.name for metric in judgement.metrics]
    return dict(zip(names, judgement.aggregate(rows)[0], strict=True))


def looped(probabilities, present, threshold=0.5):
    """The same by definition, from single comparisons."""
    known = present >= 0
    labels = range(present.shape[1])

    def precision(scores, true):
        at = [(true[scores >= score]).mean() for score in scores[true]]
        return np.mean(at) if at else np.nan

    def area(scores, true):
        pairs = [(a > b) + (a == b) / 2 for a in scores[true] for b in scores[~true]]
        return np.mean(pairs) if pairs else np.nan

    def f1(predicted, true):
        total = predicted.sum() + true.sum()
        return 2 * (predicted & true).sum() / total if total else np.nan

    columns = [(probabilities[known[:, c], c], present[known[:, c], c] == 1) for c in labels]
    return {
        "map": np.nanmean([precision(*each) for each in columns]),
        "macro_auc": np.nanmean([area(*each) for each in columns]),
        "subset_accuracy": np.mean(
            [
                ((row > threshold) == (true == 1))[true >= 0].all()
                for row, true in zip(probabilities, present, strict=True)
            ]
        ),
        "micro_f1": f1(probabilities[known] > threshold, present[known] == 1),
        "macro_f1": np.nanmean([f1(scores > threshold, true) for scores, true in columns]),
        "micro_auc": area(probabilities[known], present[known] == 1),
    }


@pytest.mark.parametrize("seed", range(6))
def test_figures_are_those_of_their_definitions(seed):
    random = np.random.default_rng(seed)
    probabilities = random.integers(0, 9, (20, 4)).astype(np.float32) / 8  # with many ties
    present = random.choice([-1, 0, 1], (20, 4), p=[0.1, 0.6, 0.3])
    found, wanted = figures(kept(probabilities, present)), looped(probabilities, present)
    assert found == pytest.approx(wanted, abs=1e-12)
    weights = random.integers(1, 3, 20)
    repeated = kept(np.repeat(probabilities, weights, axis=0), np.repeat(present, weights, axis=0))
    assert figures(kept(probabilities, present), weights) == pytest.approx(figures(repeated), abs=1e-12)


def test_figures_are_those_of_scikit_learn():
    """average_precision_score, roc_auc_score, accuracy_score and f1_score of scikit-learn 1.9.1 on the same arrays,
    where all labels are known and each is present in some inputs and absent from others."""
    random = np.random.default_rng(42)
    probabilities = random.random((30, 3)).astype(np.float32)
    present = (random.random((30, 3)) < 0.3 + 0.4 * (probabilities > 0.6)).astype(np.int8)
    assert figures(kept(probabilities, present)) == pytest.approx(SKLEARN, abs=1e-12)


SKLEARN = {
    "map": 0.7890262879503553,
    "macro_auc": 0.7408626912303383,
    "subset_accuracy": 1 / 3,
    "micro_f1": 0.6966292134831461,
    "macro_f1": 0.6777356103731815,
    "micro_auc": 0.7308641975308642,
}


def test_labels_that_no_input_has_are_left_out_and_said():
    judgement = TASK.judgement(kept([[0.9, 0.1], [0.2, 0.3]], [[1, 0], [0, -1]]))
    assert judgement.of("map")(np.ones((1, 2), np.int64)) == [1]
    assert judgement.notes == (
        "mAP is the mean over the 1 of 2 labels that an input has",
        "nobody says of 1 labels of inputs whether they apply; these are left out",
    )
    # A resample without an input that has the label says nothing of it.
    assert np.isnan(judgement.of("map")(np.array([[0, 2]])))


def test_blind_answers_have_the_precision_of_a_random_order():
    """Few inputs have a label, so that an order by chance does better than the share that has it."""
    present = [[1, 1, 0], [0, 1, 0], [0, -1, 0], [0, 0, 0]]  # no input has the third label
    orders = [np.array(order, float) / 10 for order in itertools.permutations(range(4))]
    found = [figures(kept(np.tile(order[:, np.newaxis], 3), present))["map"] for order in orders]
    blind = TASK.judgement(kept(np.full((4, 3), 0.5), present)).main.blind
    assert blind == pytest.approx(np.mean(found))
    assert blind > (1 / 4 + 2 / 3) / 2


def test_too_many_scores_are_not_sorted_together(monkeypatch):
    monkeypatch.setattr(multilabel, "MAX_CELLS", 3)
    judgement = TASK.judgement(kept([[0.9, 0.1], [0.2, 0.3]], [[1, 0], [0, 1]]))
    assert "micro_auc" not in [metric.name for metric in judgement.metrics]
    assert "no micro AUC" in judgement.notes[-1]


def test_agreement_and_scores_are_the_overlap_of_labels():
    a, b = kept([[0.9, 0.6, 0.1], [0.1, 0.1, 0.1]]), kept([[0.9, 0.1, 0.8], [0.2, 0.5, 0.1]])
    assert TASK.agreement(a, b).tolist() == [1 / 3, 1]
    judged = kept([[0.9, 0.6, 0.1], [0.1, 0.1, 0.1]], [[1, -1, 1], [0, 0, 0]])
    assert TASK.scores(judged, np.array([-1, -1])).tolist() == [0.5, 1]
    with pytest.raises(ModelError, match="have 3 and 1 labels"):
        TASK.agreement(a, kept([[0.5], [0.5]]))


def test_the_threshold_is_kept_with_the_answers():
    assert TASK.agreement(kept([[0.4, 0.6]], threshold=0.3), kept([[0.4, 0.6]])).tolist() == [0.5]


def test_a_truth_of_other_labels_is_refused_in_words():
    with pytest.raises(ModelError, match="says of 3 labels whether they apply, but the model answers 2"):
        TASK.judgement(kept([[0.9, 0.1]], [[1, 0, 0]]))


def test_an_answer_is_shown_by_its_labels():
    assert TASK.show(kept([[0.2, 0.6, 0.93]]), 0, ("cat", "dog", "cow")) == "cow (93 %), dog (60 %)"
    assert TASK.show(kept([[0.2, 0.1]]), 0) == "no label; nearest is label 0 (20 %)"
    assert TASK.show(kept([[0.9] * 7]), 0).endswith("label 4 (90 %), …")


# --- reading


def read(raw, classes=None, translation=None, dtype="float32", **output):
    values = np.array(raw, dtype)
    scale = {"scale": 1 / 256, "zero_point": 0} if dtype == "uint8" else {}
    setup = OutputSetup(
        output=Output(task="multilabel", **output),
        inputs=(Input(shape=(None, 3, 8, 8)),),
        tensors={"scores": TensorSpec("out", (None, values.shape[-1]), dtype, **scale)},
        classes=classes,
        translation=None if translation is None else np.array(translation),
    )
    return TASK.reader(setup)({"scores": values}, [None] * len(values))


def test_logits_become_probabilities_one_by_one():
    np.testing.assert_allclose(read([[0, 2, -200, 200]]).values, [[0.5, 1 / (1 + np.exp(-2)), 0, 1]], rtol=1e-6)
    assert read([[0.25, 1.0]], scores="probabilities").values.tolist() == [[0.25, 1.0]]
    assert read([[128]], dtype="uint8", scores="probabilities").values.tolist() == [[0.5]]
    assert read([[0.0]], postprocess=[{"op": "threshold", "above": 0.2}]).threshold == 0.2


def test_labels_come_in_the_datasets_order():
    found = read([[0.1, 0.2, 0.3]], ("a", "b", "c", "d"), [2, -1, 0], scores="probabilities").values
    np.testing.assert_allclose(found, [[0.3, 0, 0.1, 0]], rtol=1e-6)
    several = read([[0.1, 0.2, 0.3]], None, [1, 1, 0], scores="probabilities").values
    np.testing.assert_allclose(several, [[0.3, 0.2]], rtol=1e-6)


@pytest.mark.parametrize(
    ("raw", "options", "error", "sentence"),
    [
        ([[1.5]], {"scores": "probabilities"}, ModelError, "declares probabilities, but the model answered 1.5"),
        ([[np.nan]], {}, ModelError, "NaN or infinite"),
        ([[1.0]], {"classes": ("a", "b")}, ModelError, "dataset has 2 labels but the model has 1 outputs"),
        ([[1.0]], {"labels": ("a", "b")}, ManifestError, "manifest has 2 labels but the model has 1 outputs"),
    ],
)
def test_answers_without_meaning_are_refused_in_words(raw, options, error, sentence):
    with pytest.raises(error, match=sentence):
        read(raw, **options)


def test_a_threshold_is_for_labels():
    with pytest.raises(ValueError, match="threshold is for task: multilabel"):
        Output(postprocess=[{"op": "threshold"}])
