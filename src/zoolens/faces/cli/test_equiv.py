import json

import numpy as np
import pytest
from click.testing import CliRunner

from zoolens.base.errors import GateFailed, ZoolensError
from zoolens.base.store.store import open_store
from zoolens.faces.cli.equiv import command
from zoolens.findings.comparisons.conftest import one_hot, vector_columns, write_run
from zoolens.findings.comparisons.equivalence_words import percent_words

LABELS = np.arange(200) % 10


def wrong_on(count):
    return one_hot(np.where(np.arange(200) < count, (LABELS + 1) % 10, LABELS))


@pytest.fixture(scope="module")
def invoke(tmp_path_factory):
    """Runs the command on a store with five models on one dataset, two of them on a second one too."""
    path = tmp_path_factory.mktemp("store") / "store.sqlite"
    about = [{"name": "[v]", "task": "embedding", "width": 2}, {"name": "more", "task": "regression", "width": 2}]
    with open_store(path) as store:
        for name, count in (("a", 20), ("[red]b", 10), ("c", 0)):
            write_run(store, name, wrong_on(count), LABELS)
        for name, count in (("a", 100), ("c", 0)):
            write_run(store, name, wrong_on(count), LABELS, dataset="hard")
        write_run(store, "named", wrong_on(0), LABELS, outputs=[{"labels": [f"x{i}" for i in range(10)]}])
        write_run(store, "other", wrong_on(0), LABELS, outputs=[{"labels": [f"y{i}" for i in range(10)]}])
        for name, factor in (("v1", 1.0), ("v2", 1.00001)):
            vectors = factor * np.ones((200, 2))
            columns = vector_columns(vectors) | vector_columns(vectors * factor, "out1.")
            write_run(store, name, columns, LABELS, about=about, dataset="pairs")
    return lambda *args: CliRunner().invoke(command, [*args, "--store", str(path)])


def test_a_pair_is_told_with_its_bounds(invoke):
    result = invoke("a", "[red]b")
    assert result.exit_code == 0, result.output
    # 190 of 200 agree; the Clopper–Pearson bound is 0.9166 and is rounded down
    assert "same answer: 95.0 %, at least 91.6 % on inputs drawn like these (95 % confidence" in result.stdout
    assert "accuracy: A 90.0 % [85.1, 93.4], B 95.0 % [91.0, 97.3]" in result.stdout
    assert "B − A +5.00 points [+2.74, +8.96]" in result.stdout
    assert "(only A correct: 0, only B correct: 10; paired)" in result.stdout
    assert "zoo:[red]b@1.0.0" in result.stdout


def test_several_datasets_have_one_verdict(invoke):
    result = invoke("a", "c")
    assert "On every one of 2 datasets same answer: at least 43.9 % (95 % confidence" in result.stdout
    assert "least on hard" in result.stdout


def test_vectors_are_told_by_output(invoke):
    result = invoke("v1", "v2")
    assert result.exit_code == 0, result.output
    assert "[v] (embedding): within 0.1 % (l2): 100.0 %" in result.stdout
    assert "more (regression): within 0.1 % (l2): 100.0 %" in result.stdout
    assert "mean cosine 1.00000" in result.stdout
    assert "accuracy" not in result.stdout


def test_json_is_the_whole_report(invoke):
    data = json.loads(invoke("a", "[red]b", "--json", "--confidence", "99").stdout)
    assert (data["agreement"], data["confidence"]) == (0.95, 0.99)
    assert data["datasets"][0]["bounds"]["agreement"] == data["guaranteed_agreement"]


def test_a_gate_that_holds_fails(invoke):
    result = invoke("a", "[red]b", "--fail-on", "agreement < 96%")
    assert isinstance(result.exception, GateFailed)
    assert invoke("a", "[red]b", "--fail-on", "agreement < 95%").exit_code == 0


def test_models_that_cannot_be_compared_are_an_error_with_the_reason(invoke):
    result = invoke("named", "other")
    assert isinstance(result.exception, ZoolensError)
    assert "they name different classes: only A has 'x0', 'x1', 'x2' and 7 more" in str(result.exception)


def test_more_models_are_a_matrix(invoke, tmp_path):
    picture, table = tmp_path / "m.html", tmp_path / "m.csv"
    result = invoke("a", "[red]b", "c", "--data", "digits", "--picture", str(picture), "--csv", str(table))
    assert result.exit_code == 0, result.output
    assert "[red]b" in result.stdout
    assert picture.read_text().startswith("<!doctype html>")
    assert len(table.read_text().splitlines()) == 10
    assert json.loads(invoke("zoo:*", "--data", "digits", "--json").stdout)["n"] == 200


def test_options_of_two_models_do_not_go_with_a_matrix(invoke, tmp_path):
    assert invoke("zoo:*", "--fail-on", "agreement < 96%").exit_code == 2
    assert "not as 'm.png'" in invoke("zoo:*", "--picture", str(tmp_path / "m.png")).output


def test_nearly_all_is_not_printed_as_all():
    assert [percent_words(value) for value in (1, 0.9996, 0.99999, 0.95, 0)] == [
        "100.0 %", "99.96 %", "99.999 %", "95.0 %", "0.0 %",
    ]  # fmt: skip


def test_answers_without_a_partner_are_not_said_to_be_missing(tmp_path):
    from zoolens.faces.cli.compare import command as compare
    from zoolens.findings.comparisons.compare import compare_runs
    from zoolens.findings.comparisons.report_page import report_page

    path = tmp_path / "store.sqlite"
    with open_store(path) as store:
        runs = []
        for name, width, factor in (("narrow", 2, 1), ("wide", 3, 1), ("far", 2, 2)):
            about = [{"name": "v", "task": "embedding", "width": width}]
            columns = vector_columns(np.full((200, width), factor))
            runs.append(write_run(store, name, columns, LABELS, about=about, outputs=[{"task": "embedding"}]))
        page, apart = report_page(compare_runs(store, *runs[:2])), report_page(compare_runs(store, runs[0], runs[2]))
    shown = CliRunner().invoke(compare, [runs[0].id, runs[1].id, "--store", str(path)]).output
    assert "Not compared: v" in shown
    assert "--no-accuracy" not in shown
    assert not page.good
    assert (apart.verdict, apart.good) == ("within 0.1 % (l2): 0.00 %, 200 inputs.", False)
