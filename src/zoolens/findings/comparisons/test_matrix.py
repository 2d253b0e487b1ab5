import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from zoolens.base.errors import UnknownName, ZoolensError
from zoolens.findings.comparisons.conftest import one_hot, write_run
from zoolens.findings.comparisons.equivalence import equiv
from zoolens.findings.comparisons.matrix import agreement_matrix, as_csv, as_data
from zoolens.findings.measure.predictions import KIND

LABELS = np.arange(40) % 10


def wrong_on(first, last):
    where = (np.arange(40) >= first) & (np.arange(40) < last)
    return one_hot(np.where(where, (LABELS + 1) % 10, LABELS))


def test_every_pair_of_the_matrix_is_what_equiv_says(demo_store):
    matrix = agreement_matrix("demo:*", store=demo_store)
    assert sorted(matrix.names) == ["lenet-int8", "lenet-torch", "lenet-wide", "mlp-small"]
    assert matrix.n == 200
    for i, one in enumerate(matrix.names):
        assert (matrix.agreement[i, i], matrix.difference[i, i]) == (1, 0)
        for j, two in enumerate(matrix.names):
            if i == j:  # a run is not held against itself
                continue
            report = equiv(one, two, store=demo_store)
            assert matrix.agreement[i, j] == report.agreement
            assert matrix.difference[i, j] == pytest.approx(report.on[0].outputs[0].accuracy.difference)
    np.testing.assert_array_equal(matrix.agreement, matrix.agreement.T)


def test_families_show_as_blocks(store):
    for name, first, last in (("a1", 0, 20), ("b1", 30, 40), ("a2", 0, 19), ("b2", 30, 39)):
        write_run(store, name, wrong_on(first, last), LABELS)
    matrix = agreement_matrix(store=store)
    assert {frozenset(matrix.names[:2]), frozenset(matrix.names[2:])} == {
        frozenset(("a1", "a2")),
        frozenset(("b1", "b2")),
    }
    assert matrix.groups == (0, 0, 1, 1)


def test_what_cannot_be_compared_is_left_open_and_said(store):
    write_run(store, "a", wrong_on(0, 1), LABELS, outputs=[{"labels": [f"x{i}" for i in range(10)]}])
    write_run(store, "b", wrong_on(0, 2), LABELS)
    write_run(store, "c", wrong_on(0, 3), LABELS, outputs=[{"labels": [f"y{i}" for i in range(10)]}])
    matrix = agreement_matrix(store=store)
    a, c = matrix.names.index("a"), matrix.names.index("c")
    assert np.isnan(matrix.agreement[a, c])
    assert np.isnan(matrix.agreement).sum() == 2
    assert "different classes" in matrix.notes[0]
    assert json.loads(json.dumps(as_data(matrix), allow_nan=False))["agreement"][a][c] is None


def test_a_model_that_fits_no_other_has_an_accuracy_all_the_same(store):
    classes = [f"class {i}" for i in range(10)]
    turned = one_hot((LABELS + 3) % 10)
    write_run(store, "turned", turned, LABELS, classes=classes, outputs=[{"labels": classes[-3:] + classes[:-3]}])
    write_run(store, "b", wrong_on(0, 4), LABELS, classes=classes, outputs=[{"labels": [f"y{i}" for i in range(10)]}])
    matrix = agreement_matrix(store=store)
    assert np.isnan(matrix.agreement).sum() == 2
    assert matrix.accuracy[matrix.names.index("turned")] == 1
    assert matrix.accuracy[matrix.names.index("b")] == 0.9


def test_the_data_that_most_models_were_run_on_is_taken(store):
    for name, dataset in (("a", "few"), ("a", "many"), ("b", "many"), ("b", "few"), ("c", "many")):
        write_run(store, name, wrong_on(0, 1), LABELS, dataset=dataset)
    assert (agreement_matrix(store=store).dataset, len(agreement_matrix(store=store).names)) == ("many", 3)
    assert agreement_matrix(data="few", store=store).dataset == "few"


def test_each_model_comes_once_unless_runtimes_are_asked_for(store):
    for runtime in ("litert", "openvino"):
        for name in "ab":
            write_run(store, name, wrong_on(0, 1), LABELS, runtime=runtime)
    once = agreement_matrix(store=store)
    assert [run.stack.runtime for run in once.runs] == ["litert", "litert"]  # it reads one format only: at home in it
    every = agreement_matrix(store=store, runtime="*")
    assert sorted(every.names) == ["a [litert]", "a [openvino]", "b [litert]", "b [openvino]"]


def test_a_matrix_needs_two_models(store):
    write_run(store, "a", wrong_on(0, 1), LABELS)
    with pytest.raises(ZoolensError, match="needs two models"):
        agreement_matrix(store=store)
    with pytest.raises(UnknownName):
        agreement_matrix(["a", "b"], store=store)
    with pytest.raises(ZoolensError, match="none is named"):
        agreement_matrix([], store=store)


def test_a_model_whose_file_is_gone_is_left_out_and_named(store):
    runs = [write_run(store, name, wrong_on(0, 1), LABELS) for name in "abc"]
    Path(store.parts(runs[2].id, KIND)[0].address).unlink()
    matrix = agreement_matrix(store=store)
    assert sorted(matrix.names) == ["a", "b"]
    assert "zoo:c@1.0.0 in fake is left out" in matrix.notes[0]
    Path(store.parts(runs[1].id, KIND)[0].address).unlink()
    with pytest.raises(ZoolensError, match=r"zoo:b@1\.0\.0 in fake is left out"):
        agreement_matrix(store=store)


def test_csv_has_a_row_for_every_pair(demo_store):
    rows = list(csv.DictReader(io.StringIO(as_csv(agreement_matrix("demo:lenet-*", store=demo_store)))))
    assert len(rows) == 9
    pair = next(row for row in rows if (row["a"], row["b"]) == ("lenet-torch", "lenet-wide"))
    assert float(pair["agreement"]) == equiv("lenet-torch", "lenet-wide", store=demo_store).agreement


def test_csv_computes_nothing(demo_store):
    matrix = agreement_matrix("demo:lenet-*", store=demo_store)
    hostile = replace(matrix, names=("=1+1", *matrix.names[1:]))
    rows = list(csv.DictReader(io.StringIO(as_csv(hostile))))
    assert {row["a"] for row in rows} == {"'=1+1", *matrix.names[1:]}
    assert {row["accuracy_difference"][:1] for row in rows} <= {"-", "0"}  # negative numbers stay numbers


def test_accuracy_on_data_without_labels_is_not_known(store):
    for name, answers in (("a", wrong_on(0, 0)), ("b", wrong_on(0, 10))):
        write_run(store, name, answers, np.full(40, -1))
    matrix = agreement_matrix("*", store=store)
    assert np.isnan(matrix.accuracy).all()
    assert matrix.agreement[0, 1] == 0.75
