"""Passes of a plan: what changed since the last one, what is an alarm, and how a pass goes on."""

import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from zoolens.base.errors import GateFailed, UnknownName, ZoolensError
from zoolens.base.store.passes import Holder, begin_pass, load_passes
from zoolens.base.store.records import DatasetRecord, Observation, StackRecord, fingerprint
from zoolens.base.store.schema import passes
from zoolens.base.store.store import open_store
from zoolens.base.verdicts import NotKnown
from zoolens.findings.measure.plan import Outcome
from zoolens.findings.plans import plan_pass, running
from zoolens.findings.plans.pass_keeper import PassKeeper
from zoolens.findings.plans.pass_report import ChangeKind, _matched, enforce_report
from zoolens.findings.plans.plan_file import FleetPlan
from zoolens.findings.plans.plan_pass import Asked, Cell, Pass
from zoolens.findings.plans.running import run_plan
from zoolens.testing.store_records import dataset_record, model_record

pytestmark = pytest.mark.usefixtures("trusted_models")

PLAN = FleetPlan(
    name="nightly",
    models=["zoo:*"],
    datasets=["digits"],
    alarms=["latency_p50 rise > 10%", "new failure", "kind disappeared"],
    options={"accuracy": False},
)


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "store.sqlite") as store:
        yield store


def measured(store, model, seconds, *, cpu="fast", version="1.20", spread=0.01, data=None, content=None, **identity):
    machine = {"cpu": cpu, "cores": 2, "architecture": "x86_64"}
    identity = {"version": version, "machine": machine, **identity}
    stack = StackRecord(fingerprint(identity), "onnxruntime", identity, {})
    record = model_record(f"zoo:{model}")
    run = store.begin_attempt(
        replace(record, fingerprint=content) if content else record, data or dataset_record(), stack
    )
    ends = {"low": seconds * (1 - spread), "high": seconds * (1 + spread)}
    found = [Observation("latency_p50", seconds, scope="batch=1", unit="s", n=100, **ends)]
    store.finish_stage(run.id, "latency batch=1", found)
    return Outcome(f"zoo:{model} in onnxruntime", run=store.run(run.id), measured=("latency",))


@pytest.fixture
def passing(store, monkeypatch):
    """Carries out a pass whose evaluations end like this."""

    def run(*outcomes, plan=PLAN, before=lambda: None, again=()):
        rounds = iter([outcomes, *again])

        def found(work, store, progress, done):
            for number, outcome in enumerate(next(rounds, ())):
                where = PLACES.get(outcome.title.partition(" @ ")[2], "")
                asked = Asked("digits", outcome.title.partition(" ")[0], str(number), where)
                if not done(asked):
                    yield asked, [replace(outcome, title=outcome.title.partition(" @ ")[0])]
            before()

        monkeypatch.setattr(plan_pass, "_outcomes", found)
        names = dict.fromkeys(outcome.title.partition(" ")[0] for outcome in outcomes)
        entries = [SimpleNamespace(full_ref=name) for name in names]
        monkeypatch.setattr(running, "prepare", lambda plan: plan_pass.Work(plan, None, entries))
        return run_plan(plan, store)

    return run


PLACES = {cpu: f"{cpu}, 2 cores [x]" for cpu in ("fast", "slow")}


def kinds(report):
    return [change.kind for change in report.changes]


def test_the_first_pass_changes_nothing(store, passing):
    report = passing(measured(store, "a", 0.01))
    assert (report.cells, report.since, report.changes) == (1, None, ())
    enforce_report(PLAN, report)
    (kept,) = load_passes(store, "nightly")
    assert kept.ended is not None
    assert kept.content["report"]["cells"] == 1


def test_what_is_slower_beyond_noise_is_worse_and_an_alarm(store, passing):
    passing(measured(store, "a", 0.010), measured(store, "b", 0.010), measured(store, "c", 0.010))
    # 1.06: within the spread of sittings, three of which are looked at.
    report = passing(measured(store, "a", 0.0106), measured(store, "b", 0.013), measured(store, "c", 0.005))
    assert kinds(report) == [ChangeKind.WORSE, ChangeKind.BETTER]
    assert report.unchanged == 1
    assert report.changes[0].sentence.startswith("zoo:b on digits in onnxruntime on fast, 2 cores [")
    assert "takes 1.3 × [" in report.changes[0].sentence
    assert report.changes[0].sentence.endswith("the time of the last pass.")
    with pytest.raises(GateFailed, match="latency_p50 rise > 10%: zoo:b on digits") as error:
        enforce_report(PLAN, report)
    assert error.value.exit_code == 3
    enforce_report(PLAN.model_copy(update={"alarms": ["latency_p50 rise > 50%"]}), report)


def test_a_sitting_that_is_far_off_is_no_alarm_once_it_was_measured_again(store, passing):
    """One of forty is, and knows nothing of it: so what is worse is measured twice more before it is told."""
    passing(measured(store, "a", 0.010), measured(store, "b", 0.010))
    again = [
        (measured(store, "a", 0.019), measured(store, "b", 0.0201)),
        (measured(store, "a", 0.0102), measured(store, "b", 0.0199)),
    ]
    report = passing(measured(store, "a", 0.019), measured(store, "b", 0.020), again=again)
    (worse,) = report.changes
    assert worse.sentence.startswith("zoo:b on digits")
    assert "takes 1.99 × [" in worse.sentence
    cells = load_passes(store, "nightly")[0].content["cells"]
    assert [len(cell["again"]) for cell in cells] == [2, 2]
    # The next pass is held against all of them.
    after = passing(measured(store, "a", 0.010), measured(store, "b", 0.020))
    assert kinds(after) == []
    assert not passing(measured(store, "a", 0.010), measured(store, "b", 0.020)).changes


def test_what_cannot_be_measured_again_stays_as_it_was_told(store, passing):
    passing(measured(store, "a", 0.010))
    failed = Outcome("zoo:a in onnxruntime", errors=("Torn.",))
    assert kinds(passing(measured(store, "a", 0.020), again=[(failed,)])) == [ChangeKind.WORSE]


def test_an_update_of_the_runtime_is_a_change_on_the_same_machine(store, passing):
    passing(measured(store, "a", 0.010))
    report = passing(measured(store, "a", 0.020, version="1.21"))
    assert kinds(report) == [ChangeKind.WORSE]
    assert "onnxruntime 1.21 instead of 1.20" in report.changes[0].sentence


def test_what_comes_and_goes_is_told(store, passing):
    passing(measured(store, "a", 0.01), measured(store, "b", 0.01), measured(store, "a", 0.02, cpu="slow"))
    report = passing(measured(store, "a", 0.01), measured(store, "c", 0.01))
    assert kinds(report) == [ChangeKind.DISAPPEARED, ChangeKind.GONE, ChangeKind.NEW]
    assert "Nothing runs on slow, 2 cores" in report.changes[0].sentence
    with pytest.raises(GateFailed, match="kind disappeared"):
        enforce_report(PLAN, report)


def test_a_failure_is_an_error_and_a_new_one_an_alarm(store, passing):
    failed = Outcome("zoo:b in onnxruntime @ fast", errors=("It is made of glass.",))
    first = passing(measured(store, "a", 0.01), failed)
    with pytest.raises(
        ZoolensError, match=r"1 evaluation failed. zoo:b in onnxruntime on digits on fast.* fails: It is made of glass."
    ) as error:
        enforce_report(PLAN, first)
    assert error.value.exit_code == 1
    again = passing(measured(store, "a", 0.01), failed)
    assert kinds(again) == []
    fresh = passing(measured(store, "a", 0.01), failed, Outcome("zoo:c", errors=("Torn.",)))
    assert kinds(fresh) == [ChangeKind.FAILED]
    with pytest.raises(GateFailed, match="new failure: zoo:c on digits fails: Torn"):
        enforce_report(PLAN, fresh)
    assert kinds(passing(measured(store, "a", 0.01), failed)) == [ChangeKind.MENDED]


def test_what_fails_on_one_machine_already_is_a_new_failure_on_another(store, passing):
    """Both are called the same."""
    fast, slow = (Outcome(f"zoo:b in onnxruntime @ {cpu}", errors=("Torn.",)) for cpu in ("fast", "slow"))
    passing(measured(store, "a", 0.01), fast, measured(store, "b", 0.01, cpu="slow"))
    report = passing(measured(store, "a", 0.01), fast, slow)
    # Its cell is told as failed, not as gone; that the machine is there, its failure shows.
    assert kinds(report) == [ChangeKind.FAILED]
    assert report.changes[0].sentence == "zoo:b in onnxruntime on digits on slow, 2 cores [x] fails: Torn."


def test_what_a_job_says_of_an_address_is_kept_without_its_password(store, passing):
    passing(Outcome("zoo:b", errors=("No postgresql://ann:hidden1@db/x.",)))
    assert "hidden1" not in str(load_passes(store, "nightly")[0].content)


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        ({"data": DatasetRecord("other", "digits", 7)}, {}, "the inputs are others"),
        ({"options": {"threads": 1}}, {}, "it was asked to run otherwise (defaults instead of threads 1)"),
        ({"protocol": 1, "isolated": True}, {"protocol": 1}, "versions of zoolens measured it in different ways"),
    ],
)
def test_a_pass_that_measured_something_else_says_nothing_of_a_change(store, passing, before, now, words):
    """The very same cell by its names: the limit of the plan was changed, say."""
    passing(measured(store, "a", 0.01, **before))
    report = passing(measured(store, "a", 0.05, **now))
    assert kinds(report) == [ChangeKind.UNKNOWN]
    assert f"cannot be compared, since {words}, with the last pass" in report.changes[0].sentence
    with pytest.raises(NotKnown, match="An alarm cannot be judged"):
        enforce_report(PLAN, report)


def test_another_content_under_the_same_name_is_named(store, passing):
    passing(measured(store, "a", 0.01))
    report = passing(measured(store, "a", 0.05, content="replaced"))
    assert report.changes[0].sentence.endswith("the time of the last pass (another content of the model).")


def test_an_alarm_about_a_figure_that_the_plan_does_not_have_is_an_error(store, passing):
    report = passing(measured(store, "a", 0.01))
    assert report.metrics == ("latency_p50",)
    with pytest.raises(UnknownName, match=r"figure of this plan \(for an alarm\) named 'latency_p99'"):
        enforce_report(PLAN.model_copy(update={"alarms": ["latency_p99 rise > 10%"]}), report)


def test_a_run_that_was_removed_leaves_every_alarm_undecided(store, passing):
    passing(measured(store, "a", 0.01))
    (kept,) = load_passes(store, "nightly")
    cells = [{**cell, "run": "0" * 16} for cell in kept.content["cells"]]
    store._write(
        lambda connection: connection.execute(passes.update().values(content={**kept.content, "cells": cells}))
    )
    report = passing(measured(store, "a", 0.01))
    assert "the run of the last pass is not in this store" in report.changes[0].sentence
    with pytest.raises(NotKnown, match="An alarm cannot be judged"):
        enforce_report(PLAN, report)


def test_a_pass_that_was_stopped_goes_on_with_what_the_plan_still_asks_for(store, passing):
    def stop():
        raise KeyboardInterrupt

    first = measured(store, "a", 0.01)
    with pytest.raises(KeyboardInterrupt):
        passing(first, measured(store, "b", 0.01), before=stop)
    (open_pass,) = load_passes(store, "nightly")
    assert (open_pass.ended, len(open_pass.content["cells"]), "holder" in open_pass.content) == (None, 2, False)
    # Without b by now, and a is not asked for again.
    report = passing(replace(first, errors=("asked again",)), measured(store, "c", 0.01))
    assert (report.cells, report.failures, report.remarks) == (2, (), ())
    with pytest.raises(KeyboardInterrupt):
        passing(first, before=stop)
    report = passing(measured(store, "a", 0.01), plan=PLAN.model_copy(update={"runtimes": ["onnxruntime"]}))
    assert report.cells == 1
    assert report.remarks[0].startswith("The plan asks for other measurements than when this pass began")
    assert report.remarks[1] == "The plan asks for other measurements than in the last pass."


def test_a_pass_that_somebody_carries_out_is_left_to_them(store, passing):
    begin_pass(store, "nightly", Holder("ann", "ann@elsewhere:1", "elsewhere", 1))
    with pytest.raises(ZoolensError, match="nightly is being carried out by ann@elsewhere:1"):
        passing(measured(store, "a", 0.01))


def test_two_models_of_one_name_are_refused(tmp_path):
    text = (
        "zoolens: 1\nname: net\nversion: 1.0.0\n"
        "inputs: [{modality: image, shape: [null, 8, 8], layout: NHW, color: gray}]\n"
        "outputs: [{scores: logits}]\nassets: [{format: fake, files: [{location: net.json}]}]\n"
    )
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "net.json").write_text(f'{{"classes": 10, "input": [8, 8], "name": "{folder}"}}')
        (tmp_path / folder / "net.yaml").write_text(text)
    models = [str(tmp_path / folder / "net.yaml") for folder in ("a", "b")]
    plan = FleetPlan(name="x", models=models, datasets=["demo"], on="local")
    with pytest.raises(ZoolensError, match=r"file:net@1.0.0 is the name of 2 models of this plan"):
        plan_pass.prepare(plan)


def test_many_cells_are_matched_and_kept_at_once(store):
    """16,000 cells: what compares each with each takes minutes."""
    cells = [Cell(f"zoo:{at // 8}", "d", "rt", f"m{at % 8}", "k", "r") for at in range(16_000)]
    started = time.process_time()
    pairs, new, gone = _matched(cells, cells[1:])
    assert (len(pairs), new, gone) == (15_999, [], [cells[0]])
    this = Pass()
    with PassKeeper(store, "nightly", "me", this.as_data) as keeper:
        for cell in cells:
            with keeper.lock:
                this.cells[(*cell.key, cell.kind)] = cell
            keeper.changed()
    assert len(load_passes(store, "nightly")[0].content["cells"]) == 16_000
    assert time.process_time() - started < 5


def test_a_figure_of_unknown_spread_is_neither_better_nor_worse(store, passing):
    passing(measured(store, "a", 0.01))
    outcome = measured(store, "a", 0.05)
    other = measured(store, "d", 0.05)
    plain = store.begin_attempt(model_record("zoo:a"), dataset_record(), other.run.stack)
    store.finish_stage(plain.id, "latency batch=1", [Observation("latency_p50", 0.05, scope="batch=1", unit="s")])
    report = passing(Outcome(outcome.title, run=store.run(plain.id)))
    assert kinds(report) == [ChangeKind.UNKNOWN]
    with pytest.raises(NotKnown, match="An alarm cannot be judged") as error:
        enforce_report(PLAN, report)
    assert error.value.exit_code == 4


def test_a_pass_that_the_budget_ended_goes_on_and_counts_then(store, passing):
    passing(measured(store, "a", 0.01), measured(store, "b", 0.01))
    first = measured(store, "a", 0.02)
    report = passing(first, Outcome("zoo:b", not_done="Not begun: 0 s are left."))
    assert [left.title for left in report.not_done] == ["zoo:b"]
    assert ChangeKind.GONE not in kinds(report)
    with pytest.raises(NotKnown, match="1 evaluation was not done for want of budget: zoo:b"):
        enforce_report(PLAN.model_copy(update={"alarms": []}), report)
    assert load_passes(store, "nightly")[0].ended is None
    # The first evaluation is not asked for again, though it would end otherwise now.
    rest = passing(Outcome(first.title, errors=("asked again",)), measured(store, "b", 0.01))
    assert (rest.cells, rest.failures, rest.not_done) == (2, (), ())
    assert kinds(rest) == [ChangeKind.WORSE]
    assert [one.ended is None for one in load_passes(store, "nightly")] == [False, False]


def test_a_regression_between_kinds_of_equal_hardware_is_named(store, passing):
    report = passing(measured(store, "a", 0.01), measured(store, "a", 0.02, version="1.19"))
    (between,) = report.between_kinds
    assert "takes 2 × [" in between.sentence
    assert "onnxruntime 1.19 instead of 1.20" in between.sentence
    with pytest.raises(GateFailed, match="latency_p50 rise"):
        enforce_report(PLAN, report)
