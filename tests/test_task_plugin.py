"""A task that somebody else wrote, as the documentation shows it: answers are kept, compared, bounded and searched."""

import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from zoolens.base import plugins
from zoolens.base.errors import ZoolensError
from zoolens.base.store.records import DatasetRecord, ModelRecord, StackRecord, fingerprint
from zoolens.base.store.store import open_store
from zoolens.base.verdicts import NotKnown
from zoolens.faces.cli.compare import command as compare_command
from zoolens.faces.cli.equiv import command as equiv_command
from zoolens.findings.comparisons.compare import compare
from zoolens.findings.comparisons.disagreements import disagree
from zoolens.findings.comparisons.equivalence import equiv
from zoolens.findings.comparisons.gate import parse_equivalence_gate, parse_gate
from zoolens.findings.comparisons.report_page import report_page
from zoolens.findings.measure.evaluate import evaluate
from zoolens.findings.measure.prediction_buffer import AnswerBatch, PredictionBuffer
from zoolens.findings.measure.predictions import KIND
from zoolens.findings.queries.query import query
from zoolens.inventory.manifests.schema import Output
from zoolens.inventory.tasks.task import Answers, task_named
from zoolens.testing.task_contract import TaskContract

PAGE = Path(__file__).parent.parent / "docs" / "plugins.md"
CONTRIBUTING = Path(__file__).parent.parent / "CONTRIBUTING.md"
N, TAGS = 40, 5


# Classes without their probabilities: the best one alone is kept, under a name of its own.
SPECIES = """
import numpy as np
import pyarrow as pa

from zoolens.inventory.tasks.task import Task


class Species(Task):
    name = "species"
    summary = "One of several species"
    discrete = True
    judged = True

    def columns(self, *, main):
        return {"species": pa.int32()}

    def keep(self, values, labels):
        return {"species": values.argmax(axis=1).astype(np.int32)}

    def agreement(self, a, b, tolerance=0.0):
        return (a.columns["species"] == b.columns["species"]).astype(float)

    def signature(self, answers):
        return answers.columns["species"]

    def scores(self, answers, labels):
        return (answers.columns["species"] == labels).astype(float)

    def show(self, answers, place, names=None):
        return str(answers.columns["species"][place])
"""

# Classes in an order: two neighbours agree more than the two ends do.
GRADE = SPECIES.replace("Species", "Grade").replace("species", "grade").replace(
    """        return (a.columns["grade"] == b.columns["grade"]).astype(float)

    def sig""",
    """        return 1 - np.abs(a.columns["grade"] - b.columns["grade"]) / 4

    def sig""",
)  # fmt: skip


# Grades whose agreement is not a number for some inputs, or larger than 1.
ODD = GRADE.replace("Grade", "Odd").replace('name = "grade"', 'name = "odd"').replace(
    """    def agreement(self, a, b, tolerance=0.0):
""",
    """    def agreement(self, a, b, tolerance=0.0):
        if (a.columns["grade"] > b.columns["grade"]).any():
            return np.full(len(a), 1.5)
        if (a.columns["grade"] != b.columns["grade"]).any():
            return np.where(a.columns["grade"] != b.columns["grade"], np.nan, 1.0)
""",
)  # fmt: skip


def first_block(page, heading):
    """The Python that a section of a page begins with."""
    section = page.read_text(encoding="utf-8").partition(f"{heading}\n")[2]
    return section.partition("```python\n")[2].partition("```")[0]


@pytest.fixture(scope="module", autouse=True)
def installed(tmp_path_factory):
    """The package of the documentation, on the path as pip would put it."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "zoolens_tagging").mkdir()
    (folder / "zoolens_tagging" / "__init__.py").touch()
    (folder / "zoolens_tagging" / "task.py").write_text(first_block(PAGE, "## A task"), encoding="utf-8")
    (folder / "zoolens_tagging-1.0.dist-info").mkdir()
    about = folder / "zoolens_tagging-1.0.dist-info"
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: zoolens-tagging\nVersion: 1.0\n", encoding="utf-8")
    (about / "entry_points.txt").write_text(
        "[zoolens.tasks]\ntagging = zoolens_tagging.task:Tagging\nspecies = zoolens_tagging.species:Species\n"
        "grade = zoolens_tagging.grade:Grade\nodd = zoolens_tagging.odd:Odd\n"
        "rating = zoolens_tagging.rating:Rating\n",
        encoding="utf-8",
    )
    (folder / "zoolens_tagging" / "species.py").write_text(SPECIES, encoding="utf-8")
    (folder / "zoolens_tagging" / "grade.py").write_text(GRADE, encoding="utf-8")
    (folder / "zoolens_tagging" / "odd.py").write_text(ODD, encoding="utf-8")
    rating = first_block(CONTRIBUTING, "## Add a task in one file")
    (folder / "zoolens_tagging" / "rating.py").write_text(rating, encoding="utf-8")
    sys.path.insert(0, str(folder))
    plugins.forget()
    task_named.cache_clear()
    yield
    sys.path.remove(str(folder))
    plugins.forget()
    task_named.cache_clear()


class TestTagging(TaskContract):
    @pytest.fixture
    def task(self, installed):
        return task_named("tagging")


class TestGrade(TaskContract):
    @pytest.fixture
    def task(self, installed):
        return task_named("grade")


class TestRating(TaskContract):
    """The task that CONTRIBUTING writes."""

    @pytest.fixture
    def task(self, installed):
        return task_named("rating")

    def test_the_ends_of_the_order_do_not_agree_at_all(self, task):
        lowest, highest = (Answers("out", "rating", task.keep(np.eye(5, dtype=np.float32)[[k]], None)) for k in (0, 4))
        assert task.agreement(lowest, highest) == [0.0]
        assert task.scores(highest, np.array([3])) == [0.75]


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "store.sqlite") as opened:
        yield opened


def write(store, name, tags, labels, task="tagging"):
    """As an evaluation keeps what an output of this task answered."""
    buffer = PredictionBuffer(tasks=[task])
    buffer.add([f"photo {place}" for place in range(N)], labels, [AnswerBatch(tags.astype(np.float32), tags)])
    manifest = {"name": name, "inputs": [{"shape": [None, 8, 8, 3]}], "outputs": [{"task": task}]}
    run = store.begin_run(
        ModelRecord(fingerprint(name), f"zoo:{name}@1", "fake", manifest),
        DatasetRecord(fingerprint("photos"), "photos", N),
        StackRecord(fingerprint("fake"), "fake", {"version": "1"}, {}),
    )
    store.set_resolved(run.id, {"outputs": [{"name": "tags", "task": task, "width": TAGS}]})
    store.add_part(run.id, KIND, 0, buffer.take())
    store.finish_stage(run.id, "predictions")
    return run.id


@pytest.fixture
def runs(store):
    tags = np.random.default_rng(0).random((N, TAGS)) > 0.5
    other = tags.copy()
    other[:10, :2] = ~other[:10, :2]
    labels = np.full(N, -1)
    return tags, other, write(store, "first", tags, labels), write(store, "second", other, labels)


def jaccard(a, b):
    either = (a | b).sum(axis=1)
    return np.where(either > 0, (a & b).sum(axis=1) / np.maximum(either, 1), 1.0)


def test_a_manifest_may_name_it():
    assert Output(task="tagging").task == "tagging"
    with pytest.raises(ValueError, match=r"there is no task 'taging'; tasks are .*tagging"):
        Output(task="taging")


def test_models_of_the_task_are_compared_input_by_input(store, runs):
    tags, other, first, second = runs
    (found,) = compare(first, second, store=store).vectors
    assert (found.task, found.n, found.median_distance) == ("tagging", N, None)
    assert found.agreement == pytest.approx(jaccard(tags, other).mean())


def test_shares_between_0_and_1_have_a_bound_that_is_below_them(store, runs):
    tags, other, first, second = runs
    found = equiv(first, second, store=store)
    assert found.agreement == pytest.approx(jaccard(tags, other).mean())
    assert 0 < found.comparable[0].bounds.agreement < found.agreement


def test_a_mean_of_shares_is_not_told_as_equal_answers(store, runs, tmp_path):
    tags, other, first, second = runs
    mean, full = jaccard(tags, other).mean(), (jaccard(tags, other) == 1).mean()
    assert full != pytest.approx(mean)
    words = f"mean agreement: {100 * mean:.2f} % (full agreement on {100 * full:.2f} % of the inputs)"
    where = [first, second, "--store", str(tmp_path / "store.sqlite")]
    assert words in printed(compare_command, *where)
    shown = printed(equiv_command, *where)
    assert f"mean agreement: {100 * mean:.1f} %, at least " in shown
    assert "(95 % confidence, betting)" in shown
    assert "Clopper" not in shown
    assert words in str(report_page(compare(first, second, store=store)))


def printed(command, *arguments):
    return " ".join(CliRunner().invoke(command, arguments, catch_exceptions=False).output.split())


def test_models_of_the_task_are_found_by_its_own_agreement(store, runs):
    tags, other, _, _ = runs
    answer = query("CORR first TASK tagging", store=store)
    assert [match.row.ref for match in answer.matches] == ["zoo:second@1"]
    assert answer.matches[0].equivalence == pytest.approx(jaccard(tags, other).mean())
    assert answer.equivalence_name == "mean agreement"
    assert "equal answers" not in repr(answer)
    assert "is the mean over the inputs of what the task says" in answer.notes[0]
    with pytest.raises(ZoolensError, match="answers of this task agree in part"):
        query("CORR first TASK tagging WITHIN 50% CONFIDENCE 95%", store=store)


def test_classes_in_an_order_agree_in_part(store):
    grades = np.random.default_rng(3).integers(0, 4, N)
    near = np.where(np.arange(N) < 9, grades + 1, grades)
    first, second = (
        write(store, name, np.eye(TAGS)[given], np.full(N, -1), "grade") for name, given in (("p", grades), ("q", near))
    )
    found = equiv(first, second, store=store)
    (output,) = found.comparable[0].outputs
    assert (output.graded, output.full, output.agreement) == (True, N - 9, pytest.approx(1 - 9 / 4 / N))
    assert found.comparable[0].bounds.agreement_bound == "betting"
    assert found.guaranteed == found.comparable[0].bounds.agreement
    assert not parse_equivalence_gate("guaranteed < 50%").verdict(found)[0]
    answers = compare(first, second, store=store).answers
    assert (answers.agreement_name, answers.full) == ("mean agreement", N - 9)
    (match,) = query("CORR p TASK grade", store=store).matches
    assert match.equivalence == pytest.approx(1 - 9 / 4 / N)


def test_an_agreement_that_is_not_known_is_said_to_be_so_and_passes_no_gate(store, tmp_path):
    grades = np.random.default_rng(3).integers(1, 4, N)
    given = {"low": grades - (np.arange(N) < 3), "same": grades, "high": grades + (np.arange(N) < 3)}
    runs = {name: write(store, name, np.eye(TAGS)[one], np.full(N, -1), "odd") for name, one in given.items()}
    where = ["--store", str(tmp_path / "store.sqlite")]
    assert "mean agreement: not known" in printed(equiv_command, runs["same"], runs["high"], *where)
    assert "mean agreement: not known" in printed(compare_command, runs["same"], runs["high"], *where)
    for name, parse, report in (
        ("agreement < 1%", parse_equivalence_gate, equiv(runs["same"], runs["high"], store=store)),
        ("guaranteed < 1%", parse_equivalence_gate, equiv(runs["same"], runs["high"], store=store)),
        ("unknown", parse_equivalence_gate, equiv(runs["same"], runs["high"], store=store)),
        ("disagreement > 99%", parse_gate, compare(runs["same"], runs["high"], store=store)),
        ("unknown", parse_gate, compare(runs["same"], runs["high"], store=store)),
    ):
        with pytest.raises(NotKnown):
            parse(name).verdict(report)
    with pytest.raises(ZoolensError, match=r"gives an agreement of 1.5 for an input: it must lie between 0 and 1"):
        equiv(runs["same"], runs["low"], store=store)


def test_what_has_no_votes_says_so(store, runs):
    with pytest.raises(ZoolensError, match="does tagging: it gives no votes"):
        disagree("first", store=store)


def test_labels_judge_it(store):
    labels = np.arange(N) % TAGS
    tags = np.random.default_rng(1).random((N, TAGS)) > 0.5
    tags[np.arange(N), labels] = True
    worse = tags.copy()
    worse[np.arange(8), labels[:8]] = False
    first, second = write(store, "good", tags, labels), write(store, "worse", worse, labels)
    low, high = equiv(first, second, store=store).comparable[0].bounds.difference
    assert low < -8 / N < high
    (found,) = compare(first, second, store=store).vectors
    assert (found.score_a, found.score_b, tuple(found.difference)) == (1.0, pytest.approx(1 - 8 / N), (low, high))


def test_an_evaluation_keeps_and_judges_its_answers(home, store, fake_model, data):
    path = fake_model(behaviour="label_leak")
    path.write_text(path.read_text().replace("scores: logits", "task: tagging"))
    (outcome,) = evaluate([str(path)], data, batches=(), cold=False, store=store)
    assert outcome.errors == ()
    assert outcome.run.resolved["outputs"][0]["task"] == "tagging"
    assert store.table(outcome.run.id, KIND).column_names == ["index", "input", "label", "tags", "digest"]
    (score,) = store.observations(outcome.run.id, metric="score")
    assert (score.value, score.n) == (1.0, 300)


def test_an_evaluation_of_classes_without_their_probabilities_goes_on(home, store, fake_model, data):
    path = fake_model(behaviour="label_leak")
    path.write_text(path.read_text().replace("scores: logits", "task: species"))
    (outcome,) = evaluate([str(path)], data, batches=(), cold=False, store=store)
    assert outcome.run is not None
    assert {"predictions", "size"} <= set(outcome.measured)
    assert all("no top" in error for error in outcome.errors)  # top-1 and top-5 are told to be absent
    assert not outcome.warnings
    assert compare(outcome.run.id, outcome.run.id, store=store).answers.agreement == 1
