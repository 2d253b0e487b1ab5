import csv
import io
import json

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

from zoolens.base.errors import ZoolensError
from zoolens.base.statistics.anytime import paired_upper
from zoolens.base.store.records import DatasetRecord, ModelRecord, Observation, Provenance, StackRecord, fingerprint
from zoolens.base.store.store import open_store
from zoolens.faces.cli.query import NothingFits, command
from zoolens.findings.comparisons.conftest import vector_columns, write_run
from zoolens.findings.measure.prediction_buffer import bit_digest
from zoolens.findings.measure.predictions import KIND
from zoolens.findings.queries.answers.query_page import answer_page
from zoolens.findings.queries.query import query
from zoolens.inventory.tasks.classification import best_classes

CLASSES = 4


@pytest.fixture(autouse=True)
def path(tmp_path, monkeypatch):
    """A store with three models on 300 inputs of "shapes", and on 100 of "drawings"."""
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))
    path = tmp_path / "store.sqlite"
    monkeypatch.setenv("ZOOLENS_STORE", str(path))
    with open_store(path) as store:
        for data, n in (("shapes", 300), ("drawings", 100)):
            for name, wrong, memory in (("big", 0, 100e6), ("half", 12, 50e6), ("tiny[1]", 90, 5e6)):
                measure(store, data, n, name, wrong, memory)
    return path


def answers_of(n, wrong):
    truth = np.arange(n) % CLASSES
    answers = truth.copy()
    answers[:wrong] = (truth[:wrong] + 1) % CLASSES
    return truth, answers


def table_of(truth, probabilities):
    top = best_classes(probabilities, CLASSES)
    lists = {"top": top, "score": np.take_along_axis(probabilities, top, axis=1)}
    kinds = {"top": pa.int32(), "score": pa.float32()}
    return pa.table({
        "index": np.arange(len(truth)),
        "input": [str(i) for i in range(len(truth))],
        "label": truth.astype(np.int32),
        **{name: pa.array(rows.tolist(), pa.list_(kinds[name])) for name, rows in lists.items()},
        "label_score": probabilities[np.arange(len(truth)), truth],
        "sum_squares": (probabilities**2).sum(axis=1),
        "digest": bit_digest(probabilities),
    })  # fmt: skip


def measure(store, data, n, name, wrong, memory):
    truth, answers = answers_of(n, wrong)
    probabilities = np.full((n, CLASSES), 0.1, np.float32)
    probabilities[np.arange(n), answers] = 0.7
    manifest = {"name": name, "inputs": [{"shape": [None, 2]}], "outputs": [{"task": "classification"}]}
    run = store.begin_run(
        ModelRecord(fingerprint(name), f"toys:{name}@1.0.0", "onnx", manifest),
        DatasetRecord(fingerprint(data), data, n),
        StackRecord(fingerprint("fake"), "fake", {"version": "1"}, {}),
    )
    store.add_part(run.id, KIND, 0, table_of(truth, probabilities))
    store.finish_stage(run.id, "predictions")
    figures = [
        Observation("top1", float((answers == truth).mean()), unit="fraction"),
        Observation("peak_memory", memory, scope="process", unit="B"),
        Observation("latency_p50", 0.002, scope="batch=1", unit="s", provenance=Provenance.ESTIMATED),
    ]
    store.finish_stage(run.id, "measured", figures)


def invoke(*arguments, **how):
    result = CliRunner().invoke(command, arguments, **how)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.stdout


def test_the_table(path):
    told = invoke("SELECT MODELS CORR big WITHIN 90% ON memory <= 60% AND latency < 10 ms")
    header, reference, best, *notes = told.splitlines()
    assert header.split() == ["model", "runtime", "equal", "answers", "memory", "latency", "accuracy"]
    assert reference.split()[:3] == ["toys:big", "fake", "reference"]
    for text in ("toys:half", "96.0 %", "[≥ ", "50 MB ×0.50", "2 ms (estimated)", "96.0 %"):
        assert text in best
    assert "300 inputs of shapes" in notes[0]
    assert "the runtime's part is at most 5 MB in fake" in notes[1]
    assert "95 % confidence" in notes[2]


def test_options_say_the_same(path):
    text = invoke("SELECT MODELS CORR big WITHIN 50% ON memory <= 60% LIMIT 1")
    options = ("--ref", "big", "--within", "50%", "--on", "memory <= 60%", "--limit", "1")
    assert invoke(*options) == text
    assert invoke("CORR big LIMIT 1", "--within", "50%", "--on", "memory <= 60%") == text
    assert invoke("-", input="CORR big WITHIN 50%\nON memory <= 60% LIMIT 1") == text
    assert "toys:tiny[1]" in invoke(*options, "--order-by", "memory")
    assert "toys:half" in invoke("--ref", "big", "--exec", "runtime=fake", "--where", "name = half")


def test_a_query_in_a_file(path, tmp_path):
    file = tmp_path / "question.txt"
    file.write_text("CORR big LIMIT 1")
    assert "toys:half" in invoke("--file", str(file))


def test_a_bound_is_a_bound_and_nothing_more(path):
    with pytest.raises(ZoolensError, match="should end here"):
        invoke("--ref", "big", "--on", "memory <= 60% LIMIT 1")


def test_a_file_that_is_no_text(path, tmp_path):
    file = tmp_path / "question.txt"
    file.write_bytes(b"CORR mod\xe8le")
    with pytest.raises(ZoolensError, match="UTF-8"):
        invoke("--file", str(file))


def test_bounds_in_columns_are_not_rounded_up(path):
    told = invoke("CORR big ON equivalence_lower >= 90% AND accuracy_drop_upper <= 20%")
    assert "≥ " in told.splitlines()[2].partition("]")[2]
    assert "≤ " in told.splitlines()[2]


def test_without_a_reference_the_data_of_accuracies_is_told(path):
    assert "Measured accuracies are of 300 inputs of shapes" in invoke("ON accuracy >= 50%")
    assert "The bounds hold with 95 % confidence for all 3 comparisons" in invoke("ON accuracy_lower >= 50%")
    assert "confidence" not in invoke("ON memory >= 1 MB")


def test_unknown_data_is_pointed_at(path):
    for clause in ("DATA", "BOUND"):
        with pytest.raises(ZoolensError, match=rf"{clause} shapez\n +\^\^\^\^\^\^\n"):
            invoke(f"CORR big {clause} shapez")


def test_nothing_fits(path):
    result = CliRunner().invoke(command, ["CORR big WITHIN 90% ON memory <= 10 MB", "--wide"])
    assert isinstance(result.exception, NothingFits)
    assert result.exception.exit_code == 1
    assert "equivalence is 70 %, 20 points below 90 %" in result.stdout
    assert "memory is 50 MB, 400 % above 10 MB" in result.stdout
    assert "these come nearest" in invoke("CORR big WITHIN 90% ON memory <= 10 MB ELSE NEAREST")


def test_json_and_csv(path):
    data = json.loads(invoke("CORR big ON memory <= 60%", "--json"))
    assert [one["model"] for one in data["matches"]] == ["toys:half@1.0.0", "toys:tiny[1]@1.0.0"]
    assert data["matches"][0]["figures"]["memory"]["ratio"] == 0.5
    records = list(csv.DictReader(io.StringIO(invoke("CORR big ON memory <= 60%", "--csv"))))
    assert [record["model"] for record in records] == ["toys:half@1.0.0", "toys:tiny[1]@1.0.0"]
    result = CliRunner().invoke(command, ["CORR big WITHIN 100%", "--csv"])
    assert "above" not in result.exception.hint
    assert result.stdout == "model,runtime,equivalence,equivalence_lower,accuracy,accuracy_provenance,fits,why_not\n"


def test_explain(path):
    assert "search:" in invoke("CORR big", "--explain")
    assert "near misses" in invoke("CORR big", "--analyze")
    assert "reference: toys:big@1.0.0 in fake" in invoke("EXPLAIN CORR big")


def test_errors_point_into_the_text(path):
    with pytest.raises(ZoolensError, match=r"CORR bih(.|\n)*\^\^\^"):
        invoke("CORR bih")


def test_mistaken_options(path):
    assert "KEY=VALUE" in CliRunner().invoke(command, ["--ref", "big", "--exec", "runtime"]).stderr


# --- what takes the store: whole signatures, and other data


def test_bounds_on_the_loss_of_accuracy(path):
    answer = query("CORR big ON accuracy_drop_upper <= 20%", store=path)
    truth, answers = answers_of(300, 12)
    alpha = 0.05 / 4  # two candidates, and the bound of agreement is shown beside
    upper = paired_upper(1.0 - (answers == truth), alpha)
    assert [match.ref for match in answer.matches] == ["toys:half@1.0.0"]
    assert answer.best["accuracy_drop_upper"] == pytest.approx(upper)
    assert 0.04 < upper < 0.2


def test_distance_of_classifiers_is_the_most_it_can_be(path):
    answer = query("CORR big ORDER BY l2", store=path)
    half, tiny = (match["l2"] for match in answer.matches)
    assert 0 < half < tiny
    assert half == pytest.approx(0.04 * 0.6 * 2**0.5, rel=1e-4)  # all four classes are kept: nothing is unknown


def test_bound_from_other_data(path):
    answer = query("CORR big WITHIN 80% DATA shapes CONFIDENCE 95% BOUND drawings", store=path)
    assert not answer  # of 100 drawings, half answers 12 otherwise: that does not show 80 %
    assert answer.misses[0].rejections[0].predicate.startswith("equivalence on drawings >= ")
    assert query("CORR big WITHIN 70% DATA shapes CONFIDENCE 95% BOUND drawings", store=path).best.equivalence == 0.96


def test_the_reference_chooses_the_data_where_none_is_named(path):
    with open_store(path) as store:
        measure(store, "letters", 50, "writer", 3, 1e6)
        measure(store, "letters", 50, "reader", 5, 1e6)
    answer = query("CORR writer", store=path)
    assert answer.dataset == "letters"
    assert answer.best.ref == "toys:reader@1.0.0"


def test_equal_answers_are_never_dropped_for_want_of_width(monkeypatch):
    from zoolens.base.present.terminal import fitting_columns
    from zoolens.faces.cli.query import _table

    answer = query("CORR big ON memory <= 60% ORDER BY latency_p50, accuracy")
    columns, rows = _table(answer, [answer.reference, *answer.matches])
    for width in (10, 40, 60, 80):
        shown = [columns[i].name for i in fitting_columns(columns, rows, width)]
        assert shown[:1] == ["model"]
        assert "equal answers" in shown


@pytest.mark.parametrize("details", [{"disturbed": True}, {"note": "fewer than 20 undisturbed samples: raw"}])
def test_disturbed_timings_are_marked_and_a_bound_on_one_says_so(path, details):
    with open_store(path) as store:
        for run in store.runs(dataset="shapes"):
            about = details if "half" in run.ref else {"samples": 500}
            slow = Observation("latency_p90", 0.004, scope="batch=1", unit="s", details=about)
            store.finish_stage(run.id, "timed", [slow])
    result = CliRunner().invoke(command, ["CORR big ON latency_p90 <= 1 s", "--json"])
    answer = json.loads(result.stdout)
    marks = {one["model"]: one["figures"]["latency_p90"].get("disturbed") for one in answer["matches"]}
    assert marks == {"toys:half@1.0.0": True, "toys:tiny[1]@1.0.0": None}
    assert [note for note in answer["notes"] if note.startswith("latency_p90 of toys:half was measured with fewer")]
    for _ in range(2):  # worked out, and read from what was kept
        shown = CliRunner().invoke(command, ["CORR big ON latency_p90 <= 1 s"]).stdout
        assert shown.count(" ms (disturbed)") == 1
        assert "fewer than 20 undisturbed samples" in shown
    missed = query("CORR big ON latency_p90 <= 1 ms").misses
    assert any("4 ms (disturbed), " in why.sentence for one in missed for why in one.rejections)
    assert "undisturbed" not in CliRunner().invoke(command, ["CORR big ON memory <= 60%"]).stdout


def test_answers_that_are_vectors_are_not_called_equal(path):
    """1 less the mean relative distance is no share of equal answers, and says nothing of further outputs."""
    about = [{"name": name, "task": "other", "width": 3} for name in ("boxes", "scores")]
    declared = [{"name": one["name"], "task": "other"} for one in about]
    with open_store(path) as store:
        for name, factor in (("detector", 1.0), ("lookalike", 1.01)):
            columns = vector_columns(np.full((60, 3), factor)) | vector_columns(np.full((60, 3), -factor), "out1.")
            write_run(store, name, columns, [0] * 60, dataset="boxed", about=about, outputs=declared)
    with pytest.raises(ZoolensError, match="detector does other, and this query is about classification") as refused:
        query("CORR detector WITHIN 95%", store=path)
    assert "Add TASK other." in str(refused.value)
    answer = query("CORR detector WITHIN 95% TASK other", store=path)
    assert "alike" in repr(answer)
    assert "equal answers" not in repr(answer)
    assert "1 minus the mean relative distance" in answer.notes[0]
    assert "only the first (boxes) is compared" in answer.notes[1]
    shown = CliRunner().invoke(command, ["CORR detector WITHIN 95% TASK other"]).output
    assert "equal answers" not in shown
    assert "equal answers" not in str(answer_page(answer))  # as a notebook shows it
    assert "similarity of the best" in str(answer_page(answer))
    assert not [note for note in query("CORR big", store=path).notes if "vectors" in note or "outputs" in note]


# --- a store without models of the task that is asked for


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--ref", "embedder"], "embedder does embedding, and this query is about classification"),
        (["--ref", "somewhere/embedder"], "somewhere/embedder does embedding"),
        (["--ref", "other"], "No model of the task classification was measured yet, but models of the task embedding"),
        (["--on", "accuracy >= 50%"], "No model of the task classification was measured yet"),
    ],
)
def test_models_of_another_task_are_no_empty_store(tmp_path, asked, said):
    path = tmp_path / "vectors.sqlite"
    with open_store(path) as store:
        write_run(store, "embedder", vector_columns(np.ones((20, 3))), np.zeros(20), outputs=[{"task": "embedding"}])
    done = CliRunner().invoke(command, [*asked, "--store", str(path)])
    assert said in done.exception.message
    assert "TASK embedding" in done.exception.hint


def test_a_file_that_was_never_evaluated_is_told_as_such(tmp_path):
    (tmp_path / "mine.onnx").write_bytes(b"")
    done = CliRunner().invoke(command, ["--ref", str(tmp_path / "mine.onnx")])
    assert "was not evaluated yet: `zoolens eval" in done.exception.hint
