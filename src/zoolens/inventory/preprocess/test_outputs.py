import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from zoolens.base.errors import ManifestError, ModelError
from zoolens.inventory.manifests.schema import Output
from zoolens.inventory.preprocess.outputs import build_scores, labels_of, softmax
from zoolens.inventory.runtimes.runtime import TensorSpec

REAL = TensorSpec("y", (None, None), "float32")
LOGITS = np.array([[1.0, 2.0, 4.0], [0.0, -5.0, 3.0]], np.float32)
PROBABILITIES = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]], np.float32)


def score(raw, tensor=REAL, **output):
    return build_scores(Output(**output), tensor)(raw)


def reference(logits):
    powers = np.exp(logits.astype(np.float64))
    return powers / powers.sum(axis=1, keepdims=True)


def test_logits_become_probabilities_and_probabilities_stay():
    np.testing.assert_allclose(score(LOGITS), reference(LOGITS), rtol=1e-6)
    np.testing.assert_array_equal(score(PROBABILITIES, scores="probabilities"), PROBABILITIES)
    assert score(LOGITS.astype(np.float16)).dtype == np.float32


@given(hnp.arrays(np.float32, (3, 5), elements=st.floats(-(2.0**100), 2.0**100, width=32)))
def test_softmax_is_stable_for_any_finite_logits(logits):
    found = softmax(logits)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("shape", [(2, 3, 1, 1), (2, 1, 1, 3), (2, 1, 3)])
def test_extra_axes_of_one_go(shape):
    np.testing.assert_allclose(score(LOGITS.reshape(shape)), reference(LOGITS), rtol=1e-6)


def test_a_feature_map_is_no_score():
    with pytest.raises(ModelError, match="not one score per class"):
        score(np.zeros((2, 3, 4, 4), np.float32))


@pytest.mark.parametrize("shape", [(3, 1), (3,), (3, 1, 1, 1)])
def test_a_single_score_is_that_of_the_second_of_two_classes(shape):
    logits = np.array([-2.0, 0.5, 3.0], np.float32)
    sigmoid = 1 / (1 + np.exp(-logits))
    both = np.stack([1 - sigmoid, sigmoid], axis=1)
    np.testing.assert_allclose(score(logits.reshape(shape)), both, rtol=1e-6)
    np.testing.assert_allclose(score(sigmoid.reshape(shape), scores="probabilities"), both, rtol=1e-6)
    turned = score(logits.reshape(shape), label_map={0: 1, 1: 0})
    np.testing.assert_allclose(turned, both[:, ::-1], rtol=1e-6)


def test_a_single_number_that_is_no_score_is_refused():
    with pytest.raises(ModelError, match=r"one integer for each input \(int64\)"):
        score(np.array([0, 2, 1]))
    with pytest.raises(ModelError, match="declares a probability, but the model answered 7"):
        score(np.array([[7.0]], np.float32), scores="probabilities")


def test_explicit_temperature_replaces_the_implied_softmax():
    found = score(LOGITS, postprocess=[{"op": "softmax", "temperature": 2.0}])
    np.testing.assert_allclose(found, reference(LOGITS / 2), rtol=1e-6)


def test_background_is_dropped_before_the_softmax_of_logits_and_its_share_given_back_otherwise():
    steps = [{"op": "drop_leading"}]
    np.testing.assert_allclose(score(LOGITS, postprocess=steps), reference(LOGITS[:, 1:]), rtol=1e-6)
    found = score(PROBABILITIES, scores="probabilities", postprocess=steps)
    np.testing.assert_allclose(found, [[0.6, 0.4], [1 / 9, 8 / 9]], rtol=1e-6)


def test_select_and_label_map_reorder():
    np.testing.assert_allclose(
        score(PROBABILITIES, scores="probabilities", postprocess=[{"op": "select", "indices": (2, 0, 1)}]),
        PROBABILITIES[:, [2, 0, 1]],
        rtol=1e-6,
    )
    mapped = score(PROBABILITIES, scores="probabilities", label_map={0: 3, 2: 1})
    np.testing.assert_allclose(mapped[0], [0, 0.2 / 0.7, 0, 0.5 / 0.7], rtol=1e-6)
    merged = score(PROBABILITIES, scores="probabilities", label_map={0: 0, 1: 0, 2: 1})
    np.testing.assert_allclose(merged, [[0.8, 0.2], [0.2, 0.8]], rtol=1e-6)


def test_quantised_outputs_are_real_again_and_their_sum_may_drift():
    tensor = TensorSpec("y", (1, 1001), "uint8", 1 / 256, 0)
    raw = np.zeros((1, 1001), np.uint8)
    raw[0, 7], raw[0, 8:108] = 128, 1
    found = score(raw, tensor, scores="probabilities")
    np.testing.assert_allclose(found[0, 7], 0.5)
    signed = TensorSpec("y", (1, 3), "int8", 0.5, -10)
    np.testing.assert_allclose(
        score(np.array([[-10, -8, 0]], np.int8), signed), reference(np.array([[0.0, 1, 5]])), rtol=1e-5
    )


@pytest.mark.parametrize(
    ("raw", "hint"),
    [
        (LOGITS, "scores: logits"),
        (np.array([[0.9, 0.9]]), "Where each is a sigmoid"),
        (np.array([[1.5, -0.5]]), "scores: logits"),
    ],
)
def test_declared_probabilities_that_are_none(raw, hint):
    with pytest.raises(ModelError, match=rf"declares probabilities.*{hint}"):
        score(raw.astype(np.float32), scores="probabilities")


def test_nan_and_infinity_are_left_for_the_caller():
    bad = np.array([[np.nan, 0.5, 0.5], [0.2, 0.3, 0.5]], np.float32)
    found = score(bad, scores="probabilities")
    assert np.isnan(found[0]).any()
    np.testing.assert_array_equal(found[1], bad[1])
    assert np.isnan(score(np.array([[np.inf, 1.0, 2.0]], np.float32))).any()


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ({"labels": ("a", "b")}, "has 2 labels but the model has 3 outputs"),
        ({"labels": ("a", "b", "c"), "postprocess": [{"op": "drop_leading"}]}, "3 labels but the model has 2"),
        ({"postprocess": [{"op": "drop_leading", "count": 3}]}, "leaves nothing"),
        ({"postprocess": [{"op": "select", "indices": (0, 3)}]}, "among 0 to 2"),
        ({"label_map": {5: 0}}, "names output 5"),
        ({"label_map": {0: -1}}, "negative"),
    ],
)
def test_declarations_that_do_not_fit_the_model(output, message):
    with pytest.raises(ManifestError, match=message):
        score(LOGITS, **output)


def test_embeddings_are_left_alone():
    np.testing.assert_array_equal(score(LOGITS, task="embedding"), LOGITS)


def test_labels_from_a_file_inside_the_folder_only(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "names.txt").write_text("cat\n dog \n\n")
    (tmp_path / "secret.txt").write_text("x")
    assert labels_of(Output(labels_file="names.txt"), folder) == ("cat", "dog")
    assert labels_of(Output(labels=("a",), labels_file="names.txt"), folder) == ("a",)
    assert labels_of(Output(), folder) is None
    for name in ("../secret.txt", str(tmp_path / "secret.txt"), "gone.txt"):
        with pytest.raises(ManifestError):
            labels_of(Output(labels_file=name), folder)
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    with pytest.raises(ManifestError, match="outside"):
        labels_of(Output(labels_file="link.txt"), folder)
    with pytest.raises(ManifestError, match="is not in a folder"):
        labels_of(Output(labels_file="names.txt"), None)


def test_scores_dequantised_inside_the_model_may_miss_one_by_their_rounding():
    """1,000 softmax scores rounded to 1/256: most of a flat tail is lost, and that is no mistake of the manifest."""
    scores = np.zeros((1, 1000), np.float32)
    scores[0, :3] = [100 / 256, 60 / 256, 7 / 256]
    output = Output(scores="probabilities")
    assert build_scores(output, TensorSpec("y", (1, 1000), "float32"))(scores)[0, 0] == np.float32(100 / 256)
    scores[0, 0] += 0.001  # not a whole step: these are not rounded probabilities
    with pytest.raises(ModelError, match="add up to"):
        build_scores(output, TensorSpec("y", (1, 1000), "float32"))(scores)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (np.array([["a", "b"]], object), "gives texts"),
        (np.array([[1 + 2j, 3]], np.complex64), "gives complex numbers"),
        (np.array([[1.0, 1e60]]), "gives 1e\\+60, but answers are kept in float32"),
        (np.array([[1.0, 2.0], [1e-60, 0.0]]), "gives 1e-60, but answers are kept in float32"),
        (np.zeros((2, 0, 6), np.float32), "no numbers at all"),
    ],
)
def test_answers_that_cannot_be_kept_are_refused(raw, said):
    with pytest.raises(ModelError, match=said):
        score(raw, task="other")


def test_a_small_number_beside_others_is_kept_as_zero():
    np.testing.assert_array_equal(score(np.array([[1.0, 1e-60], [0.0, 0.0]]), task="other"), [[1, 0], [0, 0]])


def test_percentages_are_divided_before_they_are_checked():
    steps = [{"op": "divide", "by": 100}, {"op": "drop_leading"}]
    percent = 100 * PROBABILITIES
    np.testing.assert_allclose(score(percent, scores="probabilities", postprocess=steps[:1]), PROBABILITIES, rtol=1e-6)
    np.testing.assert_allclose(score(percent, scores="probabilities", postprocess=steps).sum(axis=1), 1, rtol=1e-6)
    with pytest.raises(ModelError, match="add up to 100"):
        score(percent, scores="probabilities")
    with pytest.raises(ValueError, match="first step"):
        Output(scores="probabilities", postprocess=steps[::-1])


def test_a_weighted_sum_is_one_quantity():
    step = {"op": "linear", "weights": [-1, 0.5, 2], "bias": 10}
    read = build_scores(Output(task="regression", postprocess=[step]), TensorSpec("out", (None, 3), "float32"))
    np.testing.assert_allclose(read(np.array([[1, 2, 3], [0, 0, 0]], np.float32)), [[16], [10]])
    with pytest.raises(ManifestError, match="linear has 3 weights, but the output has 2 numbers"):
        read(np.zeros((1, 2), np.float32))
    with pytest.raises(ValueError, match="linear is the only step of task: regression"):
        Output(task="embedding", postprocess=[step])
