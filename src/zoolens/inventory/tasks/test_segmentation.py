import numpy as np
import pytest

from zoolens.base.errors import DatasetError, ManifestError, ModelError
from zoolens.inventory.datasets.truth import Truth
from zoolens.inventory.manifests.schema import Input, Output
from zoolens.inventory.preprocess.letterbox import framing
from zoolens.inventory.runtimes.runtime import TensorSpec
from zoolens.inventory.tasks.output_setup import OutputSetup
from zoolens.inventory.tasks.scoring.mask_runs import ELSEWHERE
from zoolens.inventory.tasks.segmentation import Segmentation
from zoolens.inventory.tasks.task import TRUTH_KNOWN, Answers
from zoolens.testing.task_contract import WIDTH, N, TaskContract

TASK = Segmentation()


class TestContract(TaskContract):
    task_class = Segmentation

    def values(self, seed):
        random = np.random.default_rng(seed)
        return [np.kron(random.integers(0, WIDTH, (3, 2)), np.ones((4, 5), int)).astype(np.uint16) for _ in range(N)]

    def truths(self):
        masks = [np.where(mask > 4, 255, mask).astype(np.uint8) for mask in self.values(7)]
        return [None, *(Truth("mask", {"mask": mask}) for mask in masks[1:])]


def kept(masks, truths=None):
    columns = TASK.keep([np.asarray(mask, np.uint16) for mask in masks], None)
    if truths is None:
        return Answers("out", TASK.name, columns)
    given = [Truth("mask", {"mask": np.asarray(truth, np.uint8)}) for truth in truths]
    known = {TRUTH_KNOWN: np.ones(len(given), np.int8)}
    return Answers("out", TASK.name, columns, truths={**TASK.keep_truth(given), **known})


def test_agreement_is_the_share_of_equal_pixels():
    a, b = kept([[[0, 1], [2, 2]], [[5, 5]]]), kept([[[0, 1], [2, 3]], [[5, 5]]])
    assert TASK.agreement(a, b).tolist() == [0.75, 1]
    with pytest.raises(ModelError, match=r"different sizes: 2 × 2 pixels, and the one of out 2 × 1"):
        TASK.agreement(a, kept([[[0, 1]], [[5, 5]]]))


def test_pixels_without_a_truth_are_not_scored():
    answers = kept([[[1, 1, 1, 0]]], [[[1, 0, 255, 0]]])
    assert TASK.scores(answers, np.array([-1])).tolist() == [2 / 3]


def test_the_main_metric_is_the_mean_over_classes_of_the_truth_and_others_are_said():
    answers = kept([[[0, 0, 1, 2]]], [[[0, 0, 1, 1]]])
    judgement = TASK.judgement(answers)
    assert judgement.main.name == "miou"
    assert judgement.of("miou")(np.ones((1, 1), np.int64)) == [0.75]
    assert judgement.of("miou_or_answered")(np.ones((1, 1), np.int64)) == [0.5]
    assert judgement.notes == (
        "mIoU is the mean over the 2 classes that the true masks have",
        "1 class that is answered but in no true mask would count as 0 with TensorFlow and torchmetrics",
    )


def test_blind_answers_are_the_commonest_class_everywhere():
    truths = [[[0, 0, 0, 1]], [[0, 0, 255, 2]]]
    judgement = TASK.judgement(kept([[[0, 0, 0, 0]]] * 2, truths))
    assert judgement.main.blind == judgement.of("miou")(np.ones((1, 2), np.int64))[0] == pytest.approx(5 / 7 / 3)
    one_class = TASK.judgement(kept([[[1]]], [[[0]]])).main
    assert one_class.blind == one_class.best == 1.0


def test_each_class_of_the_truth_has_a_figure_where_it_is():
    answers = kept([[[0, 0, 1, 7]], [[0, 0, 0, 5]]], [[[0, 0, 1, 1]], [[0, 0, 0, 0]]])
    figures = TASK.judgement(answers).by_class
    assert (figures.metric.name, figures.classes) == ("iou", (0, 1))
    both, second = figures.aggregate(np.array([[1, 1], [0, 2]])).tolist()
    assert both == [5 / 6, 0.5]
    assert second[0] == 3 / 4
    assert np.isnan(second[1])


def test_a_truth_of_another_size_is_refused_in_words():
    answers = kept([[[0, 0]]], [[[0, 0, 1]]])
    with pytest.raises(ModelError, match="different sizes: 3 × 1 pixels, and the model's 2 × 1"):
        TASK.judgement(answers)


def test_a_truth_that_judges_nothing_is_refused():
    with pytest.raises(DatasetError, match="no pixel that can be judged"):
        kept([[[0]]], [[[255]]])


def test_an_answer_is_shown_by_the_shares_of_its_classes_without_the_background():
    names = ("background", "cat", "dog")
    mask = np.zeros((10, 100), int)
    mask[0, :60], mask[1, :3] = 2, 1
    assert TASK.show(kept([mask]), 0, names) == "dog 6 %, cat < 1 %"
    assert TASK.show(kept([mask * 0]), 0, names) == "background 100 %"
    assert TASK.show(kept([[[1, 3]]]), 0, names) == "cat 50 %, class 3 50 %"
    assert TASK.show(kept([[[ELSEWHERE, 1]]]), 0, names) == "cat 50 %, other classes 50 %"
    assert TASK.show(kept([[[0, 1, 2, 3, 4]]]), 0) == "class 0 20 %, class 1 20 %, class 2 20 %, class 3 20 %, …"


# --- reading


def reader(classes=None, translation=None, tensor=None, **output):
    shape = tensor or TensorSpec("out", (None, 4, 4), "int64")
    setup = OutputSetup(
        output=Output(task="segmentation", **output),
        inputs=(Input(shape=(None, 3, 8, 8)),),
        tensors={"mask": shape},
        classes=classes,
        translation=None if translation is None else np.array(translation),
    )
    return TASK.reader(setup)


def test_masks_return_to_the_images_size_in_the_datasets_classes():
    frames = [framing("stretch", (4, 4), (2, 2)), framing("top_left", (2, 4), (2, 2))]
    raw = np.array([[[0, 1], [1, 2]], [[2, 0], [9, 9]]])
    first, second = reader(translation=[1, 0, -1])({"mask": np.minimum(raw, 2)}, frames)
    assert first.tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, ELSEWHERE, ELSEWHERE], [0, 0, ELSEWHERE, ELSEWHERE]]
    assert second.tolist() == [[ELSEWHERE, ELSEWHERE, 1, 1]] * 2


def test_a_single_quantised_score_is_compared_in_its_own_numbers():
    tensor = TensorSpec("out", (None, 1, 1, 3), "uint8", scale=1 / 256, zero_point=0)
    read = reader(tensor=tensor, scores="probabilities", postprocess=[{"op": "masks", "layout": "NCHW"}])
    raw = np.array([[[[127, 128, 129]]]], np.uint8)
    assert read({"mask": raw}, [None])[0].tolist() == [[0, 0, 1]]


@pytest.mark.parametrize(
    ("raw", "options", "sentence"),
    [
        ([[[3]]], {"classes": ("a", "b", "c")}, "has class 3, but there are the classes 0 to 2"),
        ([[[-1]]], {}, "has class -1, but there are the classes 0 to 4095"),
        ([[[2]]], {"labels": ("a", "b"), "translation": [0, 1]}, "has class 2, but there are the classes 0 to 1"),
        ([[[0.25]]], {}, "has 0.25 among its numbers of classes"),
    ],
)
def test_classes_beyond_those_that_are_named_are_refused(raw, options, sentence):
    with pytest.raises(ModelError, match=sentence):
        reader(**options)({"mask": np.array(raw)}, [None])


def test_a_class_beyond_a_label_map_is_one_that_the_dataset_lacks():
    assert reader(translation=[5])({"mask": np.array([[[0, 1]]])}, [None])[0].tolist() == [[5, ELSEWHERE]]
    with pytest.raises(ManifestError, match="at most 4,096 classes"):
        reader(translation=[5000])


@pytest.mark.parametrize(
    ("output", "sentence"),
    [
        ({"task": "classification", "postprocess": [{"op": "masks"}]}, "masks is for task: segmentation"),
        ({"task": "segmentation", "postprocess": [{"op": "masks"}] * 2}, "one step masks at most"),
        ({"task": "segmentation", "postprocess": [{"op": "softmax"}]}, "not for task: segmentation"),
    ],
)
def test_steps_of_other_tasks_are_refused(output, sentence):
    with pytest.raises(ValueError, match=sentence):
        Output(**output)
