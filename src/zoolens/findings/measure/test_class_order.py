"""Models that list the dataset's classes in another order: their figures must be those of the model in its order."""

import json
from contextlib import closing

import numpy as np
import pytest
from PIL import Image

from zoolens.base.errors import ZoolensError
from zoolens.base.store.records import ModelRecord
from zoolens.base.store.store import open_store
from zoolens.findings.comparisons.compare import compare_runs
from zoolens.findings.comparisons.compatibility import compatible
from zoolens.findings.comparisons.reproduce import reproduce
from zoolens.findings.measure.class_order import ClassOrder, class_order, data_classes, judged_right, stored_translation
from zoolens.findings.measure.evaluate import evaluate
from zoolens.findings.measure.jobs import RunOptions, plan_jobs
from zoolens.findings.measure.predictions import KIND
from zoolens.inventory.catalog.lookup import find_all
from zoolens.inventory.datasets.imagenet import imagenet_classes
from zoolens.inventory.datasets.opening import open_dataset

CLASSES = ("ant", "bee", "crab", "dove", "emu", "fox")
ORDER = (3, 0, 5, 1, 4, 2)  # place i of the reordered model holds this class
NAMES = [CLASSES[place] for place in ORDER]


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    with open_store(tmp_path / "store.sqlite") as opened:
        yield opened


@pytest.fixture
def data(tmp_path):
    """120 inputs; what the fake model reads from the first pixel is the label, but for every fifth."""
    pixels = np.random.default_rng(5).integers(0, 6 * len(CLASSES), (120, 4, 4)).astype(np.float32)
    labels = pixels[:, 0, 0].astype(np.int64) % len(CLASSES)
    labels[::5] = (labels[::5] + 1) % len(CLASSES)
    np.savez(tmp_path / "animals.npz", x=pixels, y=labels)
    return f"{tmp_path / 'animals.npz'}?classes={','.join(CLASSES)}"


def write_model(folder, name, order, shape=(4, 4), **output):
    """A classifier that is right on four inputs of five; its outputs in this order."""
    (folder / f"{name}.json").write_text(json.dumps({"classes": 6, "input": list(shape), "behaviour": "label_leak"}))
    outputs = json.dumps([{"postprocess": [{"op": "select", "indices": list(order)}], **output}])
    (folder / f"{name}.yaml").write_text(
        f"zoolens: 1\nname: {name}\nversion: 1.0.0\n"
        f"inputs:\n  - {{modality: array, shape: {json.dumps([None, *shape])}}}\n"
        f"outputs: {outputs}\n"
        f"assets:\n  - {{format: fake, files: [{{location: {name}.json}}]}}\n"
    )
    return folder / f"{name}.yaml"


def measured(store, path, data):
    (outcome,) = evaluate([path], data, batches=(), cold=False, store=store)
    assert not outcome.errors
    return outcome


def figures(store, run):
    return {(one.metric, one.scope): one.value for one in store.observations(run.id) if one.unit or one.metric == "nll"}


def labels_file(folder):
    (folder / "names.txt").write_text("\n".join(NAMES) + "\n")
    return {"labels_file": "names.txt"}


SPELLINGS = {
    "labels": lambda folder: {"labels": NAMES},
    "labels in other letters": lambda folder: {"labels": [f"  {name.upper()}" for name in NAMES]},
    "a file of labels": labels_file,
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_figure_is_that_of_the_same_model_in_the_datas_order(store, data, tmp_path, spelling):
    plain = measured(store, write_model(tmp_path, "plain", range(6), labels=list(CLASSES)), data).run
    other = measured(store, write_model(tmp_path, "other", ORDER, **SPELLINGS[spelling](tmp_path)), data).run
    wanted, found = figures(store, plain), figures(store, other)
    assert wanted["top1", ""] > 0.7
    assert {name for name, _ in wanted} >= {"top1", "top5", "recall", "ece", "nll"}
    assert found == {key: pytest.approx(value, abs=1e-6) for key, value in wanted.items() if key[0] != "file_size"} | {
        ("file_size", ""): found["file_size", ""]
    }
    assert compare_runs(store, plain, other).answers.agreement == 1
    assert "class_order" in other.stack.identity
    assert "class_order" not in plain.stack.identity  # runs that were right keep their key


def test_other_names_in_the_file_are_another_run(store, data, tmp_path):
    path = write_model(tmp_path, "other", ORDER, **labels_file(tmp_path))
    first = measured(store, path, data).run
    (tmp_path / "names.txt").write_text("\n".join(reversed(NAMES)) + "\n")
    second = measured(store, path, data).run
    assert second.id != first.id
    assert figures(store, second)["top1", ""] < 0.5


def test_a_label_map_is_obeyed(store, data, tmp_path):
    path = write_model(tmp_path, "mapped", ORDER, labels=NAMES, label_map=dict(enumerate(ORDER)))
    run = measured(store, path, data).run
    assert figures(store, run)["top1", ""] > 0.7
    assert "class_order" not in run.stack.identity


def test_names_that_stand_for_two_classes_are_warned_about(store, tmp_path):
    np.savez(tmp_path / "animals.npz", x=np.zeros((30, 4, 4), np.float32), y=np.arange(30) % 6)
    data = f"{tmp_path / 'animals.npz'}?classes=ant,crane,crane,dove,emu,fox"
    path = write_model(tmp_path, "cranes", range(6), labels=["crane", "ant", "crane", "dove", "emu", "fox"])
    outcome = measured(store, path, data)
    assert any("'crane' stands for several classes" in warning for warning in outcome.warnings)


@pytest.fixture
def old_run(store, data, tmp_path):
    """What an evaluation of before has left: answers in the model's order, judged in the data's."""
    silent = measured(store, write_model(tmp_path, "other", ORDER), data).run  # names no classes, as if none were read
    manifest = {**silent.model.manifest, "outputs": [{"labels": NAMES}]}
    run = store.begin_run(
        ModelRecord("old", "folder:other@1.0.0", "fake", manifest),
        silent.dataset,
        silent.stack,
    )
    store.add_part(run.id, KIND, 0, store.table(silent.id, KIND))
    store.finish_stage(run.id, "predictions")
    store.finish_stage(run.id, "metric:topk", [one for one in store.observations(silent.id) if one.metric == "top1"])
    return store.run(run.id)


def test_figures_of_before_are_not_shown_and_answers_of_before_are_translated(store, data, tmp_path, old_run):
    (wrong,) = store.observations(old_run.id)
    assert wrong.value < 0.5
    assert stored_translation(old_run).tolist() == list(ORDER)
    assert judged_right(old_run, [wrong]) == []
    plain = measured(store, write_model(tmp_path, "plain", range(6), labels=list(CLASSES)), data).run
    report = compare_runs(store, plain, old_run)
    assert report.answers.agreement == 1
    assert "top1" not in [one.metric for one in report.figures]


def test_names_of_the_data_that_are_put_right_later_count(store, tmp_path):
    """The data's content is the same whatever its classes are called."""
    path = write_model(tmp_path, "plain", range(6), labels=list(CLASSES))
    pixels = np.random.default_rng(5).integers(0, 6 * len(CLASSES), (120, 4, 4)).astype(np.float32)
    np.savez(tmp_path / "animals.npz", x=pixels, y=pixels[:, 0, 0].astype(np.int64) % len(CLASSES))
    names = tmp_path / "classes.txt"
    data = f"{tmp_path / 'animals.npz'}?classes=classes.txt"
    names.write_text("\n".join((CLASSES[1], CLASSES[0], *CLASSES[2:])))
    mistaken = measured(store, path, data).run
    names.write_text("\n".join(CLASSES))
    right = measured(store, path, data).run
    assert figures(store, mistaken)["top1", ""] < 0.8
    assert figures(store, right)["top1", ""] == 1
    assert [one.value for one in judged_right(right, store.observations(right.id)) if one.metric == "top1"] == [1]
    report = compare_runs(store, right, mistaken)
    assert report.answers.only_b == 0
    assert report.cause.startswith("Classes were matched by other names in A than in B")
    assert "class names differ" in compatible(right, mistaken).reasons[0]
    with pytest.raises(ZoolensError, match="have changed since run"):
        reproduce(mistaken.id, store=store)
    assert data_classes(right) == CLASSES
    assert {one.details["class"] for one in store.observations(right.id, metric="recall", scope="class=0")} == {"ant"}


def test_lists_that_cannot_be_matched_but_have_a_name_in_different_places_are_warned_about(store, data, tmp_path):
    other = ["bee", "ant", "crab", "dove", "emu", "wolf"]
    outcome = measured(store, write_model(tmp_path, "spelt", range(6), labels=other), data)
    assert any(
        "class 0 of the model and class 1 of the dataset are both called 'bee'" in one for one in outcome.warnings
    )
    same_places = ["ant", "bee", "crab", "dove", "emu", "wolf"]
    assert not measured(store, write_model(tmp_path, "alike", range(6), labels=same_places), data).warnings


def test_a_class_file_of_some_of_the_models_classes_is_looked_up_by_name(store, tmp_path):
    path = write_model(tmp_path, "plain", range(6), labels=list(CLASSES))
    pixels = np.random.default_rng(5).integers(0, 2, (60, 4, 4)).astype(np.float32) * 3 + 2  # a crab or a fox
    labels = (pixels[:, 0, 0] == 2).astype(np.int64)
    np.savez(tmp_path / "two.npz", x=pixels, y=labels)
    outcome = measured(store, path, f"{tmp_path / 'two.npz'}?classes=fox,crab")
    assert figures(store, outcome.run)["top1", ""] == 1
    unknown = measured(store, path, f"{tmp_path / 'two.npz'}?classes=red,green")
    assert any("2 classes, taken for the model's first outputs" in note for note in unknown.notes)


def test_folders_that_are_renamed_are_evaluated_anew(store, tmp_path):
    """The alphabet gives the same numbers before and after; the names do not."""
    path = write_model(tmp_path, "plain", range(6), (4, 4, 1), labels=list(CLASSES))
    folder = tmp_path / "pictures"
    for name, pixel in (("bee", 0), ("fox", 5)):
        (folder / name).mkdir(parents=True)
        Image.fromarray(np.full((4, 4), pixel, np.uint8)).save(folder / name / "one.png")
    data = f"imagefolder:{folder}?gray=keep"
    assert figures(store, measured(store, path, data).run)["top1", ""] == 0.5
    (folder / "bee").rename(folder / "ant")
    assert figures(store, measured(store, path, data).run)["top1", ""] == 1


def test_what_is_looked_up_has_a_key_of_its_own(store, tmp_path):
    """The thousand classes in their own order are taken as they come, whatever a model has before or behind them."""
    np.savez(tmp_path / "images.npz", x=np.zeros((2, 4, 4), np.float32), y=np.arange(2))
    (tmp_path / "classes.txt").write_text("\n".join(imagenet_classes()))
    path = write_model(tmp_path, "plain", range(6))
    job = plan_jobs(find_all([str(path)]), RunOptions())[0][0]
    with closing(open_dataset(f"{tmp_path / 'images.npz'}?classes=classes.txt")) as dataset:
        assert class_order(job, dataset) == ClassOrder()
    (tmp_path / "classes.txt").write_text("\n".join(imagenet_classes()[5:9]))
    with closing(open_dataset(f"{tmp_path / 'images.npz'}?classes=classes.txt")) as dataset:
        order = class_order(job, dataset)
        assert order.lookup
        assert order.key
