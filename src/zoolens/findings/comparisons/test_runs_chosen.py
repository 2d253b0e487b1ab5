"""Which runs a comparison is about: the two models of a CI gate, again and again."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import zoolens
from zoolens.base.errors import GateFailed, UnknownName, ZoolensError
from zoolens.base.store.records import StackRecord
from zoolens.faces.cli.compare import command
from zoolens.findings.audit.doctor.diagnose import doctor
from zoolens.findings.comparisons.reproduce import reproduce
from zoolens.findings.comparisons.runs import choose_pair
from zoolens.findings.measure.evaluate import evaluate

pytestmark = pytest.mark.usefixtures("trusted_models")


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    with zoolens.open_store() as opened:
        yield opened


@pytest.fixture
def data(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (60, 8, 8), np.uint8)
    np.savez(tmp_path / "data.npz", x=images, y=images[:, 0, 0] % 10)
    return str(tmp_path / "data.npz")


@pytest.fixture
def model(tmp_path):
    def write(name, **settings):
        (tmp_path / f"{name}.json").write_text(json.dumps({"classes": 10, "input": [8, 8], **settings}))
        (tmp_path / f"{name}.yaml").write_text(
            f"name: {name}\ninputs: [{{shape: [null, 8, 8], layout: NHW, color: gray}}]\noutputs: [{{}}]\n"
            f"assets: [{{format: fake, files: [{{location: {name}.json}}]}}]\n"
        )
        return str(tmp_path / f"{name}.yaml")

    return write


def measure(store, data, *models, **options):
    return [one.run.id for one in evaluate(models, data, batches=(), cold=False, store=store, **options)]


def test_a_ci_gate_judges_the_same_two_models_on_its_second_run(store, data, model):
    good, bad = model("good", behaviour="label_leak"), model("bad", seed=1)
    for _ in range(2):  # the second time everything is measured already
        ids = measure(store, data, good), measure(store, data, bad)
        done = CliRunner().invoke(command, [good, bad, "--fail-on", "top1 drop > 1%"])
        assert isinstance(done.exception, GateFailed), done.output
        assert [one.id for one in choose_pair(store, "last~1", "last")] == [one for (one,) in ids]
    assert CliRunner().invoke(command, [bad, good, "--fail-on", "top1 drop > 1%"]).exit_code == 0


def test_last_is_what_the_user_evaluated_last_and_nothing_else_moves_it(store, data, model):
    first, second = model("first", behaviour="label_leak"), model("second", seed=2)
    (one,), (two,) = measure(store, data, first), measure(store, data, second)
    assert [store.run("last").id, store.run("last~1").id] == [two, one]
    assert measure(store, data, first) == [one]
    assert [store.run("last").id, store.run("last~1").id] == [one, two]
    reproduce(two, store=store)
    doctor(second, data, store=store)
    assert [store.run("last").id, store.run("last~1").id] == [one, two]
    assert store.run("last~2").id not in (one, two)


def test_a_model_is_what_it_is_now(store, data, model):
    good, other = model("good", behaviour="label_leak"), model("other", seed=1)
    measure(store, data, good, other)
    model("other", seed=7)
    with pytest.raises(ZoolensError, match=r"other.yaml, as it is now, was not evaluated"):
        choose_pair(store, good, other)
    (again,) = measure(store, data, other)
    assert choose_pair(store, good, other)[1].id == again


def test_pairs_are_on_the_same_data_and_newest_first(store, data, model, tmp_path):
    good, bad = model("good", behaviour="label_leak"), model("bad", seed=1)
    with np.load(data) as arrays:
        np.savez(tmp_path / "other.npz", x=arrays["x"][:40], y=arrays["y"][:40])
    whole = measure(store, data, good, bad)
    part = measure(store, str(tmp_path / "other.npz"), good, bad)
    measure(store, str(tmp_path / "other.npz"), good, limit=20)
    assert [one.id for one in choose_pair(store, good, bad)] == part
    assert measure(store, data, bad, good) == whole[::-1]
    assert [one.id for one in choose_pair(store, good, bad)] == whole
    assert [one.id for one in choose_pair(store, part[0], bad)] == part


def failing(store, runs, runtime):
    """A newer run of each of these models and data that this runtime could not open."""
    for run in map(store.run, runs):
        stack = StackRecord(f"later {runtime}", runtime, {}, {})
        later = store.begin_run(run.model, run.dataset, stack, resolved=run.resolved)
        store.fail_stage(later.id, "predictions", "no suitable implementation")
        yield later.id


def test_a_runtime_that_opens_no_such_model_does_not_hide_the_answers_of_another(store, data, model):
    """OpenVINO opens no int8 file on some processors, and its failure of today hid the answers of ONNX Runtime."""
    good, bad = model("good", behaviour="label_leak"), model("bad", seed=1)
    answered = measure(store, data, good, bad)
    list(failing(store, answered, "other"))
    assert [one.id for one in choose_pair(store, good, bad)] == answered


def test_a_failure_of_today_is_not_hidden_by_older_answers_of_the_same_runtime(store, data, model):
    good, bad = model("good", behaviour="label_leak"), model("bad", seed=1)
    later = list(failing(store, measure(store, data, good, bad), "fake"))
    assert [one.id for one in choose_pair(store, good, bad)] == later


def test_what_cannot_be_chosen_is_said(store, data, model):
    good, bad = model("good", behaviour="label_leak"), model("bad", seed=1)
    measure(store, data, good)
    measure(store, data, good, limit=30)
    measure(store, data, bad, limit=20)
    measure(store, data, bad, limit=10)
    with pytest.raises(ZoolensError, match="never evaluated on the same data"):
        choose_pair(store, good, bad)
    with pytest.raises(ZoolensError, match="in litert"):
        choose_pair(store, good, bad, runtimes=["litert"])
    with pytest.raises(UnknownName, match="no run or model named 'nothing:here'"):
        choose_pair(store, good, "nothing:here")
