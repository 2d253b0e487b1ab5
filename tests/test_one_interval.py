"""Two runs that gave the same answers are told with the same interval, whichever command is asked."""

import re

import numpy as np
import pytest
from click.testing import CliRunner

from zoolens.base.statistics.intervals import paired_difference
from zoolens.base.store.records import DatasetRecord
from zoolens.base.store.store import open_store
from zoolens.faces.cli.compare import command as compare_command
from zoolens.faces.cli.crosstrain.pairtext import pair_line
from zoolens.faces.cli.equiv import command as equiv_command
from zoolens.findings.audit.doctor.evidence import Contrast, from_predictions
from zoolens.findings.comparisons.compare import compare
from zoolens.findings.comparisons.conftest import one_hot, write_run
from zoolens.findings.comparisons.equivalence import equiv
from zoolens.findings.measure.answers import keep_labels
from zoolens.findings.measure.metrics.topk import topk
from zoolens.findings.measure.predictions import KIND, read_predictions
from zoolens.training.crosstrain.study.side_comparison import paired_sides
from zoolens.training.crosstrain.study.stored_studies import TrialFiling, file_trial
from zoolens.training.crosstrain.training.job import Outcome
from zoolens.training.crosstrain.training.trial_runner import churn, side_of
from zoolens.training.crosstrain.training.trials import Trial
from zoolens.training.pairs.semantics import Semantics

N = 400
LABELS = (np.arange(N) % 10).astype(np.int32)
ONLY_A, ONLY_B = 9, 2  # a few inputs, mostly in one direction: where intervals differ most


def answers(*wrong):
    return np.where(np.isin(np.arange(N), np.concatenate(wrong)), (LABELS + 1) % 10, LABELS).astype(np.int32)


BOTH_WRONG = np.arange(100, 130)
A = answers(BOTH_WRONG, np.arange(ONLY_B))
B = answers(BOTH_WRONG, np.arange(200, 200 + ONLY_A))


@pytest.fixture
def path(tmp_path):
    with open_store(tmp_path / "store.sqlite") as store:
        for name, given in (("a", A), ("b", B)):
            run = write_run(store, name, one_hot(given), LABELS)
            predictions = read_predictions(store.table(run.id, KIND))
            store.finish_stage(run.id, "metric:topk", list(topk(predictions)))
    return tmp_path / "store.sqlite"


def crosstrain_pair(store):
    given = {"torch": A, "jax": B}
    dataset = DatasetRecord("d" * 64, "digits", N, {})
    sides = tuple(
        side_of(Outcome(framework=name, versions={}, status="finished"), given[name], LABELS, 10) for name in given
    )
    trial = file_trial(
        store,
        "tiny",
        Trial("1", {}, sides, churn(tuple(given), given)),
        TrialFiling(
            recipe_of=dict.fromkeys(given, (None, Semantics())),
            dataset=dataset,
            versions={name: {} for name in given},
            predictions=given,
        ),
    )
    keep_labels(store, dataset, LABELS)
    (pair,) = paired_sides(store, trial)
    return pair


def test_every_command_computes_the_same_interval_for_the_same_pair(path):
    expected = paired_difference(ONLY_A, ONLY_B, N)
    with open_store(path) as store:
        runs = {run.ref: run.id for run in store.runs()}
        a, b = runs["zoo:a@1.0.0"], runs["zoo:b@1.0.0"]
        assert compare(a, b, store=store).answers.difference == expected
        assert equiv("a", "b", store=store).on[0].bounds.difference == expected
        evidence = [from_predictions(run, read_predictions(store.table(run, KIND))) for run in (a, b)]
        assert Contrast(*evidence).interval == expected  # what `doctor` and `audit --doctor` show
        pair = crosstrain_pair(store)
        assert (pair.low, pair.high) == expected


def test_every_command_prints_the_same_interval_for_the_same_pair(path):
    with open_store(path) as store:
        runs = {run.ref: run.id for run in store.runs()}
        said = pair_line(crosstrain_pair(store))
    where = ["--store", str(path)]
    compared = CliRunner().invoke(compare_command, [runs["zoo:a@1.0.0"], runs["zoo:b@1.0.0"], *where])
    judged = CliRunner().invoke(equiv_command, ["a", "b", *where])
    texts = (compared.stdout, judged.stdout, said)
    shown = [re.search(r"(-\d\.\d\d) points (\[.*?\])", text).groups() for text in texts]
    low, high = paired_difference(ONLY_A, ONLY_B, N)
    assert shown == [("-1.75", f"[{100 * low:+.2f}, {100 * high:+.2f}]")] * 3


def test_the_accuracy_of_one_run_has_one_interval_too(path):
    with open_store(path) as store:
        runs = {run.ref: run.id for run in store.runs()}
        # `eval`, `runs`, `compare` and `audit` show the stored interval
        (top1,) = [one for one in store.observations(runs["zoo:a@1.0.0"]) if one.metric == "top1"]
        bounds = equiv("a", "b", store=store).on[0].bounds
    assert tuple(bounds.accuracy_a) == pytest.approx((top1.low, top1.high), abs=1e-12)
