"""A study by the command: killed and gone on with, one loss in it not finite; then looked at, reported, exported,
submitted and spoilt. It is trained once for all tests here."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from zoolens.base.store.store import open_store
from zoolens.findings.comparisons.compare import compare
from zoolens.training.crosstrain.study.stored_studies import read_study

# Studies are run, killed, shown and exported in our own process by training/crosstrain/study and exchange in the quick
# suite; here the commands do it, each in a process of its own.
pytestmark = pytest.mark.slow

pytest.importorskip("torch")
pytest.importorskip("jax")

PLAN = """
name: tiny
frameworks: [torch, jax]
recipe:
  architecture: mlp
  mode: library
  dataset: npz:{folder}/train.npz|npz:{folder}/test.npz
  learning_rate: 1e-3
  batch_size: 32
  epochs: 2
space:
  - name: learning_rate
    choices: [1e-3, 1e-2, 1e30]
search:
  sampler: design
  trials: 3
replicates: 1
"""


class Place:
    """A folder with data, a plan and a store, and the command in it."""

    def __init__(self, folder, command_server):
        self.folder = folder
        self._run = command_server.run
        self.plan = folder / "plan.yaml"
        self.journal = folder / "store.bulk" / "journals" / "tiny.jsonl"
        self._environment = {**os.environ, "ZOOLENS_HOME": str(folder / "home")}

    def __call__(self, *arguments, store="store.sqlite"):
        words = "crosstrain", *arguments, "--store", self.folder / store
        return self._run(*words, environment=self._environment, timeout=600)

    def fine(self, *arguments, **settings):
        done = self(*arguments, **settings)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def killed_after_the_first_trial(self):
        words = ["crosstrain", "run", self.plan, "--store", self.folder / "store.sqlite"]
        command = [sys.executable, "-m", "zoolens", *map(str, words)]
        running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=self._environment)
        try:
            while not self.told():
                assert running.poll() is None, running.stderr.read()
                time.sleep(0.05)
        finally:
            running.send_signal(signal.SIGKILL)
            running.wait()
            running.stderr.close()

    def copied_to(self, name):
        """The journal of a copy of the store."""
        shutil.copy(self.folder / "store.sqlite", self.folder / f"{name}.sqlite")
        return Path(shutil.copytree(self.folder / "store.bulk", self.folder / f"{name}.bulk")) / "journals/tiny.jsonl"

    def told(self):
        lines = self.journal.read_text().splitlines() if self.journal.exists() else []
        return [found["asked"]["trial"] for line in lines if (found := json.loads(line))["kind"] == "told"]


@pytest.fixture(scope="module")
def place(tmp_path_factory, command_server):
    folder = tmp_path_factory.mktemp("crosstrain")
    draw = np.random.default_rng(0)
    for name, count in (("train", 96), ("test", 40)):
        y = np.arange(count) % 4
        pixels = draw.integers(0, 60, (count, 8, 8, 1)) + 60 * y[:, None, None, None]
        np.savez(folder / f"{name}.npz", x=pixels.astype(np.uint8), y=y)
    (folder / "plan.yaml").write_text(PLAN.format(folder=folder))
    place = Place(folder, command_server)
    place.killed_after_the_first_trial()
    place.before = place.told()
    place.finished = json.loads(place.fine("run", place.plan, "--json"))
    return place


def test_a_killed_study_goes_on_and_repeats_nothing(place):
    assert len(place.before) == 1
    assert (place.finished["done"], place.finished["new"]) == (3, 2)
    assert place.finished["complete"]
    assert sorted(place.told()) == ["0001", "0002", "0003"]
    again = json.loads(place.fine("run", place.plan, "--json"))
    assert (again["done"], again["new"]) == (3, 0)


def test_a_loss_that_is_not_finite_is_a_result(place):
    trials = json.loads(place.fine("show", "tiny", "--json"))["trials"]
    (burst,) = [one for one in trials if one["hyperparameters"]["learning_rate"] == 1e30]
    assert {side["status"] for side in burst["sides"]} == {"non-finite"}
    assert all("not finite" in side["message"] for side in burst["sides"])
    said = place.fine("run", place.plan)
    assert "1 non-finite" in said
    assert "Largest Δ" in said


def test_a_trial_is_shown_with_intervals_curves_classes_and_what_was_decided(place):
    said = place.fine("show", "tiny", "0001")
    for words in ("of 40", "epoch", "Classes", "Decided differently", "adam_rule", "jax − torch", "McNemar"):
        assert words in said
    pair = json.loads(place.fine("show", "tiny", "0001", "--json"))["pairs"][0]
    assert pair["low"] <= pair["difference"] <= pair["high"]
    with open_store(place.folder / "store.sqlite") as store:
        trial = next(one for one in read_study(store, "tiny").trials if one.id == "0001")
        runs = [str(trial.side(pair[side]).run) for side in "ab"]
        found = compare(*runs, store=store).answers  # the sides are runs like any other
    assert (tuple(found.difference), found.p_value) == ((pair["low"], pair["high"]), pair["p_value"])
    assert (found.only_a, found.only_b, found.n) == (pair["only_a"], pair["only_b"], 40)
    assert (found.top1_change, 1 - found.agreement) == (pytest.approx(pair["difference"]), pytest.approx(pair["churn"]))


def test_studies_are_listed_with_their_replicates(place):
    listed = {one["study"]: one for one in json.loads(place.fine("list", "--json"))}
    assert listed["tiny"]["trials"] == listed["tiny.replicates"]["trials"] == 3
    assert listed["tiny"]["frameworks"] == ["torch", "jax"]


def test_a_report_is_written(place):
    assert "3 trials" in place.fine("report", "tiny", "--output", place.folder / "report")
    assert "tiny" in (place.folder / "report" / "index.html").read_text()
    assert (place.folder / "report" / "trials.csv").read_text().count("\n") == 4


@pytest.mark.slow
def test_one_trial_is_compared_step_by_step_and_over_seeds(place):
    recipe = place.folder / "one recipe.yaml"
    lines = place.plan.read_text().partition("recipe:")[2].partition("space:")[0].splitlines()
    recipe.write_text("\n".join(line.strip() for line in lines))
    words = ("train", recipe, "--with", "torch", "--with", "jax", "--set", "learning_rate=0.01", "--replicates", 3)
    found = json.loads(place.fine(*words, "--lockstep", "1", "--json"))
    assert (found["study"], found["hyperparameters"]["learning_rate"]) == ("one-recipe", 0.01)
    (steps,) = found["lockstep"]
    assert (steps["first"]["kind"], steps["first"]["sides"]) == ("tensor", ["jax"])  # Adam's rule
    (noise,) = found["noise"]
    assert len(noise["accuracies_a"]) == 4
    said = place.fine(*words)  # trained already
    assert "over 4 seeds" in said
    assert f"Trial {found['id']} of one-recipe" in said


@pytest.mark.slow
def test_an_explanation_does_not_use_the_seeds_that_a_trial_was_chosen_with(place):
    """Where the test before has run, both seeds of this trial are trained already."""
    trials = json.loads(place.fine("show", "tiny", "--json"))["trials"]
    (chosen,) = [one["id"] for one in trials if one["hyperparameters"]["learning_rate"] == 0.01]
    found = json.loads(place.fine("explain", "tiny", chosen, "--replicates", 2, "--json"))
    assert found["seeds"] == [2, 3]  # 0 is the trial's own, 1 its replicate's


def test_an_explanation_needs_two_sides_and_a_trial(place):
    assert "There is no trial of tiny named '0009'" in place("explain", "tiny", "0009").stderr
    assert "give --with twice" in place("explain", "tiny", "0001", "--with", "torch").stderr
    assert (
        "There is no side of trial 0001 named 'keras'"
        in place("explain", "tiny", "0001", "--with", "torch", "--with", "keras").stderr
    )


def test_an_export_is_checked_and_submitted_and_one_byte_spoils_it(place):
    folder = place.folder / "exported"
    place.fine("export", "tiny", folder)
    assert "in order" in place.fine("submit", folder, "--check")
    assert "3 trials are new" in place.fine("submit", folder, store="other.sqlite")
    assert "0 trials are new, 3 were there" in place.fine("import", folder, store="other.sqlite")
    content = bytearray((folder / "sides.parquet").read_bytes())
    content[len(content) // 2] ^= 1
    (folder / "sides.parquet").write_bytes(content)
    for words in (("submit", folder), ("submit", folder, "--check")):
        done = place(*words, store="third.sqlite")
        assert done.returncode == 1
        assert "sides.parquet" in done.stderr
    assert json.loads(place.fine("list", "--json", store="third.sqlite")) == []


def test_a_damaged_line_of_the_journal_is_named_and_costs_no_training(place):
    journal = place.copied_to("spoilt")
    lines = journal.read_text().splitlines(keepends=True)
    number = next(i for i, line in enumerate(lines) if '"told"' in line)
    lines[number] = lines[number].replace('"accuracies"', '"accuracyes"')
    journal.write_text("".join(lines))
    found = json.loads(place.fine("run", place.plan, "--json", store="spoilt.sqlite"))
    assert found["warnings"] == [f"Line {number + 1} of {journal} is damaged and left out."]
    assert (found["done"], found["new"]) == (3, 1)
    assert found["best"]["delta"] == place.finished["best"]["delta"]


def test_another_plan_under_the_same_name_is_refused_and_a_fresh_search_has_its_own_trials(place):
    place.copied_to("fresh")
    other = place.folder / "other.yaml"
    other.write_text(place.plan.read_text().replace("[1e-3, 1e-2, 1e30]", "[1e-3]").replace("trials: 3", "trials: 1"))
    refused = place("run", other, store="fresh.sqlite")
    assert refused.returncode == 1
    assert "belongs to another plan: space" in refused.stderr
    found = json.loads(place.fine("run", other, "--fresh", "--json", store="fresh.sqlite"))
    assert found["best"]["trial"] == "2-0001"
    assert len(json.loads(place.fine("show", "tiny", "--json", store="fresh.sqlite"))["trials"]) == 4


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("architecture: mlp", "architecture: mpl", "There is no architecture named 'mpl'. Did you mean mlp?"),
        ("name: learning_rate", "name: learning_rte", "There is no hyperparameter named 'learning_rte'. Did you mean"),
        ("[torch, jax]", "[torch, jaxx]", "There is no trainer named 'jaxx'. Did you mean jax?"),
        ("batch_size: 32", "batch_size: 0", "line 9: recipe.batch_size cannot be '0'"),
    ],
)
def test_bad_plans_are_refused_in_one_sentence_before_any_training(place, before, after, words):
    bad = place.folder / "bad.yaml"
    bad.write_text(place.plan.read_text().replace(before, after))
    done = place("run", bad, store="bad.sqlite")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert words in done.stderr
    assert not (place.folder / "bad.sqlite").exists()


@pytest.mark.slow
@pytest.mark.assets
def test_the_published_study_is_imported_and_reported(zoolens, assets, tmp_path):
    done = zoolens("crosstrain", "import", assets / "crossedwires")
    assert "1,200 trials are new" in done.stdout, done.stderr
    labels = assets / "data" / "cifar10" / "train_subset.npz"
    said = zoolens("crosstrain", "report", "crossedwires-*", "-o", tmp_path / "report", "--labels", labels).stdout
    for words in ("628 of 1200", "Does not match the paper", "a collapsed side", "dual_train_5e67eae2"):
        assert words in said
    assert (tmp_path / "report" / "crossedwires-vgg16" / "index.html").is_file()
    space = ("crosstrain", "space", "--published", "--released", assets / "crossedwires")
    assert zoolens(*space).stdout.count("160 of 160") == 3
    assert zoolens(*space, "--overlap", 0.5).stdout.count(": 0 of 160") == 3
