"""Detection keeps the contract of tasks, and its figures are those of `box_figures`."""

from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zoolens.base.errors import ManifestError
from zoolens.inventory.datasets.truth import Truth
from zoolens.inventory.manifests.schema import Input, Output
from zoolens.inventory.preprocess.box_outputs import ImageBoxes
from zoolens.inventory.preprocess.letterbox import framing
from zoolens.inventory.runtimes.runtime import TensorSpec
from zoolens.inventory.tasks.detection import METRICS, Detection, Found, detected
from zoolens.inventory.tasks.output_setup import OutputSetup
from zoolens.inventory.tasks.scoring.box_figures import BoxAccumulator
from zoolens.inventory.tasks.scoring.box_lists import detections, truths
from zoolens.inventory.tasks.scoring.box_matching import match_boxes
from zoolens.inventory.tasks.task import Answers
from zoolens.testing.task_contract import N, TaskContract

TASK = Detection()
BOXES = {"op": "boxes", "format": "xyxy", "units": "pixels"}
ROLES = ("boxes", "classes", "scores")
IMAGE = framing("stretch", (100, 100), (100, 100))


def found(boxes, classes, scores, dropped=0):
    order = np.argsort(-np.asarray(scores, np.float64), kind="stable")
    boxes = np.asarray(boxes, np.float64).reshape(-1, 4)[order]
    return Found(ImageBoxes(boxes, np.asarray(classes, np.int64)[order], np.sort(scores)[::-1]), dropped)


def truth(boxes, classes, areas=None, crowds=None):
    boxes = np.asarray(boxes, np.float64).reshape(-1, 4)
    return Truth(
        "boxes",
        {
            "boxes": boxes,
            "classes": np.asarray(classes, np.int64),
            "areas": boxes[:, 2] * boxes[:, 3] if areas is None else np.asarray(areas, np.float64),
            "crowds": np.zeros(len(boxes), bool) if crowds is None else np.asarray(crowds, bool),
        },
    )


def answers(values, said):
    known = np.array([one is not None for one in said], np.int8)
    return Answers("out", "detection", TASK.keep(values, None), truths={**TASK.keep_truth(said), "known": known})


def drawn(seed, images, most=6, classes=3):
    """Images with true boxes, and boxes of a model near them; some are found twice, with another class, or not."""
    random = np.random.default_rng(seed)
    values, said = [], []
    for _ in range(images):
        count = int(random.integers(0, most))
        boxes = np.concatenate([random.uniform(0, 80, (count, 2)), random.uniform(4, 120, (count, 2))], axis=1)
        labels = random.integers(0, classes, count)
        chosen = random.integers(0, max(count, 1), int(random.integers(0, 2 * most))) if count else np.zeros(0, int)
        near = np.abs(boxes[chosen] + random.normal(0, 3, (len(chosen), 4)))
        wrong = random.random(len(chosen)) < 0.2
        values.append(found(near, np.where(wrong, 0, labels[chosen]), random.integers(0, 20, len(chosen)) / 20))
        said.append(truth(boxes, labels, crowds=random.random(count) < 0.1))
    return values, said


class TestDetection(TaskContract):
    task_class = Detection

    def values(self, seed):
        return drawn(seed, N)[0]

    def truths(self):
        return [*drawn(0, N)[1][:-1], None]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 8))
def test_metrics_are_cocos_bit_for_bit(seed, images):
    values, said = drawn(seed, images)
    given_ = answers(values, said)
    parts = []
    for one, true in zip(values, said, strict=True):
        # Boxes and scores are kept in float32.
        boxes, scores = one.image.boxes.astype(np.float32), one.image.scores.astype(np.float32)
        known = range(3)
        parts.append(
            match_boxes(
                detections(boxes, one.image.classes, scores, known),
                truths(true["boxes"], true["classes"], known, areas=true["areas"], crowds=true["crowds"]),
            )
        )
    judged = TASK.judgement(given_)
    weights = np.random.default_rng(seed).integers(0, 3, (3, images))
    weights[0] = 1
    wanted = [astuple(BoxAccumulator(parts).figures(row)) for row in weights]
    np.testing.assert_array_equal(judged.aggregate(weights), wanted)
    assert [metric.name for metric in METRICS][:4] == ["ap", "ap50", "ap75", "ap_small"]
    assert judged.main.name == "ap"


def test_average_precision_of_few_images_is_known_to_be_too_high():
    """Recalls are not, and a class in few images is the more so."""
    values, said = drawn(5, 60)
    judged = TASK.judgement(answers(values, said))
    assert 0 < judged.optimism("ap") < 0.2
    assert judged.optimism("ap50") == judged.optimism("ap75") == judged.optimism("ap")
    assert judged.optimism("ar100") == 0
    classes = [judged.by_class.optimism(place) for place in range(len(judged.by_class.classes))]
    assert judged.optimism("ap") == pytest.approx(np.mean(classes))


def test_f1_of_an_image_counts_boxes_that_are_shown():
    said = truth([[0, 0, 10, 10], [50, 50, 10, 10]], [0, 1])
    values = [
        found([[0, 0, 10, 10], [50, 50, 10, 10]], [0, 1], [0.9, 0.4]),
        found([[0, 0, 10, 10], [80, 80, 9, 9]], [0, 1], [0.9, 0.4]),
        found([[0, 0, 10, 10], [80, 80, 9, 9]], [0, 1], [0.9, 0.2]),
        found([[0, 0, 10, 10]], [1], [0.9]),
        found([], [], []),
    ]
    scores = TASK.scores(answers(values, [said] * 5), np.full(5, -1))
    assert scores.tolist() == [1.0, 0.5, pytest.approx(2 / 3), 0.0, 0.0]
    nothing = answers([found([], [], []), found([[0, 0, 5, 5]], [0], [0.5])], [truth([], [])] * 2)
    assert TASK.scores(nothing, np.full(2, -1)).tolist() == [1.0, 0.0]


def test_agreement_is_about_boxes_that_are_shown():
    noise = found([[0, 0, 10, 10], *[[i, i, 5, 5] for i in range(90)]], [0] * 91, [0.9] + [0.01] * 90)
    same = found([[0, 0, 10, 10]], [0], [0.7])
    other = found([[40, 0, 10, 10]], [0], [0.7])
    empty, faint = found([], [], []), found([[0, 0, 10, 10]], [0], [0.1])
    a, b = answers([noise, noise, empty, empty], [None] * 4), answers([same, other, faint, same], [None] * 4)
    assert TASK.agreement(a, b).tolist() == [1, 0, 1, 0]
    assert TASK.agreement(b, a).tolist() == [1, 0, 1, 0]


def test_an_answer_is_shown_by_class_and_score():
    many = found([[0, 0, 1, 1]] * 6, [0, 1, 1, 1, 1, 5], [0.98, 0.71, 0.5, 0.4, 0.35, 0.1])
    given_ = answers([many, found([[0, 0, 1, 1]], [7], [0.5]), found([], [], [])], [None] * 3)
    names = ("person", "dog")
    assert TASK.show(given_, 0, names) == "5 boxes: person 0.98, dog 0.71, dog 0.50, dog 0.40, …"
    assert TASK.show(given_, 1, names) == "1 box: class 7 0.50"
    assert TASK.show(given_, 2, names) == "no boxes of score ≥ 0.3"


def test_what_is_left_out_is_noted():
    said = [truth([[0, 0, 9, 9]], [0])]
    judged = TASK.judgement(answers([found([[0, 0, 9, 9]], [0], [0.9], dropped=1200)], said))
    assert judged.notes == (
        "figures are averages over the classes with true boxes, which are 1",
        "1,200 boxes of classes that the dataset does not have were left out",
    )
    crowd = TASK.judgement(answers([found([[0, 0, 9, 9]], [0], [0.9])], [truth([[0, 0, 9, 9]], [0], crowds=[True])]))
    assert crowd.notes == ("no image has a true box that counts (crowds do not)",)


def setup(roles=ROLES, preprocess=(), steps=(BOXES,), **spec):
    named = {"labels", "label_map"} & set(spec)
    output = Output(task="detection", parts={role: role for role in roles}, postprocess=steps,
                    **{name: spec.pop(name) for name in named})  # fmt: skip
    spec.setdefault("inputs", (Input(shape=(None, 3, None, None), preprocess=preprocess),))
    return OutputSetup(output=output, tensors={role: TensorSpec(role, (None,), "float32") for role in roles}, **spec)


def read(numbers, memos=(IMAGE,), **spec):
    count = len(numbers)
    raw = {
        "boxes": np.tile(np.array([0, 0, 5, 5], np.float32), (1, count, 1)),
        "classes": np.array([numbers], np.float32),
        "scores": np.linspace(0.9, 0.5, count, dtype=np.float32)[None],
    }
    (image,) = TASK.reader(setup(**spec))(raw, memos)
    return image


def test_classes_become_those_of_the_dataset_and_others_are_dropped_and_counted():
    translation = np.array([1, -1, 0])
    image = read([0, 1, 2, 2], classes=("dog", "person"), translation=translation)
    assert image.image.classes.tolist() == [1, 0, 0]
    assert image.dropped == 1
    # A label_map need not name every class of the model.
    image = read([0, 7], classes=("dog", "person"), translation=translation, label_map={0: 1, 2: 0})
    assert (image.image.classes.tolist(), image.dropped) == ([1], 1)
    assert read([0, 7]).image.classes.tolist() == [0, 7]


def test_classes_that_the_dataset_cannot_have_are_refused():
    with pytest.raises(ManifestError, match="answers class 85, but the dataset has only the classes 0 to 79"):
        read([3, 85], classes=tuple(map(str, range(80))))
    with pytest.raises(ManifestError, match="label_map names the dataset's class 2, but it has only"):
        read([0], classes=("dog", "person"), translation=np.array([2]), label_map={0: 2})


def test_an_image_keeps_the_300_best_boxes_of_the_dataset():
    numbers = np.arange(1000) % 2
    image = read(numbers, classes=("dog",), translation=np.array([0, -1]))
    assert len(image.image.scores) == 300
    assert image.dropped == 500
    assert image.image.scores[-1] == pytest.approx(0.9 - 0.4 * 598 / 999, abs=1e-6)


def test_a_place_that_is_lost_is_refused():
    with pytest.raises(ManifestError, match="back into the image after center_crop"):
        TASK.reader(setup(preprocess=({"op": "center_crop", "size": (8, 8)},)))
    with pytest.raises(ManifestError, match="only into the single image that a model takes"):
        TASK.reader(setup(inputs=(Input(shape=(None, 4), modality="array"),)))
    with pytest.raises(ManifestError, match="Where the image lies on the model's canvas is unknown"):
        read([0], memos=(None,))


def test_answers_of_a_dataset_without_truths_can_be_asked_for():
    bare = Answers("out", "detection", TASK.keep(drawn(0, 3)[0], None))
    assert TASK.scores(bare, np.full(3, -1)).shape == (3,)
    assert len(list(detected(bare))) == 3
