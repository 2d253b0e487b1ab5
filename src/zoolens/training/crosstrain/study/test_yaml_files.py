from pathlib import Path

import numpy as np
import pytest

from zoolens.base.errors import DatasetError, UnknownName, ZoolensError
from zoolens.training.crosstrain.study.study_plan import Dimension, Plan
from zoolens.training.crosstrain.study.yaml_files import PlanError, check_plan, load_plan, load_recipe, read_settings
from zoolens.training.crosstrain.training.recipe import Recipe

PLAN = """\
name: tiny
frameworks: [torch, jax]
recipe:
  architecture: lenet
  dataset: {data}
  learning_rate: 1e-3
  batch_size: 16
  epochs: 1
space:
  - {{name: learning_rate, low: 1e-4, high: 1e-1, log: true}}
  - name: optimizer.epsilon
    choices: [1e-8, 1e-3]
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    np.savez(tmp_path / "data.npz", x=np.zeros((8, 16, 16, 1), np.uint8), y=np.arange(8) % 4)
    data = f"npz:{tmp_path / 'data.npz'}|npz:{tmp_path / 'data.npz'}"

    def written(*changes, text=PLAN):
        text = text.format(data=data) if text is PLAN else text
        for before, after in changes:
            assert before in text
            text = text.replace(before, after)
        path = tmp_path / "plan.yaml"
        path.write_text(text)
        return path

    return written


def test_a_plan_is_read_with_numbers_as_people_write_them(write):
    plan = load_plan(write())
    assert plan.recipe.learning_rate == 1e-3
    assert plan.space[1].choices == (1e-8, 1e-3)
    assert load_plan(str(write())) == plan


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (
            "learning_rate: 1e-3",
            "learning_rat: 1e-3",
            r"line 6: recipe.learning_rat is no field \(1 more.*Did you mean le",
        ),
        ("  batch_size: 16\n", "", "line 3: recipe.batch_size is missing."),
        ("batch_size: 16", "batch_size: many", "line 7: recipe.batch_size cannot be 'many': it should be a valid int"),
        ("epochs: 1", "epochs: 0", "line 8: recipe.epochs cannot be '0': it should be greater than or equal to 1"),
        ("epochs: 1", "mode: bibrary", "line 8: recipe.mode cannot be 'bibrary'.*1 more problem"),
        ("low: 1e-4", "low: 1", "line 10: .*learning_rate: low must be below high"),
        ("choices: [1e-8, 1e-3]", "log: true", r"line 11: .*space\[1\].*give either low and high, or choices"),
        (
            "learning_rate: 1e-3",
            "learning_rate: .inf",
            "line 6: recipe.learning_rate cannot be 'inf': it should be a fin",
        ),
        ("epochs: 1", "train_limit: 99999999999999999999", "line 8: the integer 9999.* is larger than 2"),
        ("name: tiny", "name: ti/ny", "line 1: name cannot be 'ti/ny'"),
        ("name: tiny", "name: tiny\nname: again", "line 2: 'name' is given twice"),
        ("name: tiny", "name: [tiny", "not valid YAML"),
        ("name: tiny", "name: &a tiny\nsearch: *a", "line 2: YAML aliases .* not allowed"),
    ],
)
def test_what_is_wrong_in_a_file_is_said_with_its_line(write, before, after, words):
    with pytest.raises(PlanError, match=words):
        load_plan(write((before, after)))


@pytest.mark.parametrize("text", ["", "- a\n", "[[[[[[[[", "{" * 5000, "\x00"])
def test_what_is_no_plan_at_all_is_said(write, text):
    with pytest.raises(PlanError, match=r"plan.yaml"):
        load_plan(write(text=text))


def test_a_plan_is_no_recipe_and_a_recipe_no_plan(write):
    with pytest.raises(PlanError, match="is a plan, not a recipe"):
        load_recipe(write())
    with pytest.raises(PlanError, match="is a recipe, not a plan"):
        load_plan(write(text="architecture: mlp\nlearning_rate: 0.1\nbatch_size: 4\nepochs: 1\n"))


def test_files_that_cannot_be_read_are_named(tmp_path):
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "large.yaml").write_text("#" * (1 << 19))
    for name in ("absent.yaml", "bytes.yaml", "large.yaml"):
        with pytest.raises(PlanError, match=name):
            load_recipe(tmp_path / name)
    with pytest.raises(PlanError, match="/dev/zero cannot be read: it is a device"):
        load_recipe("/dev/zero")


@pytest.mark.parametrize(
    ("before", "after", "kind", "words"),
    [
        ("lenet", "lenett", UnknownName, "no architecture named 'lenett'. Did you mean lenet"),
        ("[torch, jax]", "[torch, tensorflwo]", UnknownName, "no trainer named 'tensorflwo'. Did you mean tensorflow"),
        ("[torch, jax]", "[torch, torch]", ZoolensError, "two different trainers"),
        ("name: optimizer.epsilon", "name: optimizer.epsilom", UnknownName, "no hyperparameter named"),
        ("choices: [1e-8, 1e-3]", "choices: [1e-8, -1]", ZoolensError, "optimizer.epsilon cannot be -1"),
        ("low: 1e-4, high: 1e-1, log: true", "low: -1, high: 1", ZoolensError, "learning_rate cannot be -1"),
        ("name: optimizer.epsilon", "name: learning_rate", ZoolensError, "has learning_rate twice"),
        ("dataset: npz:", "dataset: npz:/nowhere", DatasetError, "nowhere"),
        ("name: tiny", "name: tiny\nsearch: {split: [epochs]}", UnknownName, "no dimension named 'epochs'"),
    ],
)
def test_names_and_ranges_are_checked_before_anything_is_trained(write, before, after, kind, words):
    with pytest.raises(kind, match=words):
        load_plan(write((before, after)))


def test_choices_of_architectures_are_checked_each(write):
    plan = load_plan(write())
    varied = plan.space[0].model_copy(update={"name": "architecture", "low": None, "high": None, "log": False})
    with pytest.raises(UnknownName, match="resnet9"):
        check_plan(plan.model_copy(update={"space": (varied.model_copy(update={"choices": ("mlp", "resnet9")}),)}))


def test_settings_are_numbers_where_they_look_like_numbers():
    found = read_settings(["learning_rate=1e-2", "epochs=3", "mode=library", "semantics.norm_momentum=.5"])
    assert found == {"learning_rate": 0.01, "epochs": 3, "mode": "library", "semantics.norm_momentum": 0.5}


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("epochs", "sets nothing"),
        ("epoch=3", "Did you mean epochs"),
        ("epochs=[1]", "no single"),
        ("epochs=", "no single"),
    ],
)
def test_bad_settings_are_refused(word, says):
    with pytest.raises(ZoolensError, match=says):
        read_settings([word])


@pytest.mark.parametrize("name", ["library", "aligned", "convnorm"])
def test_the_examples_are_plans_and_recipes(name, tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))
    path = Path(__file__).parents[5] / "examples" / "crosstrain" / f"{name}.yaml"
    try:
        found = load_recipe(path) if name == "convnorm" else load_plan(path).recipe
    except DatasetError as error:
        pytest.skip(f"TRAINING DATA ABSENT: {error}")
    assert found.architecture == "convnorm"


@pytest.mark.parametrize("name", ["batch_size", "epochs", "seed", "train_limit", "test_limit"])
def test_what_is_counted_needs_a_range_of_whole_numbers(name):
    recipe = Recipe(architecture="mlp", dataset="demo", learning_rate=0.1, batch_size=8, epochs=1)
    told = {"name": name, "low": 1, "high": 400}
    plan = Plan(name="p", recipe=recipe, space=(Dimension(**told),))
    with pytest.raises(PlanError, match=rf"{name} is a whole number, .* Add integer: true"):
        check_plan(plan)
    check_plan(plan.model_copy(update={"space": (Dimension(**told, integer=True),)}))
