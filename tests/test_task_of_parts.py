"""A task whose answers are rows of different lengths, read from several tensors and judged by truths of their own."""

import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

from zoolens.base import plugins
from zoolens.base.errors import ZoolensError
from zoolens.base.store.records import DatasetRecord, ModelRecord, Observation, StackRecord, fingerprint
from zoolens.base.store.store import open_store
from zoolens.faces.cli.runs import command as runs_command
from zoolens.findings.comparisons.compare import compare
from zoolens.findings.comparisons.equivalence import equiv
from zoolens.findings.comparisons.matrix import agreement_matrix
from zoolens.findings.measure.prediction_buffer import AnswerBatch, PredictionBuffer
from zoolens.findings.measure.predictions import KIND, read_predictions
from zoolens.findings.measure.task_metrics import judgement_of
from zoolens.findings.queries.query import query
from zoolens.inventory.datasets.truth import Truth
from zoolens.inventory.tasks.task import task_named

PAGE = Path(__file__).parent.parent / "docs" / "plugins.md"
N = 40


def words_of_the_page():
    """The task that the page on plug-ins writes."""
    section = PAGE.read_text(encoding="utf-8").partition("### Answers of any length\n")[2]
    return section.partition("```python\n")[2].partition("```")[0]


@pytest.fixture(scope="module", autouse=True)
def installed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    (folder / "zoolens_words.py").write_text(words_of_the_page(), encoding="utf-8")
    about = folder / "zoolens_words-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: zoolens-words\nVersion: 1.0\n", encoding="utf-8")
    (about / "entry_points.txt").write_text("[zoolens.tasks]\nwords = zoolens_words:Words\n", encoding="utf-8")
    sys.path.insert(0, str(folder))
    plugins.forget()
    task_named.cache_clear()
    yield
    sys.path.remove(str(folder))
    plugins.forget()
    task_named.cache_clear()


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "store.sqlite") as opened:
        yield opened


def rows(seed, count=N):
    draw = np.random.default_rng(seed)
    return [([f"w{word}" for word in range(5) if draw.random() < 0.6], [0.5]) for _ in range(count)]


def truths(known=N):
    given = [Truth("tags", {"tags": np.array(words)}) for words, _ in rows(0)]
    return [truth if place < known else None for place, truth in enumerate(given)]


def answered(values):
    """A batch, and bits that differ where the words do."""
    bits = np.array([[sum(1 << int(word[1:]) for word in words)] for words, _ in values], np.int64)
    return AnswerBatch(values, {"words": bits, "sure": np.ones((len(values), 1), np.float32)})


def table(values, truth=None):
    buffer = PredictionBuffer(tasks=["words"])
    ids = [f"text {place}" for place in range(len(values))]
    half = len(values) // 2
    for part in (slice(0, half), slice(half, None)):
        labels = np.full(len(values[part]), -1)
        buffer.add(ids[part], labels, [answered(values[part])], None if truth is None else truth[part])
    return buffer.take()


def test_rows_of_any_length_come_back_as_they_were():
    given = [*rows(1, 5), ([], [])]
    kept = table(given, [*truths()[:5], None])
    for cut in (kept, kept.slice(2)):
        read = read_predictions(cut, declared=[{"task": "words", "name": "words", "width": None}])
        expected = given[-len(read) :]
        assert [row.tolist() for row in read.main.columns["words"]] == [words for words, _ in expected]
        assert [row.tolist() for row in read.main.columns["sure"]] == [sure for _, sure in expected]
        assert read.known.tolist() == [place < 5 for place in range(6)][-len(read) :]
        assert read.labelled


def test_digests_are_of_all_tensors():
    same, other = (answered(rows(seed)) for seed in (1, 2))
    assert np.array_equal(same.digest, answered(rows(1)).digest)
    assert not np.array_equal(same.digest, other.digest)
    surer = AnswerBatch(same.values, {**same.raw, "sure": np.full((N, 1), 2, np.float32)})
    assert not (surer.digest == same.digest).any()


def write(store, name, values, truth):
    manifest = {"name": name, "inputs": [{"shape": [None, 8]}], "outputs": [{"task": "words"}]}
    run = store.begin_run(
        ModelRecord(fingerprint(name), f"zoo:{name}@1", "fake", manifest),
        DatasetRecord(fingerprint("texts"), "texts", N),
        StackRecord(fingerprint("fake"), "fake", {"version": "1"}, {}),
    )
    store.set_resolved(run.id, {"outputs": [{"name": "words", "task": "words", "width": None}]})
    store.add_part(run.id, KIND, 0, table(values, truth))
    store.finish_stage(run.id, "predictions")
    return run.id


def f1(values, places):
    right = sum(len(set(values[i][0]) & set(rows(0)[i][0])) for i in places)
    return 2 * right / sum(len(values[i][0]) + len(rows(0)[i][0]) for i in places)


@pytest.mark.parametrize("known", [N, 25])
def test_metrics_are_of_the_inputs_that_have_a_truth(known):
    values = rows(3)
    judged = judgement_of(read_predictions(table(values, truths(known)), declared=[{"task": "words"}]))
    assert judged.main.name == "f1"
    everything = np.ones((1, known), np.int64)
    assert judged.of("f1")(everything) == pytest.approx([f1(values, range(known))])
    assert judged.of("inputs")(everything) == [known]
    assert judgement_of(read_predictions(table(values), declared=[{"task": "words"}])) is None


def test_two_models_are_compared_judged_and_found(store):
    near = [(words if place > 4 else words[1:], sure) for place, (words, sure) in enumerate(rows(3))]
    first, second = write(store, "first", rows(3), truths(30)), write(store, "second", near, truths(30))
    (found,) = compare(first, second, store=store).vectors
    pairs = zip(rows(3), near, strict=True)
    expected = [2 * len({*a} & {*b}) / (len(a) + len(b)) if a or b else 1.0 for (a, _), (b, _) in pairs]
    assert found.agreement == pytest.approx(np.mean(expected))
    assert found.metric.name == "f1"
    assert (found.metric.a, found.metric.b) == (
        pytest.approx(f1(rows(3), range(30))),
        pytest.approx(f1(near, range(30))),
    )
    low, high = found.metric.difference
    assert low < found.metric.b - found.metric.a < high
    assert equiv(first, second, store=store).agreement == pytest.approx(np.mean(expected))
    (match,) = query("CORR first TASK words", store=store).matches
    assert match.equivalence == pytest.approx(np.mean(expected))


def test_the_matrix_averages_over_inputs_that_have_a_truth(store):
    runs = [write(store, name, rows(seed), truths(25)) for name, seed in (("first", 3), ("second", 4))]
    found = agreement_matrix(runs, store=store)
    expected = [np.mean([f1(rows(seed), [place]) for place in range(25)]) for seed in (3, 4)]
    assert found.accuracy.tolist() == pytest.approx(expected)


def test_queries_know_the_best_model_by_the_main_metric(store):
    for name, seed, f1_of in (("weak", 3, 0.4), ("strong", 4, 0.7)):
        run = write(store, name, rows(seed), truths())
        store.finish_stage(run, "metric:task", [Observation("f1", f1_of, unit="fraction", n=N)])
    answer = query("TASK words", store=store)
    assert answer.reference.ref == "zoo:strong@1"
    assert [match.figures["f1"].value for match in answer.matches] == [0.4]
    assert [match.row.ref for match in query("TASK words WHERE accuracy > 50%", store=store).matches] == []
    with pytest.raises(ZoolensError, match="No model of this index has an accuracy"):
        query("TASK words ON accuracy_drop <= 5%", store=store)


def test_lists_name_the_metric_that_is_no_accuracy(store, tmp_path):
    run = write(store, "first", rows(3), truths())
    store.finish_stage(run, "metric:task", [Observation("f1", 0.62, unit="fraction", low=0.5, high=0.7, n=N)])
    shown = CliRunner().invoke(runs_command, ["--wide", "--store", str(tmp_path / "store.sqlite")]).output
    assert "main metric [95 %]" in shown
    assert "f1 62.0 % [50.0, 70.0]" in shown
    listed = CliRunner().invoke(runs_command, ["--json", "--store", str(tmp_path / "store.sqlite")]).output
    (entry,) = json.loads(listed)
    assert (entry["main_metric"], entry["f1"]["value"], entry["top1"]) == ("f1", 0.62, None)


def test_a_run_of_before_its_task_had_truths_is_judged_by_nothing(store):
    """Labels of classes do not judge it, and a run that was begun before and finished since has truths for a part."""
    old = table(rows(1)).drop_columns(["truth.known", "truth.tags"])
    for kept in (old, pa.concat_tables([old, table(rows(1), truths())], promote_options="permissive")):
        labelled = kept.set_column(2, "label", pa.array(np.zeros(len(kept), np.int32)))
        read = read_predictions(labelled, declared=[{"task": "words"}])
        assert not read.labelled
        assert judgement_of(read) is None


def test_answers_of_two_tasks_are_not_compared(store):
    first = write(store, "first", rows(3), truths())
    vectors = pa.table(
        {
            "index": np.arange(N),
            "input": [f"text {place}" for place in range(N)],
            "label": np.full(N, -1, np.int32),
            "vector": pa.array([[1.0, 2.0]] * N, pa.list_(pa.float32())),
            "digest": np.arange(N, dtype=np.uint64),
        }
    )
    run = store.begin_run(
        ModelRecord(
            fingerprint("v"), "zoo:v@1", "fake", {"name": "v", "inputs": [{"shape": [None, 8]}], "outputs": [{}]}
        ),
        DatasetRecord(fingerprint("texts"), "texts", N),
        StackRecord(fingerprint("fake"), "fake", {"version": "1"}, {}),
    )
    store.set_resolved(run.id, {"outputs": [{"name": "v", "task": "other", "width": None}]})
    store.add_part(run.id, KIND, 0, vectors)
    store.finish_stage(run.id, "predictions")
    found = compare(first, run.id, store=store)
    assert found.vectors == ()
    assert {*found.uncompared} == {"words", "v"}


def test_of_bits_that_are_equal_everything_is(store):
    first, second = (write(store, name, rows(3), truths()) for name in ("one", "two"))
    (found,) = compare(first, second, store=store).vectors
    assert (found.agreement, found.identical_outputs, found.metric.difference) == (1.0, 1.0, None)
