"""Tables that would do harm do it to the process that reads them, and are refused in one sentence."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from zoolens.base.engine.policy import Rights
from zoolens.base.errors import Circumstance, WorkerError
from zoolens.training.crosstrain.exchange import exchange_tables, test_taken_over
from zoolens.training.crosstrain.exchange.check import check_submission

MANY = 1 << 24


def take_over(monkeypatch, kinds, tensor, rows):
    told = (("kinds", kinds), ("tensor", tensor), ("rows", rows))
    module = test_taken_over.__name__
    monkeypatch.setattr(
        exchange_tables, "_KIND", replace(exchange_tables._KIND, module=module, plugin=module, settings=told)
    )
    monkeypatch.setattr(exchange_tables, "_reader", exchange_tables._TableReader)


def problem(folder):
    folder.rehash()
    [sentence] = check_submission(folder.path).problems
    return sentence


def test_a_list_that_unpacks_to_more_memory_than_there_may_be(folder, monkeypatch):
    """Zeros take no room in the file."""
    small = replace(exchange_tables._KIND, rights=Rights(memory=1 << 28))
    monkeypatch.setattr(exchange_tables, "_KIND", small)
    monkeypatch.setattr(exchange_tables, "_reader", exchange_tables._TableReader)
    path = folder.path / "sides.parquet"
    table = pq.read_table(path).slice(0, 1)
    bomb = pa.ListArray.from_arrays(pa.array([0, MANY], pa.int32()), pa.array(np.zeros(MANY)))
    place = table.schema.get_field_index("class_accuracy")
    pq.write_table(table.set_column(place, table.schema.field(place), bomb), path)
    assert path.stat().st_size < 1 << 20
    assert problem(folder).startswith("sides.parquet needs more than")


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" * 3, b"\0" * 4096])
def test_a_file_that_is_no_table(folder, content):
    (folder.path / "epochs.parquet").write_bytes(content)
    assert problem(folder).startswith("epochs.parquet is not a Parquet file that can be read: ")


def test_a_table_that_ends_within_a_page(folder):
    path = folder.path / "labels.parquet"
    content = path.read_bytes()
    path.write_bytes(content[:40] + b"\0" * 24 + content[64:])
    assert problem(folder).startswith("labels.parquet ")


def test_more_columns_than_anybody_varies(folder):
    path = folder.path / "trials.parquet"
    table = pq.read_table(path)
    more = {f"hyperparameter.x{number}": pa.array([1.0] * table.num_rows) for number in range(2000)}
    pq.write_table(pa.table({**dict(zip(table.column_names, table.columns, strict=True)), **more}), path)
    assert problem(folder) == "trials.parquet has more than 2000 columns."


def test_cells_that_are_empty(folder):
    path = folder.path / "labels.parquet"
    table = pq.read_table(path)
    field = pa.field("label", pa.int32())
    pq.write_table(table.set_column(2, field, pa.array([None] * table.num_rows, pa.int32())), path)
    assert problem(folder) == "labels.parquet has empty cells."


def test_texts_that_are_far_longer_as_json(folder, monkeypatch):
    """What the process writes is counted there: it is whoever asks that would hold it."""
    monkeypatch.setattr(exchange_tables, "MAX_ROW_JSON", 1 << 20)
    path = folder.path / "pairs.parquet"
    table = pq.read_table(path)
    name = pa.array(["\x01" * 4000] * 100)
    rows = pa.concat_tables([table.slice(0, 1)] * 100)
    pq.write_table(rows.set_column(0, rows.schema.field(0), name), path)
    assert path.stat().st_size < 1 << 15
    assert problem(folder) == "pairs.parquet has more than 1 MiB of rows as JSON."


def test_a_process_that_cannot_start_is_no_fault_of_the_folder(folder, monkeypatch):
    missing = f"{__name__}_missing"
    monkeypatch.setattr(exchange_tables, "_KIND", replace(exchange_tables._KIND, module=missing))
    monkeypatch.setattr(exchange_tables, "_reader", exchange_tables._TableReader)
    with pytest.raises(Circumstance, match="while starting"):
        check_submission(folder.path)


def test_a_table_that_ends_the_process_is_refused_with_its_last_words(folder, monkeypatch):
    take_over(monkeypatch, "{}", "rows", "die")
    sentence = problem(folder)
    assert sentence.startswith("trials.parquet cannot be read: ")
    assert "exited with code 7" in sentence
    assert "these are my last words" in sentence


def test_problems_come_in_the_order_of_the_tables(folder):
    for table, column in (("epochs", "seconds"), ("sides", "seconds"), ("pairs", "churn"), ("trials", "dataset")):
        folder.change(table, 0, column, -1)
    named = [problem.partition(",")[0] for problem in check_submission(folder.path).problems]
    assert named == ["trials.parquet", "pairs.parquet", "sides.parquet", "epochs.parquet"]


@pytest.mark.parametrize(
    ("kinds", "tensor", "rows"),
    [
        ("{}", "other", ""),
        ('{"hyperparameter.x": "nothing"}', "rows", ""),
        ('{"hyperparameter.x": ["int"]}', "rows", ""),
        ('{"trial": "int"}', "rows", ""),
        ("[]", "rows", ""),
        ("{}", "rows", "this is no JSON"),
        ("{}", "rows", "[]"),
        ("{}", "rows", '{"unheard of": 1}'),
    ],
)
def test_an_answer_that_no_table_gives_is_an_error_in_one_sentence(folder, monkeypatch, kinds, tensor, rows):
    take_over(monkeypatch, kinds, tensor, rows)
    with pytest.raises(WorkerError, match=r"returned an invalid answer while reading trials\.parquet"):
        check_submission(folder.path)


def test_an_answer_that_is_too_long_is_not_read(folder, monkeypatch):
    """A process that was taken over does not keep to the limit that it was told."""
    take_over(monkeypatch, "{}", "rows", "{}" * 100)
    monkeypatch.setattr(exchange_tables, "MAX_ROW_JSON", 100)
    with pytest.raises(WorkerError, match="tensors of more than 100 bytes"):
        check_submission(folder.path)
