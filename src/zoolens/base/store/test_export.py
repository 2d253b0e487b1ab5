import csv
import io
import json
import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from zoolens.base.errors import StoreError, ZoolensError
from zoolens.base.store.export import export
from zoolens.base.store.records import Observation
from zoolens.base.store.store import open_store
from zoolens.testing.store_records import begin


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "store.sqlite") as store:
        for attempt, width in enumerate((2, 3)):
            run = begin(store, attempt=attempt)
            value = 1 / 3 if attempt == 0 else math.nan
            store.finish_stage(run.id, "accuracy", [Observation("top1", value, unit="fraction", details={"ä": [1]})])
            scores = {"input": ["bild ä,1", 'b"2'], "score": [[0.5] * width, [math.nan] * width]}
            extra = {"only_later": [1, 2]} if attempt else {}
            store.add_part(run.id, "predictions", 0, pa.table({**scores, **extra}))
        yield store


def read(path):
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            return list(csv.DictReader(file))
    if path.suffix == ".json":
        return json.loads(path.read_text())
    return pq.read_table(path).to_pylist()


@pytest.mark.parametrize("format_", ["csv", "json", "parquet"])
def test_observations(store, tmp_path, format_):
    [path] = export(store, tmp_path / "new folder" / f"out.{format_}", format_)
    first, second = read(path)
    assert float(first["value"]) == 1 / 3
    assert first["model"] == "zoo:net@1.0.0"
    assert second["value"] in (None, "")
    details = first["details"] if format_ == "json" else json.loads(first["details"])
    assert details == {"ä": [1]}
    assert [found.name for found in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("format_", ["csv", "json", "parquet"])
def test_predictions_of_runs_that_differ_in_columns(store, tmp_path, format_):
    _, path = export(store, tmp_path / f"out.{format_}", format_, kinds=["predictions"])
    assert path.name == f"out.predictions.{format_}"
    rows = read(path)
    assert [row["input"] for row in rows] == ["bild ä,1", 'b"2'] * 2
    assert [row["run"] for row in rows] == [run.id for run in reversed(store.runs()) for _ in range(2)]
    widths = [len(json.loads(row["score"]) if format_ == "csv" else row["score"]) for row in rows]
    assert widths == [2, 2, 3, 3]
    assert [row["only_later"] in (None, "") for row in rows] == [True, True, False, False]


def test_chosen_runs_only(store, tmp_path):
    newest = store.run("last").id
    observations, predictions = export(store, tmp_path / "out.json", "json", runs=[newest], kinds=["predictions"])
    assert {row["run"] for row in read(observations)} == {newest}
    assert {row["run"] for row in read(predictions)} == {newest}


def test_kinds_that_no_run_has_make_no_file(store, tmp_path):
    assert export(store, tmp_path / "out.csv", "csv", kinds=["spans"]) == [tmp_path / "out.csv"]


def test_an_empty_store_exports_an_empty_table(tmp_path):
    with open_store(tmp_path / "empty.sqlite") as store:
        for format_ in ("csv", "json", "parquet"):
            [path] = export(store, tmp_path / f"out.{format_}", format_)
            assert read(path) == []


def test_a_damaged_part_is_named_and_leaves_no_file(store, tmp_path):
    [part] = store.parts(store.run("last").id, "predictions")
    Path(part.address).write_bytes(b"broken")
    with pytest.raises(StoreError, match=f"part 0 of predictions of run {part.run_id}"):
        export(store, tmp_path / "out.csv", "csv", kinds=["predictions"])
    assert {path.name for path in tmp_path.glob("*out*")} == {"out.csv"}


def test_impossible_exports(store, tmp_path):
    with pytest.raises(ZoolensError, match="no export format 'xml'"):
        export(store, tmp_path / "out.xml", "xml")
    (tmp_path / "file").touch()
    with pytest.raises(ZoolensError, match="cannot be written"):
        export(store, tmp_path / "file" / "out.csv", "csv")


def test_csv_computes_nothing():
    from zoolens.base.store.export import _write_csv

    stream = io.StringIO()
    _write_csv(stream, ["input", "=x"], [{"input": "=1+1.png", "=x": -0.5}])
    assert stream.getvalue() == "input,'=x\n'=1+1.png,-0.5\n"
