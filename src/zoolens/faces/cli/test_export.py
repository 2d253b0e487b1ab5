import csv
import io
import json

import pyarrow as pa
import pytest
from click.testing import CliRunner

from zoolens.base.errors import ZoolensError
from zoolens.base.store.records import Observation
from zoolens.base.store.store import open_store
from zoolens.faces.cli.export import command
from zoolens.testing.store_records import begin


@pytest.fixture
def ids(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_STORE", str(tmp_path / "store.sqlite"))
    with open_store() as store:
        runs = [begin(store, attempt=attempt) for attempt in range(2)]
        for run in runs:
            store.finish_stage(run.id, "accuracy", [Observation("top1", 0.25)])
        store.add_part(runs[0].id, "predictions", 0, pa.table({"input": ["a"], "label": [1]}))
        return [run.id for run in runs]


def invoke(*arguments):
    result = CliRunner().invoke(command, [str(argument) for argument in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result


def test_csv_is_printed_by_default(ids):
    rows = list(csv.DictReader(io.StringIO(invoke().stdout)))
    assert [(row["run"], row["value"]) for row in rows] == [(id_, "0.25") for id_ in ids]


def test_the_suffix_chooses_the_format(ids, tmp_path):
    invoke("-o", tmp_path / "out.json", "--run", "last")
    assert [row["run"] for row in json.loads((tmp_path / "out.json").read_text())] == [ids[1]]


def test_predictions_have_their_own_file(ids, tmp_path):
    result = invoke("--format", "csv", "-o", tmp_path / "out.csv", "--predictions")
    assert "out.predictions.csv" in result.stderr
    assert (tmp_path / "out.predictions.csv").read_text() == f"run,input,label\n{ids[0]},a,1\n"
    result = invoke("-o", tmp_path / "last.csv", "--predictions", "--run", ids[1])
    assert "no predictions" in result.stderr


@pytest.mark.parametrize("arguments", [["--predictions"], ["--format", "parquet"]])
def test_what_cannot_be_printed_needs_a_file(ids, arguments):
    with pytest.raises(ZoolensError, match="-o"):
        invoke(*arguments)
