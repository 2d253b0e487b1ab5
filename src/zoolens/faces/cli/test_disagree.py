import json

import numpy as np
import pytest
from click.testing import CliRunner

from zoolens.base.errors import DatasetError
from zoolens.base.store.store import open_store
from zoolens.faces.cli.disagree import command
from zoolens.findings.comparisons.conftest import one_hot, write_run
from zoolens.findings.measure.evaluate import evaluate
from zoolens.testing.language_model_runs import answered, written_book

LABELS = np.arange(20) % 10


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "store.sqlite"
    with open_store(path) as store:
        for name, count in (("me", 0), ("[b]near", 2), ("far", 9)):
            answers = np.where(np.arange(20) < count, (LABELS + 1) % 10, LABELS)
            write_run(store, name, one_hot(answers), LABELS, classes=[f"[i]{i}" for i in range(10)])
        models = ["demo:mlp-small", "demo:lenet-narrow"]
        evaluate(models, "demo", runtimes=["onnxruntime"], limit=40, batches=(), cold=False, store=store)
    return path


@pytest.fixture(scope="module")
def invoke(path):
    return lambda *args: CliRunner().invoke(command, [*args, "--store", str(path)])


def test_contested_inputs_are_listed_with_truth_and_votes(invoke):
    result = invoke("me", "--with", "2", "--limit", "3")
    assert result.exit_code == 0, result.output
    assert "1 zoo:[b]near" in result.stdout
    assert "agrees on 90.0 %" in result.stdout
    assert "9 of 20 inputs of digits (45.0 %) get different answers" in result.stdout
    lines = [line.split() for line in result.stdout.splitlines()[-3:]]
    assert lines[0] == ["0", "[i]0", "0.92", "[i]0", "90", "%", "[i]1", "90", "%", "[i]1", "90", "%"]


def test_json_and_csv(invoke, tmp_path):
    table = tmp_path / "contested.csv"
    result = invoke("me", "--with", "1", "--json", "--csv", str(table))
    data = json.loads(result.stdout)
    assert [one["model"] for one in data["panel"]] == ["zoo:me@1.0.0", "zoo:[b]near@1.0.0"]
    assert len(table.read_text().splitlines()) == 1 + len(data["inputs"]) == 3


def test_a_contact_sheet_is_written(invoke, tmp_path):
    sheet = tmp_path / "sheet.html"
    result = invoke("mlp-small", "--limit", "4", "--picture", str(sheet))
    assert result.exit_code == 0, result.output
    assert sheet.read_text().count("data:image/png;base64,") == 4
    assert "not as 'sheet.pdf'" in invoke("mlp-small", "--picture", str(tmp_path / "sheet.pdf")).output


def test_data_that_cannot_be_opened_again_give_no_sheet(invoke, tmp_path):
    result = invoke("me", "--picture", str(tmp_path / "sheet.html"))
    assert isinstance(result.exception, DatasetError)


def test_texts_of_language_models(tmp_path):
    path = tmp_path / "texts.sqlite"
    with open_store(path) as store:
        book = written_book(tmp_path, "AB HELLO WORLD\nWHAT IS IT?\n", 16)
        answered(store, book, "mine")
        answered(store, book, "near", 1.0)
    told = CliRunner().invoke(command, ["mine", "--store", str(path), "--picture", str(tmp_path / "x.html")])
    assert told.exit_code == 0, told.output
    assert "mean agreement" in told.stdout
    assert "not all find the same next token most likely, the texts with the least agreement first" in told.stdout
    assert (tmp_path / "x.html").read_text().count("data-said") > 10
    data = json.loads(CliRunner().invoke(command, ["mine", "--store", str(path), "--json"]).stdout)
    assert data["positions"] == sum(text["positions"] for text in data["inputs"])
