import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import zoolens
from zoolens.base.errors import ZoolensError
from zoolens.findings.comparisons.conftest import one_hot, vector_columns, write_run
from zoolens.findings.comparisons.disagreements import as_csv, as_data, disagree, readable, vote_entropy
from zoolens.findings.measure.predictions import KIND

pytestmark = pytest.mark.usefixtures("trusted_models")

LABELS = np.arange(10)


def answers(**changes):
    """Right everywhere but on the inputs named i5=3: input 5 is answered with 3."""
    found = LABELS.copy()
    for name, answer in changes.items():
        found[int(name[1:])] = answer
    return found


@pytest.fixture
def panel(store):
    write_run(store, "me", one_hot(answers(i0=1, i1=2)), LABELS, classes=[f"class {i}" for i in range(10)])
    write_run(store, "near", one_hot(answers(i0=1, i1=3)), LABELS)
    write_run(store, "next", one_hot(answers(i0=1, i1=4, i2=5)), LABELS)
    write_run(store, "far", one_hot((LABELS + 1) % 10), LABELS)
    return store


def test_a_model_whose_file_is_gone_is_left_out_and_named(panel):
    (lost,) = [run for run in panel.runs() if run.ref == "zoo:near@1.0.0"]
    Path(panel.parts(lost.id, KIND)[0].address).unlink()
    found = disagree("me", 2, store=panel)
    assert [one.name for one in found.panel] == ["zoo:me", "zoo:next", "zoo:far"]
    assert "zoo:near@1.0.0 in fake is left out" in found.notes[0]
    assert as_data(found)["notes"] == list(found.notes)


def test_the_nearest_are_asked_and_the_most_contested_input_comes_first(panel):
    found = disagree("me", 2, store=panel)
    assert [(one.name, one.agreement) for one in found.panel] == [("zoo:me", 1), ("zoo:near", 0.9), ("zoo:next", 0.8)]
    assert [(one.index, found.class_name(one.label)) for one in found.inputs] == [(1, "class 1"), (2, "class 2")]
    assert found.total == 2
    first, second = found.inputs
    assert [vote.answer for vote in first.votes] == [2, 3, 4]
    assert first.entropy == pytest.approx(np.log2(3))
    assert second.entropy == pytest.approx(0.918, abs=1e-3)
    assert first.votes[0].score == pytest.approx(0.9)


def test_the_limit_keeps_the_count(panel):
    found = disagree("me", 2, store=panel, limit=1)
    assert (len(found.inputs), found.total) == (1, 2)


def test_among_equally_contested_the_least_sure_comes_first(store):
    write_run(store, "me", one_hot(LABELS), LABELS)
    unsure = one_hot(answers(i3=4, i6=7))
    unsure[6] = one_hot([7], sure=0.5)[0]
    write_run(store, "other", unsure, LABELS)
    assert [one.index for one in disagree("me", store=store).inputs] == [6, 3]


def test_classes_in_another_order_are_no_disagreement(store):
    names = [f"class {i}" for i in range(10)]
    write_run(store, "me", one_hot(LABELS), LABELS, classes=names, outputs=[{"labels": names}])
    turned = one_hot(LABELS)[:, ::-1]
    write_run(store, "other", turned, LABELS, classes=names, outputs=[{"labels": names[::-1]}])
    assert disagree("me", store=store).total == 0


def test_a_model_is_not_its_own_equivalent_in_another_runtime(store):
    for runtime in ("litert", "openvino"):
        write_run(store, "me", one_hot(LABELS), LABELS, runtime=runtime)
        write_run(store, "other", one_hot(answers(i1=5)), LABELS, runtime=runtime)
    found = disagree("me", store=store, runtime="openvino")
    assert [(one.name, one.run.stack.runtime) for one in found.panel] == [
        ("zoo:me", "openvino"),
        ("zoo:other", "openvino"),
    ]


def test_what_is_asked_in_vain_is_said(store):
    with pytest.raises(ZoolensError, match=r"me was not measured on digits.*zoolens eval me --data digits"):
        disagree("me", data="digits", store=store)
    write_run(store, "me", one_hot(LABELS), LABELS)
    with pytest.raises(ZoolensError, match="No other model was measured on digits"):
        disagree("me", store=store)
    about = [{"name": "v", "task": "embedding", "width": 2}]
    write_run(store, "vec", vector_columns(np.ones((10, 2))), LABELS, about=about)
    with pytest.raises(ZoolensError, match="gives no votes"):
        disagree("vec", store=store)


def test_entropy_is_that_of_the_shares():
    votes = np.array([[1, 1, 1], [1, 2, 2], [1, 2, 3], [1, 2, 4]])
    np.testing.assert_allclose(vote_entropy(votes), [0, 0.811278, 2], atol=1e-6)


def test_real_disagreements_are_those_of_the_answers(demo_store):
    found = zoolens.disagree("demo:lenet-torch", n=2, store=demo_store)
    assert found.panel[1].name == "demo:lenet-int8"
    data = json.loads(json.dumps(as_data(found), allow_nan=False))
    assert data["contested"] == len(data["inputs"]) > 0
    for one in data["inputs"]:
        assert len({vote["answer"] for vote in one["votes"]}) > 1
    rows = list(csv.DictReader(io.StringIO(as_csv(found))))
    named = replace(found, inputs=tuple(replace(one, input=f"={one.input}") for one in found.inputs))
    assert {row["input"][:2] for row in csv.DictReader(io.StringIO(as_csv(named)))} == {"'="}
    assert [row["input"] for row in rows] == [one["input"] for one in data["inputs"]]
    assert rows[0]["demo:lenet-torch answer"] == data["inputs"][0]["votes"][0]["name"]


def test_class_names_are_made_readable():
    assert readable("n02396427 wild boar, boar, Sus scrofa") == "wild boar"
    assert readable("T-shirt/top") == "T-shirt/top"
    assert readable(", odd") == ", odd"


def test_the_truth_of_data_without_labels_is_unknown(store):
    for name, given in (("a", LABELS), ("b", answers(i0=1))):
        write_run(store, name, one_hot(given), np.full(10, -1))
    found = disagree("a", 1, store=store)
    assert [one["truth"] for one in as_data(found)["inputs"]] == ["unknown"]
    assert next(csv.DictReader(io.StringIO(as_csv(found))))["truth"] == "unknown"
