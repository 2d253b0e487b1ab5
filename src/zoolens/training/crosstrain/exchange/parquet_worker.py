"""The process that unpacks the tables of a stranger's folder, within limits of memory and time.

A few bytes of a Parquet file can unpack to more than any machine has, and a damaged footer can end the process that
reads it. Both happen here, and not to whoever asks. A request names a table and its limits; the file lies in the
shared memory. The answer is {"problems": sentences}, or {"settings": kinds of the hyperparameters' columns, "tensors":
layout}: a table of numbers has a tensor for each column, any other table the tensor "rows" with a JSON object a line.
A request that names no table asks whether the process runs; its answer is empty.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from zoolens.base.engine.service import Service
from zoolens.base.errors import first_line
from zoolens.training.crosstrain.exchange.exchange_schema import (
    MAX_COLUMNS,
    MAX_NAME,
    NUMBERS,
    TABLES,
    Column,
    found_hyperparameters,
    shortened,
)
from zoolens.training.crosstrain.exchange.files import FolderRefused

MEMORY: Final = 4 << 30  # bytes that the process may use
_BATCH: Final = 1 << 16  # rows that are unpacked before they are counted
_SLICE: Final = 1 << 10  # rows that are written as JSON before its bytes are counted

Limits = Mapping[str, int]  # of "rows", "values", "texts" (bytes) and "json" (bytes)
Tensors = dict[str, NDArray[Any]]


def main(settings: Mapping[str, Any], began_ns: int) -> None:
    service = Service(settings, began_ns)

    def answer(request: Mapping[str, Any]) -> dict[str, Any]:
        if "table" not in request:
            return {}
        content = service.inputs.read(request["tensors"])["content"]
        try:
            hyperparameters, tensors = unpack(request["table"], content, request["limits"])
        except FolderRefused as refused:
            return {"problems": refused.problems}
        kinds = {column.name: column.kind for column in hyperparameters}
        return {"problems": [], "settings": kinds, "tensors": service.outputs.write(tensors)}

    service.serve(answer, lambda request: f"Reading {request.get('table')}.parquet")


def unpack(name: str, content: NDArray[np.uint8], limits: Limits) -> tuple[tuple[Column, ...], Tensors]:
    """The columns of hyperparameters and what the table holds. Refused, with what is wrong with it."""
    try:
        plain = pq.ParquetFile(pa.BufferReader(content)).schema_arrow
        if len(plain) > MAX_COLUMNS:
            raise FolderRefused([f"{name}.parquet has more than {MAX_COLUMNS} columns."])
        # Texts stay behind numbers when they are read, so that one long text is not unpacked a million times.
        texts = [field.name for field in plain if pa.types.is_string(field.type)]
        file = pq.ParquetFile(pa.BufferReader(content), read_dictionary=texts)
        hyperparameters = found_hyperparameters(plain) if name == "trials" else ()
        columns = (*TABLES[name], *hyperparameters)
        if problems := list(_column_problems(name, columns, plain)):
            raise FolderRefused(problems)
        batches = list(_batches(name, file, limits))
        return hyperparameters, _numbers(name, columns, batches) if name in NUMBERS else _rows(name, batches, limits)
    except MemoryError as error:
        raise FolderRefused([f"{name}.parquet needs more than {MEMORY >> 20} MiB when it is unpacked."]) from error
    except (pa.ArrowException, OSError, ValueError) as error:
        raise FolderRefused([f"{name}.parquet is not a Parquet file that can be read: {first_line(error)}."]) from error


def _column_problems(table: str, columns: Sequence[Column], schema: pa.Schema) -> Iterator[str]:
    wanted = {column.name: column.arrow for column in columns}
    there = Counter(schema.names)
    for name, count in sorted(there.items()):
        if count > 1:
            yield f"{table}.parquet has the column {shortened(name)} {count} times."
        elif name not in wanted:
            yield f"{table}.parquet has a column {shortened(name)}, which is not in the schema."
        elif not name.isprintable() or len(name) > MAX_NAME:
            yield f"{table}.parquet has a column {shortened(name)}, which is no name."
        elif (actual := schema.field(name).type) != wanted[name]:
            yield f"{table}.parquet, column {name}: its type is {shortened(str(actual))} and should be {wanted[name]}."
    yield from (f"{table}.parquet has no column {name}." for name in wanted if name not in there)


def _batches(table: str, file: pq.ParquetFile, limits: Limits) -> Iterator[pa.RecordBatch]:
    """The rows in batches, which are counted as they are: a footer may say anything."""
    rows = values = texts = 0
    for batch in file.iter_batches(_BATCH, use_threads=False):
        rows += batch.num_rows
        values += sum(_count(column) for column in batch.columns)
        texts += sum(_text_size(column) for column in batch.columns)
        if rows > limits["rows"]:
            raise FolderRefused([f"{table}.parquet has more than {limits['rows']} rows."])
        if values > limits["values"]:
            raise FolderRefused([f"{table}.parquet has more than {limits['values']} values."])
        if texts > limits["texts"]:
            raise FolderRefused([f"{table}.parquet has more than {limits['texts'] >> 20} MiB of text."])
        yield batch


def _count(column: pa.Array) -> int:
    return len(column) + (len(column.flatten()) if pa.types.is_list(column.type) else 0)


def _text_size(column: pa.Array) -> int:
    if not pa.types.is_dictionary(column.type):
        return 0
    return pc.sum(pc.take(pc.binary_length(column.dictionary), column.indices)).as_py() or 0


def _numbers(table: str, columns: Sequence[Column], batches: Sequence[pa.RecordBatch]) -> Tensors:
    if any(column.null_count for batch in batches for column in batch.columns):
        raise FolderRefused([f"{table}.parquet has empty cells."])
    parts = {column.name: [batch.column(column.name).to_numpy() for batch in batches] for column in columns}
    return {name: np.concatenate([np.empty(0, np.int32), *arrays]) for name, arrays in parts.items()}


def _rows(table: str, batches: Sequence[pa.RecordBatch], limits: Limits) -> Tensors:
    """A text can be six times as long in JSON, and whoever asks holds all of it: its bytes are counted as they come."""
    lines = bytearray()
    for batch in batches:
        for start in range(0, batch.num_rows, _SLICE):
            for row in batch.slice(start, _SLICE).to_pylist():
                lines += json.dumps(row).encode() + b"\n"
                if len(lines) > limits["json"]:
                    raise FolderRefused([f"{table}.parquet has more than {limits['json'] >> 20} MiB of rows as JSON."])
    return {"rows": np.frombuffer(lines, np.uint8)}
