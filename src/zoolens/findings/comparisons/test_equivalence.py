import json

import numpy as np
import pytest

import zoolens
from zoolens.base.errors import UnknownName, ZoolensError
from zoolens.base.statistics.anytime import paired_lowers
from zoolens.base.statistics.binomial import binomial_lower
from zoolens.base.store.store import open_store
from zoolens.findings.comparisons.conftest import one_hot, vector_columns, write_run
from zoolens.findings.comparisons.equivalence import as_data, equiv

pytestmark = pytest.mark.usefixtures("trusted_models")

N = 100
LABELS = np.arange(N) % 10


def shifted(count):
    """Answers that are wrong for the first so many inputs."""
    return one_hot(np.where(np.arange(N) < count, (LABELS + 1) % 10, LABELS))


def test_a_pair_is_compared_from_what_was_measured(store):
    write_run(store, "a", shifted(10), LABELS)
    write_run(store, "b", shifted(5), LABELS)
    report = equiv("a", "b", store=store)
    assert (report.a, report.b) == ("zoo:a@1.0.0", "zoo:b@1.0.0")
    assert report.agreement == 0.95
    assert report.guaranteed == pytest.approx(binomial_lower(95, N, 0.05))
    (on,) = report.on
    assert on.bounds.accuracy_a.low < 0.9 < on.bounds.accuracy_a.high
    assert on.bounds.difference.low < 0.05 < on.bounds.difference.high
    assert on.outputs[0].accuracy.only_b == 5


def test_the_drop_in_accuracy_is_bounded_as_queries_bound_it(store):
    random = np.random.default_rng(0)
    wrong_a, wrong_b = random.random((2, N)) < [[0.1], [0.3]]
    write_run(store, "a", one_hot(np.where(wrong_a, (LABELS + 1) % 10, LABELS)), LABELS)
    write_run(store, "b", one_hot(np.where(wrong_b, (LABELS + 1) % 10, LABELS)), LABELS)
    found = equiv("a", "b", store=store, confidence=0.9).on[0].bounds.accuracy_drop
    gains = wrong_a.astype(float) - wrong_b.astype(float)  # in the order of the inputs, as `Relation` has them
    assert found == -paired_lowers(gains[None], 0.1)[0]


def test_bounds_widen_with_confidence_and_can_be_left_out(store):
    write_run(store, "a", shifted(10), LABELS)
    write_run(store, "b", shifted(5), LABELS)
    usual, sure = (equiv("a", "b", store=store, confidence=one) for one in (0.9, 0.99))
    assert sure.guaranteed < usual.guaranteed < usual.agreement
    assert sure.on[0].bounds.difference.low < usual.on[0].bounds.difference.low
    off = equiv("a", "b", store=store, bound="off")
    assert (off.guaranteed, off.on[0].bounds, off.agreement) == (None, None, 0.95)
    with pytest.raises(UnknownName):
        equiv("a", "b", store=store, bound="spectral")
    for confidence in (95, 1e-300):
        with pytest.raises(ZoolensError, match="confidence"):
            equiv("a", "b", store=store, confidence=confidence)


def test_copies_of_inputs_are_told_since_bounds_count_each(store):
    different = np.random.default_rng(0).dirichlet(np.ones(10), (2, N))
    a, b = different[:, np.where(np.arange(N) < 30, 0, np.arange(N))]  # the first 30 inputs are one and the same
    labels = np.where(np.arange(N) < 30, 0, LABELS)
    write_run(store, "a", a, labels)
    write_run(store, "b", b, labels)
    (note,) = [note for note in equiv("a", "b", store=store).on[0].fit.notes if "copies" in note]
    assert note.startswith("29 of 100 inputs")
    assert not any("copies" in note for note in equiv("a", "b", store=store, bound="off").on[0].fit.notes)
    write_run(store, "c", different[0], labels)  # one model that answers alike may only be sure of itself
    assert not any("copies" in note for note in equiv("a", "c", store=store).on[0].fit.notes)


def test_of_several_datasets_the_worst_decides(store):
    for dataset, wrong in (("easy", 1), ("hard", 30)):
        write_run(store, "a", shifted(0), LABELS, dataset=dataset)
        write_run(store, "b", shifted(wrong), LABELS, dataset=dataset)
    report = equiv("a", "b", store=store)
    assert sorted(one.worst.agreement for one in report.on) == [0.7, 0.99]
    assert (report.agreement, report.worst.dataset, report.guarantee.worst.name) == (0.7, "hard", "hard")
    assert report.guaranteed == pytest.approx(binomial_lower(70, N, 0.05))
    assert equiv("a", "b", data="easy", store=store).agreement == 0.99


def test_models_that_cannot_be_compared_say_why(store):
    write_run(store, "a", one_hot(LABELS), LABELS, outputs=[{"labels": [f"x{i}" for i in range(10)]}])
    write_run(store, "b", one_hot(LABELS), LABELS, outputs=[{"labels": [f"y{i}" for i in range(10)]}])
    report = equiv("a", "b", store=store)
    assert "different classes" in report.reasons[0]
    assert report.guarantee is None
    with pytest.raises(ZoolensError, match="cannot be compared"):
        _ = report.agreement
    assert as_data(report)["comparable"] is False


def test_embeddings_have_no_accuracy(store):
    about = [{"name": "v", "task": "embedding", "width": 3}]
    vectors = np.random.default_rng(0).normal(size=(N, 3))
    write_run(store, "a", vector_columns(vectors), LABELS, about=about)
    moved = vectors * np.where(np.arange(N) < 20, 1.1, 1)[:, None]
    write_run(store, "b", vector_columns(moved), LABELS, about=about)
    report = equiv("a", "b", store=store)
    assert report.agreement == 0.8
    assert report.on[0].bounds.difference is None
    assert equiv("a", "b", store=store, tolerance=0.2).agreement == 1
    json.loads(json.dumps(as_data(report), allow_nan=False))


def test_what_was_not_measured_is_an_error_with_the_command_to_run(store):
    write_run(store, "a", shifted(0), LABELS)
    with pytest.raises(ZoolensError, match=r"nothing was not measured\. .*zoolens eval nothing --data DATA"):
        equiv("a", "nothing", store=store)
    with pytest.raises(ZoolensError, match=r"a and nothing were not measured in litert\."):
        equiv("a", "nothing", store=store, runtime="litert")
    write_run(store, "b", shifted(0), LABELS, dataset="other")
    with pytest.raises(ZoolensError, match="a and b were not measured on the same data"):
        equiv("a", "b", store=store)


def test_a_model_that_was_not_measured_is_measured_on_the_others_data(tmp_path):
    with open_store(tmp_path / "store.sqlite") as store:
        (known,) = zoolens.evaluate(
            "demo:mlp-small", "demo", runtimes=["litert"], limit=50, batches=(), cold=False, store=store
        )
        report = zoolens.equiv("demo:mlp-small", "demo:mlp-wide", data="demo", store=store)
        assert report.on[0].a.id == known.run.id
        assert (report.on[0].n, report.on[0].b.stack.runtime) == (50, "litert")
        assert 0.5 < report.agreement < 1
        again = zoolens.equiv("demo:mlp-small", "demo:mlp-wide", store=store)
        assert [one.b.id for one in again.on] == [one.b.id for one in report.on]


def test_real_models_agree_as_far_as_they_are_related(demo_store):
    near = equiv("lenet-torch", "lenet-int8", store=demo_store)
    far = equiv("lenet-torch", "mlp-small", store=demo_store)
    assert far.agreement < near.agreement
    assert near.on[0].outputs[0].l2.high < far.on[0].outputs[0].l2.low
    assert not near.on[0].fit.notes


def test_the_margin_bound_stands_beside_the_others_and_is_flagged(demo_store):
    report = equiv("mlp-small", "lenet-torch", store=demo_store, bound="arora")
    assert report.guaranteed is not None
    assert report.arora.a.vacuous
    data = json.loads(json.dumps(as_data(report), allow_nan=False))
    assert data["arora"]["a"]["vacuous"] is True


def test_a_run_is_not_held_against_itself(store):
    """The same name twice means another runtime: without one a gate would pass, and nothing would be compared."""
    write_run(store, "a", shifted(10), LABELS)
    with pytest.raises(
        ZoolensError, match="a has one run on digits, in fake, and a run cannot be compared with itself"
    ):
        equiv("a", "a", store=store)
    report = equiv("a", "zoo:a@1.0.0", store=store)  # two names of the same content
    assert "A and B are the same run: the same content, in the same environment" in report.on[0].fit.notes
    write_run(store, "a", shifted(5), LABELS, runtime="other")
    assert equiv("a", "a", store=store).agreement == 0.95
