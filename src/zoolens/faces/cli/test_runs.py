import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from zoolens.base.errors import UnknownName
from zoolens.base.store.records import Observation, Provenance, RunKind
from zoolens.base.store.store import open_store
from zoolens.faces.cli.runs import command
from zoolens.testing.store_records import begin, dataset_record, model_record, stack_record


@pytest.fixture
def path(tmp_path, monkeypatch):
    path = tmp_path / "store.sqlite"
    monkeypatch.setenv("ZOOLENS_STORE", str(path))
    return path


@pytest.fixture
def run(path):
    observations = [
        Observation("top1", 0.718, unit="fraction", low=0.7, high=0.73, n=1000),
        Observation("latency_p50", 0.0123, scope="batch=1,raw", unit="s"),
        Observation("latency_p50", 0.0456, scope="batch=1", unit="s"),
        Observation("latency_p50", 0.2, scope="batch=16", unit="s"),
        Observation("file_size", 13_978_000.0, unit="B"),
        Observation("parameters", 3_504_872.0),
        Observation("nll", float("nan")),
        Observation("energy", None, provenance=Provenance.UNAVAILABLE, details={"reason": "no counter here"}),
        *(Observation("recall", 0.5, scope=f"class={i}", unit="fraction") for i in range(30)),
    ]
    with open_store(path) as store:
        begin(store, "zoo:older@1.0.0")
        run = store.begin_run(
            model_record("zoo:[bold]net@1.0.0"),
            dataset_record(),
            stack_record(all_packages={f"package{i}": "1" for i in range(50)}),
            resolved={"precision": "bfloat16", "provider": "CPUExecutionProvider"},
        )
        store.finish_stage(run.id, "metric:topk", observations)
        store.fail_stage(run.id, "cold", "the process died")
        return store.run(run.id)


def invoke(*arguments):
    result = CliRunner().invoke(command, arguments)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_list(run):
    header, newest, oldest = invoke("--wide").splitlines()
    assert header.split()[:3] == ["run", "when", "model"]
    for text in (run.id[:8], "zoo:[bold]net@1.0.0", "digits", "onnxruntime 1.20", "bfloat16", "71.8 % [70.0, 73.0]"):
        assert text in newest
    assert "45.6 ms" in newest
    assert "1 done, failed: cold" in newest
    assert "zoo:older@1.0.0" in oldest
    assert oldest.rstrip().endswith("begun")


def test_the_list_fits_100_columns_and_names_what_it_leaves_out(run):
    *lines, note = invoke().splitlines()
    assert max(map(len, lines)) <= 100
    assert note.rstrip() == "Columns hidden for lack of width: when, dataset, stages. --wide shows all."


def test_the_list_is_filtered(run):
    assert "older" not in invoke("--model", "zoo:*net")
    assert "older" not in invoke("--limit", "1")
    assert [found["id"] for found in json.loads(invoke("--model", "*net*", "--json"))] == [run.id]


def test_the_list_as_json(run):
    newest, oldest = json.loads(invoke("--json"))
    assert newest["top1"]["value"] == 0.718
    assert newest["latency_p50"]["scope"] == "batch=1"
    assert newest["stages"] == {"metric:topk": "done", "cold": "failed: the process died"}
    assert oldest["top1"] is None


def test_repeated_runs_are_pooled(path):
    with open_store(path) as store:
        for place, value in enumerate((0.010, 0.0101, 0.0145)):
            run = begin(store, attempt=place)
            about = {"machine": {"name": f"m{place}", "host": str(place)}}
            time = Observation("latency_p50", value, "batch=1", "s", value * 0.99, value * 1.01, details=about)
            store.finish_stage(run.id, "latency:batch=1", [time])
    text = CliRunner().invoke(command, ["--pool"]).output
    assert "not pooled" in text
    assert "machine m2 is 1.4 × slower than 2 others of its kind" in text
    (found,) = json.loads(CliRunner().invoke(command, ["--pool", "--json"]).output)
    assert found["times"][0]["agrees"] is False
    assert found["times"][0]["pooled"] is None
    assert len(found["times"][0]["each"]) == 3


def test_an_empty_store(path):
    open_store(path).close()
    assert invoke() == ""
    assert invoke("--json").strip() == "[]"


def test_a_store_without_evaluations_is_not_called_empty(path):
    with open_store(path) as store:
        store.begin_run(model_record(), dataset_record(), stack_record(), kind=RunKind.VERIFICATION)
    text = CliRunner().invoke(command).output
    assert "No evaluations yet" in text
    assert "Other kinds of runs: 1 verification. --kind lists them." in text


def test_runs_of_another_kind_are_listed_with_it(path):
    with open_store(path) as store:
        begin(store, "zoo:older@1.0.0")
        asked = store.begin_run(
            model_record("endpoint:own"), dataset_record("prompts"), stack_record(), kind=RunKind.VERIFICATION
        )
    header, row = invoke("--kind", "verification", "--wide").splitlines()
    assert header.split()[2] == "kind"
    assert row.split()[0] == asked.id[:8]
    assert row.split()[3:5] == ["verification", "endpoint:own"]
    (listed,) = json.loads(invoke("--kind", "verification", "--json"))
    assert (listed["id"], listed["purpose"]) == (asked.id, "verification")
    assert "older" in invoke("--kind", "evaluation")
    assert "No runs match." in CliRunner().invoke(command, ["--kind", "trace"]).output
    refused = CliRunner().invoke(command, ["--kind", "verification", "--pool"])
    assert refused.exit_code == 2
    assert "Only evaluations are pooled" in refused.output


def test_one_run(run):
    text = invoke("show", "--wide", run.id[:6])
    for expected in (
        "zoo:[bold]net@1.0.0",
        "CPUExecutionProvider",
        "failed: the process died",
        "71.8 % [70.0, 73.0]",
        "14.0 MB",
        "3.50M",
        "value was nan",
        "unavailable: no counter here",
        "… and 20 more",
        "50 entries (--json lists them)",
    ):
        assert expected in text, expected


def test_one_run_as_json_has_everything(run):
    data = json.loads(invoke("show", "last", "--json"))
    assert data["id"] == run.id
    assert len(data["observations"]) == 38
    assert len(data["stack"]["lock"]["all_packages"]) == 50
    assert data["stages"]["metric:topk"]["done"] is True
    assert data["precision"] == "bfloat16"


def test_the_store_option_reaches_show(run, path, tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_STORE", str(tmp_path / "other.sqlite"))
    open_store().close()
    assert run.id in invoke("--store", str(path), "show", "last")
    assert run.id in invoke("show", "last", "--store", str(path))
    with pytest.raises(UnknownName):
        invoke("show", "last")


def test_an_accuracy_judged_in_the_wrong_order_of_classes_is_left_out(path):
    with open_store(path) as store:
        model = replace(model_record("zoo:old@1.0.0"), manifest={"outputs": [{"labels": ["dog", "cat"]}]})
        data = replace(dataset_record(), details={"classes": ["cat", "dog"]})
        begun = store.begin_run(model, data, stack_record())
        store.finish_stage(begun.id, "metric:topk", [Observation("top1", 0.218, unit="fraction")])
    listed = invoke()
    assert "21.8" not in listed
    assert f"Run {begun.id[:8]}: no accuracy, since it was judged before zoolens matched classes by name" in listed
    assert json.loads(invoke("--json"))[0]["top1"] is None
    assert "21.8" not in invoke("show", begun.id)


@pytest.mark.parametrize("options", [[], ["--all"], ["--model", "zoo:n*"]])
def test_very_many_runs_are_listed_as_a_few_are(run, path, monkeypatch, options):
    with open_store(path) as store:
        for number in range(3):
            begin(store, f"zoo:net{number}@1.0.0")

    def listed():
        return [line.rstrip() for line in invoke("--wide", *options).splitlines()]

    few = listed()
    monkeypatch.setattr("zoolens.base.store.store.RUNS_AT_ONCE", 2)
    many = listed()
    assert [line.split() for line in many] == [line.split() for line in few]
    assert len(many) == (4 if "--model" in options else 6)
