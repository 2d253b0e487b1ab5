from __future__ import annotations

import math
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from zoolens.base.errors import ZoolensError
from zoolens.base.present.bars import Bars
from zoolens.base.store.records import DatasetRecord, Run
from zoolens.base.store.store import open_store
from zoolens.faces.cli import init, init_models
from zoolens.faces.cli.init_conclusion import (
    Question,
    choosing_query,
    conclude,
    in_this_order,
    least,
    shipping_sentence,
)
from zoolens.faces.cli.init_models import described_models
from zoolens.faces.cli.main import cli
from zoolens.findings.index.tables.rows import Figure, Row
from zoolens.findings.measure.plan import Outcome
from zoolens.findings.queries.answers.matches import Match
from zoolens.findings.queries.language.parser import parse
from zoolens.inventory.datasets.found_data import FoundData
from zoolens.inventory.datasets.opening import open_dataset
from zoolens.inventory.manifests.files import dump_manifest, read_manifest
from zoolens.inventory.manifests.schema import Manifest
from zoolens.inventory.zoos.demo import MODELS_FOLDER
from zoolens.inventory.zoos.undescribed import undescribed
from zoolens.testing.store_records import begin


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("ZOOLENS_STORE", raising=False)
    place = tmp_path / "mine"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


def refused(*arguments: str) -> ZoolensError:
    error = CliRunner().invoke(cli, ["init", *arguments]).exception
    assert isinstance(error, ZoolensError)
    return error


def test_an_empty_folder_is_told_what_it_lacks(folder):
    assert "There are no pictures" in refused().message
    assert "--data PATH" in (refused().hint or "")


def test_a_folder_that_is_not_there_leads_to_the_example(folder):
    assert "init --example" in (refused("absent").hint or "")


def test_without_a_terminal_missing_labels_are_an_error_that_names_the_option(folder):
    (folder / "photo.png").touch()
    assert "--labels FILE.csv" in (refused().hint or "")


def test_without_a_terminal_several_datasets_are_an_error_that_names_them(folder):
    for split in ("train", "val"):
        for name in ("cat", "dog"):
            (folder / split / name).mkdir(parents=True)
            (folder / split / name / "1.png").touch()
    error = refused()
    assert "train: 2 pictures" in error.message
    assert "val: 2 pictures" in error.message
    assert "--data train" in (error.hint or "")


def test_on_a_terminal_the_same_is_asked(folder, monkeypatch):
    monkeypatch.setattr(init, "on_terminal", lambda: True)
    for split in ("train", "val"):
        for name in ("cat", "dog"):
            (folder / split / name).mkdir(parents=True)
            (folder / split / name / "1.png").touch()
    done = CliRunner().invoke(cli, ["init"], input="2\n")
    assert "Data: val (2 pictures" in done.stdout
    assert "There are no models" in str(done.exception)


def test_a_file_that_is_no_model_is_left_out_with_the_reason(folder):
    pytest.importorskip("onnxruntime")
    (folder / "cat").mkdir()
    (folder / "dog").mkdir()
    for name in ("cat/1.png", "dog/2.png"):
        (folder / name).touch()
    (folder / "broken.onnx").write_bytes(b"no model")
    done = CliRunner().invoke(cli, ["init"])
    assert "Left out: broken.onnx" in done.stderr
    assert "There is no model with a manifest" in str(done.exception)


def test_the_example_has_models_without_manifests_and_labelled_pictures(folder):
    assert CliRunner().invoke(cli, ["init", "--example", "shoes"]).exit_code == 0
    assert len(list((folder / "shoes").glob("*.onnx"))) == 5
    assert list((folder / "shoes").glob("*.yaml")) == []
    dataset, demo = open_dataset(folder / "shoes" / "photos"), open_dataset("demo", limit=1000)
    assert dataset.labels().tolist() == demo.labels().tolist()
    assert (dataset.read(7).value[..., 0] == demo.read(7).value.squeeze()).all()


def test_the_query_that_chooses_parses_with_any_name_of_data():
    parsed = parse(choosing_query("my photos/test[:20]", "0123456789abcdef", "90.4"))
    assert parsed.data == "my photos/test[:20]#01234567"
    assert {"accuracy", "latency_p50"} <= set(parsed.show)
    assert parse(choosing_query("Anna's", "0123456789abcdef", "90")).data == "Anna's#01234567"


@pytest.mark.parametrize(
    ("right", "size", "lose", "wanted"),
    [(914, 1000, 1.0, "90.4"), (560, 725, 1.0, "76.24"), (3, 10, 100.0, "0"), (9, 10, 0.0, "90")],
)
def test_the_accuracy_that_is_asked_for_admits_what_is_measured_and_no_input_less(right, size, lose, wanted):
    dataset = DatasetRecord("f", "photos", size)
    text = least({"best": right / size}, lose, dataset)
    assert text == wanted
    bound = parse(choosing_query("photos", "0" * 16, text)).on[0].quantity.value
    fewest = math.ceil(right - lose / 100 * size - 1e-9)
    assert (fewest - 1) / size < bound <= max(fewest, 0) / size


def match(ref: str, **figures: float) -> Match:
    known = {name: Figure(value, "s" if "latency" in name else "fraction") for name, value in figures.items()}
    row = Row(key=ref, model=ref, ref=ref, attributes={"runtime": "onnxruntime"}, figures=known)
    return Match(row, None, None, known, {})


def test_the_sentence_has_the_pair_and_its_interval():
    quick = match("file:quick@1", latency_p50=0.001, accuracy=0.90)
    sentence = shipping_sentence(quick, "file:best in litert with 91.0 %", "-1.00 points [-2.10, +0.10]")
    assert sentence.startswith("Ship file:quick in onnxruntime: 90.0 % in 1 ms. The most accurate is file:best")
    assert "-1.00 points [-2.10, +0.10]" in sentence
    assert shipping_sentence(quick, "", "").endswith(
        "None is more accurate, and none that is accurate enough is quicker."
    )


def test_classes_in_the_order_of_the_alphabet_are_named_in_a_command(folder):
    for name in ("cat", "dog"):
        (folder / name).mkdir()
        (folder / name / "1.png").touch()
    assert in_this_order(".") == ".?classes=cat,dog"
    dataset = open_dataset(".?classes=cat,dog")
    assert (dataset.classes, dataset.alphabetical) == (("cat", "dog"), False)
    (folder / "a,b").mkdir()
    assert in_this_order(".") is None


def test_models_of_one_name_get_names_of_their_own(folder, monkeypatch):
    for name in ("resnet", "mobilenet"):
        (folder / name).mkdir()
        shutil.copyfile(MODELS_FOLDER / "lenet-narrow.onnx", folder / name / "model.onnx")
    monkeypatch.setattr(init_models, "draft_manifest", lambda path: undrafted(path))
    with Bars() as bars:
        models = described_models(folder, FoundData("photos", folder / "photos", ""), bars)
    assert {model.name for model in models} == {"mobilenet-model", "resnet-model"}
    assert (folder / "resnet" / "resnet-model.yaml").is_file()
    with Bars() as bars:  # again: the manifests are found, and none is written
        assert described_models(folder, FoundData("photos", folder / "photos", ""), bars) == models


def undrafted(path: Path) -> Manifest:
    return undescribed(path.stem, "onnx", {"model": path.name}).model_copy(update={"attributes": {}})


def test_a_manifest_whose_name_another_has_is_left_out(folder, capsys):
    for name in ("a", "b"):
        shutil.copyfile(MODELS_FOLDER / "lenet-narrow.onnx", folder / f"{name}.onnx")
        manifest = undrafted(Path(f"{name}.onnx")).model_copy(update={"name": "same"})
        (folder / f"{name}.yaml").write_text(dump_manifest(manifest))
    with Bars() as bars:
        (model,) = described_models(folder, FoundData("photos", folder / "photos", ""), bars)
    assert model.manifest.name == "a.yaml"
    assert "Left out: b.yaml: its name, same, is that of a.yaml too" in capsys.readouterr().err


@pytest.mark.slow  # evaluates two models
def test_from_a_folder_to_the_model_to_ship(folder):
    pytest.importorskip("onnxruntime")
    CliRunner().invoke(cli, ["init", "--example", "shoes"])
    for path in (folder / "shoes").glob("*.onnx"):
        path.unlink()
    for name in ("lenet-wide", "mlp-small"):
        for suffix in (".onnx", ".tflite", ".yaml"):
            shutil.copyfile(MODELS_FOLDER / f"{name}{suffix}", folder / "shoes" / f"{name}{suffix}")
    quick = ("--limit", "300", "--latency-seconds", "0.05", "-r", "onnxruntime")
    done = CliRunner().invoke(cli, ["init", "shoes", *quick])
    assert done.exit_code == 0, done.output
    assert "Ship file:lenet-wide in onnxruntime" in done.stdout
    generous = CliRunner().invoke(cli, ["init", "shoes", *quick, "--lose", "100"])
    assert "Ship file:mlp-small in onnxruntime" in generous.stdout


@pytest.mark.slow  # evaluates a model
def test_guesses_are_said_and_forbid_a_conclusion(folder):
    pytest.importorskip("onnxruntime")
    CliRunner().invoke(cli, ["init", "--example", "shoes"])
    for path in (folder / "shoes").glob("*.onnx"):
        if path.stem != "mlp-wide":
            path.unlink()
    done = CliRunner().invoke(
        cli, ["init", "shoes", "--limit", "200", "--latency-seconds", "0.05", "-r", "onnxruntime"]
    )
    assert "pixels are scaled to 0…1 (not known: check)" in done.stderr
    assert "Do not ship yet" in done.stdout
    assert "Ship file" not in done.stdout
    assert read_manifest(folder / "shoes" / "mlp-wide.yaml").attributes["guessed"]


def outcome(run: Run, *guessed: str) -> Outcome:
    return Outcome(f"{run.ref} in onnxruntime", run=run, guessed=guessed)


@pytest.mark.parametrize(
    ("guesses", "checked", "said", "not_said"),
    [
        (("RGB order",), False, ["Let the doctor try", "init --doctor"], ["Only the alphabet"]),
        (("RGB order",), True, ["could not settle"], ["Let the doctor try"]),
        (("classes by the alphabet",), False, ["classes.txt", "again --data .?classes=cat,dog"], ["doctor"]),
        # A doctor who settled nothing may have found that the order is wrong.
        (("RGB order", "classes by the alphabet"), True, ["could not settle", "classes.txt"], ["?classes="]),
    ],
)
def test_what_takes_no_part_has_a_remedy_that_fits(folder, capsys, guesses, checked, said, not_said):
    for name in ("cat", "dog"):
        (folder / name).mkdir()
        (folder / name / "1.png").touch()
    with open_store() as store:
        run = begin(store, "file:net@1.0.0")
        store.set_resolved(run.id, {"origin": {"manifest": {"attributes": {"guessed": ["RGB order"]}}}})
        run = store.run(run.id)

    def again(*more: str, data: str = "") -> str:
        return f"zoolens init{' again --data ' + data if data else ''} {' '.join(more)}"

    conclude([outcome(run, *guesses)], Question(None, 1.0, ".", again, checked))
    text = capsys.readouterr().out
    assert "Do not ship yet: the accuracies of file:net may be wrong" in text
    assert all(part in text for part in said)
    assert not any(part in text for part in not_said)
