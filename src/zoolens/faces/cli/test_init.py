from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from zoolens.base.errors import ZoolensError
from zoolens.faces.cli import init
from zoolens.faces.cli.init_conclusion import choosing_query, shipping_sentence
from zoolens.faces.cli.main import cli
from zoolens.findings.index.tables.rows import Figure, Row
from zoolens.findings.queries.answers.matches import Match
from zoolens.findings.queries.language.parser import parse
from zoolens.inventory.datasets.opening import open_dataset
from zoolens.inventory.manifests.files import read_manifest
from zoolens.inventory.zoos.demo import MODELS_FOLDER


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
    assert "train (2 pictures" in error.message
    assert "val (2 pictures" in error.message
    assert "--data 'train'" in (error.hint or "")


def test_on_a_terminal_the_same_is_asked(folder, monkeypatch):
    monkeypatch.setattr(init, "_on_terminal", lambda: True)
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
    assert "None of the models could be opened" in str(done.exception)


def test_the_example_has_models_without_manifests_and_labelled_pictures(folder):
    assert CliRunner().invoke(cli, ["init", "--example", "shoes"]).exit_code == 0
    assert len(list((folder / "shoes").glob("*.onnx"))) == 5
    assert list((folder / "shoes").glob("*.yaml")) == []
    dataset, demo = open_dataset(folder / "shoes" / "photos"), open_dataset("demo", limit=1000)
    assert dataset.labels().tolist() == demo.labels().tolist()
    assert (dataset.read(7).value[..., 0] == demo.read(7).value.squeeze()).all()


def test_the_query_that_chooses_parses_with_any_name_of_data():
    parsed = parse(choosing_query("my photos/test[:20]", "0123456789abcdef", 0.5))
    assert parsed.data == "my photos/test[:20]#01234567"


def match(ref: str, **figures: float) -> Match:
    known = {name: Figure(value, "s" if "latency" in name else "fraction") for name, value in figures.items()}
    row = Row(key=ref, model=ref, ref=ref, attributes={"runtime": "onnxruntime"}, figures=known)
    return Match(row, None, None, known, {})


def test_the_quickest_is_shipped_and_none_where_one_was_not_timed():
    best = match("file:best@1", latency_p50=0.003, accuracy=0.91)
    quick = match("file:quick@1", latency_p50=0.001, accuracy=0.90)
    sentence = shipping_sentence(best, [quick], 1000)
    assert sentence.startswith("Ship file:quick in onnxruntime: 90.0 % on these 1,000 pictures in 1 ms, where the most")
    assert shipping_sentence(quick, [best], 1000).startswith("Ship file:quick in onnxruntime: none of the others")
    assert "is not known: file:new in onnxruntime was not timed" in shipping_sentence(best, [match("file:new@1")], 1000)


def test_the_query_shows_what_the_sentence_needs():
    assert {"accuracy", "latency_p50"} <= set(parse(choosing_query("photos", "0123456789abcdef", 1)).show)


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
