"""Folders of images without a class file: their classes are found by name, or the evaluation is refused."""

import numpy as np
import pytest
from PIL import Image

import zoolens
from zoolens.findings.measure.evaluate import evaluate

pytestmark = pytest.mark.usefixtures("trusted_models")

FOLDERS = {"n01440764": 0, "n02102040": 217, "n01742172": 61}  # as in Imagenette; index among ImageNet's classes


@pytest.fixture
def pictures(tmp_path):
    """8×8 images whose first pixel is the class that the label_leak behaviour answers, in one folder a class."""

    def write(folders, count=10):
        random = np.random.default_rng(0)
        for name, answer in folders.items():
            (tmp_path / "pictures" / name).mkdir(parents=True)
            for number in range(count):
                image = random.integers(0, 256, (8, 8), np.uint8)
                image[0, 0] = answer
                Image.fromarray(image).save(tmp_path / "pictures" / name / f"{number}.png")
        return f"imagefolder:{tmp_path / 'pictures'}?gray=keep"

    return write


def top1(store, outcome):
    assert not outcome.errors, outcome.errors
    (found,) = store.observations(outcome.run.id, metric="top1")
    return found.value


def run(model, data, store):
    (outcome,) = evaluate([str(model)], data, store=store, batches=(), cold=False)
    return outcome


def test_wordnet_ids_are_found_among_the_outputs_of_an_imagenet_model(home, fake_model, pictures):
    store, data = zoolens.open_store(), pictures(FOLDERS)
    outcome = run(fake_model(classes=1000, behaviour="label_leak"), data, store)
    assert top1(store, outcome) == 1.0
    assert not outcome.warnings
    assert "class_order" in outcome.run.stack.identity


def test_models_of_other_orders_answer_alike_and_can_be_compared(home, fake_model, pictures):
    store, data = zoolens.open_store(), pictures({"cat": 2, "dog": 0, "ship": 1})
    one = run(fake_model("one", classes=3, labels=["dog", "ship", "cat"], behaviour="label_leak"), data, store)
    assert top1(store, one) == 1.0
    equal = zoolens.compare(one.run.id, one.run.id, store=store).answers
    assert (equal.agreement, equal.both_right) == (1.0, 30)
    found = zoolens.equiv(one.run.id, one.run.id, store=store)
    assert found is not None


def test_an_order_nobody_knows_is_refused_and_nothing_is_judged(home, zoolens, fake_model, pictures):
    data = pictures({"red": 0, "green": 1, "blue": 2})
    done = zoolens("eval", fake_model(classes=10, behaviour="label_leak"), "-d", data, "--no-cold")
    assert done.returncode == 1
    assert "3 classes without a known order and the model has 10 outputs" in done.stderr
    assert "0.0 %" not in done.stdout


def test_an_answer_that_is_never_right_is_no_tick(home, fake_model, pictures):
    store, data = zoolens.open_store(), pictures({"a": 1, "b": 2, "c": 0})
    outcome = run(fake_model(classes=3, behaviour="label_leak"), data, store)
    assert top1(store, outcome) == 0.0
    assert "no better than guessing" in outcome.warnings[0]


def test_what_was_judged_by_the_alphabet_before_is_measured_again(home, fake_model, pictures):
    store, data = zoolens.open_store(), pictures(FOLDERS)
    outcome = run(fake_model(classes=1000, behaviour="label_leak"), data, store)
    assert "class_order" in outcome.run.stack.identity
    with_file = run(fake_model("plain", classes=1000, behaviour="label_leak"), "demo", store)
    assert "class_order" not in with_file.run.stack.identity


def test_the_doctor_says_that_nothing_works_and_finds_orders_people_use(home, fake_model, pictures):
    store = zoolens.open_store()
    folders = {str(number): sorted(map(str, range(12))).index(str(number)) for number in range(12)}
    data = pictures(folders)
    model = fake_model(classes=12, behaviour="label_leak")  # trained on folders sorted as text: 0, 1, 10, 11, 2 …
    found = zoolens.doctor(str(model), data, store=store)
    assert found.status == "wrong"
    assert "label order" in [fault.factor for fault in found.faults]
    assert "sorted as text" in found.sentence


@pytest.mark.slow
def test_the_doctor_sees_an_order_that_it_cannot_name(home, fake_model, pictures):
    store, data = zoolens.open_store(), pictures({"a": 3, "b": 0, "c": 4, "d": 1, "e": 2}, count=30)
    found = zoolens.doctor(str(fake_model(classes=5, behaviour="label_leak")), data, store=store)
    assert found.status == "suspicious", found.sentence
    assert "The manifest is right" not in found.sentence
    assert "anything works" in found.sentence or "Nothing works" in found.sentence
    assert "The label order is wrong" in found.sentence


def test_the_doctor_of_a_model_that_knows_nothing_suspects_labels_and_weights(home, fake_model, pictures):
    store, data = zoolens.open_store(), pictures({"a": 0, "b": 1, "c": 2}, count=40)
    found = zoolens.doctor(str(fake_model(classes=3, seed=3)), data, store=store)
    assert found.status == "suspicious"
    assert "Suspect the label order" in found.sentence


def test_an_order_by_the_alphabet_is_always_said(home, fake_model, pictures):
    store, data = zoolens.open_store(), pictures({"cat": 0, "dog": 1, "ship": 2})
    outcome = run(fake_model(classes=3, behaviour="label_leak"), data, store)
    assert top1(store, outcome) == 1.0
    assert outcome.guessed == ("classes of pictures are outputs by the alphabet: 'cat' is 0, 'ship' 2",)
    named = run(fake_model("named", classes=3, labels=["cat", "dog", "ship"], behaviour="label_leak"), data, store)
    assert named.guessed == ()


def test_numbers_in_names_that_the_alphabet_orders_otherwise_are_a_warning(home, fake_model, pictures):
    store = zoolens.open_store()
    data = pictures({f"class_{number}": number for number in range(12)}, count=4)
    outcome = run(fake_model(classes=12, behaviour="label_leak"), data, store)
    assert top1(store, outcome) < 0.5
    assert any("'class_11' comes before 'class_2', by number behind it" in text for text in outcome.warnings)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("class_to_idx.json", '{"ship": 0, "cat": 2, "dog": 1}'),
        ("class_indices.json", '{"0": "ship", "1": "dog", "2": "cat"}'),
        ("classes.json", '["ship", "dog", "cat"]'),
        ("labels.txt", "ship\ndog\ncat\n"),
    ],
)
def test_the_order_that_a_training_wrote_beside_its_data_is_read(home, fake_model, pictures, tmp_path, name, text):
    store, data = zoolens.open_store(), pictures({"cat": 2, "dog": 1, "ship": 0})
    (tmp_path / "pictures" / name).write_text(text)
    outcome = run(fake_model(classes=3, behaviour="label_leak"), data, store)
    assert top1(store, outcome) == 1.0
    assert not outcome.guessed


def test_an_accuracy_far_below_the_confidence_is_a_warning(home, fake_model, pictures):
    store = zoolens.open_store()
    data = pictures({"b": 0, "c": 1, "a": 2, "d": 3})  # by the alphabet only d is right
    outcome = run(fake_model(classes=4, behaviour="label_leak"), data, store)
    assert top1(store, outcome) == 0.25
    assert any("suspect the order of the" in text for text in outcome.warnings)


def test_names_of_folders_in_another_form_of_unicode_are_the_same(home, fake_model, pictures, tmp_path):
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    store, data = zoolens.open_store(), pictures({decomposed: 1, "bar": 0})
    named = run(fake_model(classes=2, labels=[composed, "bar"], behaviour="label_leak"), data, store)
    assert "class_order" in named.run.stack.identity or not named.guessed
    (tmp_path / "pictures" / "classes.txt").write_text(f"bar\n{composed}\n")
    outcome = run(fake_model("other", classes=2, behaviour="label_leak"), data, store)
    assert top1(store, outcome) == 1.0
