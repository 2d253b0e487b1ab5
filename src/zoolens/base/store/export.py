"""Taking facts elsewhere: observations, and bulk facts, as CSV, JSON or Parquet files."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from zoolens.base.errors import StoreError, ZoolensError
from zoolens.base.paths import replaced_file
from zoolens.base.store.json_columns import json_value
from zoolens.base.store.records import Part
from zoolens.base.store.spreadsheets import spreadsheet_cell
from zoolens.base.store.store import Store

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS: Final = ("csv", "json", "parquet")
BATCH_ROWS: Final = 10_000


def export(
    store: Store,
    destination: Path,
    format: str,  # noqa: A002
    *,
    runs: Collection[str] | None = None,
    kinds: Sequence[str] = (),
) -> list[Path]:
    """Write the observations of these runs (all of them if None) to `destination`, and each kind of bulk facts that
    they have, such as "predictions", to `destination` with the kind before its suffix. Returns the files written.

    A file appears complete or not at all; one that exists is replaced.
    """
    _check(format)
    table = store.observation_table(runs)
    _write_file(destination, format, table.schema, [table])
    written = [destination]
    for kind in kinds:
        parts = _parts(store, runs, kind)
        if parts:
            path = destination.with_name(f"{destination.stem}.{kind}{destination.suffix}")
            _write_file(path, format, _common_schema(store, parts), _with_run(store, parts, kind))
            written.append(path)
    return written


def export_to_stream(store: Store, stream: IO[str], format: str, *, runs: Collection[str] | None = None) -> None:  # noqa: A002
    """The observations as text, for a pipe."""
    if format == "parquet":
        raise ZoolensError("Parquet is not text and cannot be printed.", hint="Name a file with -o.")
    _check(format)
    table = store.observation_table(runs)
    _TEXT_WRITERS[format](stream, table.schema.names, _rows([table]))


def _check(format: str) -> None:  # noqa: A002
    if format not in FORMATS:
        raise ZoolensError(f"There is no export format {format!r}.", hint=f"Choose {', '.join(FORMATS)}.")


# --- bulk facts of several runs as one stream of tables with one schema


def _parts(store: Store, runs: Collection[str] | None, kind: str) -> list[Part]:
    if runs is None:
        oldest_first = reversed(store.runs(trials=True))
        runs = [run.id for run in oldest_first]
    return [part for run_id in runs for part in store.parts(run_id, kind)]


def _common_schema(store: Store, parts: Sequence[Part]) -> pa.Schema:
    """What holds the rows of all parts: runs may differ in columns and widths."""
    import pyarrow as pa

    try:
        schemas = [_schema(store, part) for part in parts]
    except (OSError, StoreError, pa.ArrowException):
        # Reading the part itself says which one, and why.
        return pa.schema([("run", pa.string())])
    return pa.unify_schemas([pa.schema([("run", pa.string())]), *schemas], promote_options="permissive")


def _schema(store: Store, part: Part) -> pa.Schema:
    import pyarrow.parquet as pq

    with store.bulk.place.open(part.name) as file:
        return pq.read_schema(file).remove_metadata()


def _with_run(store: Store, parts: Sequence[Part], kind: str) -> Iterator[pa.Table]:
    import pyarrow as pa

    for run_id in dict.fromkeys(part.run_id for part in parts):
        for table in store.iter_tables(run_id, kind):
            yield table.add_column(0, "run", pa.array([run_id] * table.num_rows, pa.string()))


# --- files


def _write_file(path: Path, format: str, schema: pa.Schema, tables: Iterable[pa.Table]) -> None:  # noqa: A002
    if path.exists() and not path.is_file():
        raise ZoolensError(f"{path} is not a file, and is not replaced.", hint="Name another file with -o.")
    try:
        with replaced_file(path) as file:
            if format == "parquet":
                _write_parquet(file, schema, tables)
            else:
                with io.TextIOWrapper(file, encoding="utf-8", newline="") as stream:
                    _TEXT_WRITERS[format](stream, schema.names, _rows(tables))
    except OSError as error:
        raise ZoolensError(
            f"{path} cannot be written: {error.strerror or error}.", hint="Name another file with -o."
        ) from error


def _write_parquet(file: IO[bytes], schema: pa.Schema, tables: Iterable[pa.Table]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for table in tables:
            fitted = pa.concat_tables([schema.empty_table(), table], promote_options="permissive")
            writer.write_table(fitted.select(schema.names))


def _rows(tables: Iterable[pa.Table]) -> Iterator[dict[str, Any]]:
    for table in tables:
        for batch in table.to_batches(max_chunksize=BATCH_ROWS):
            yield from batch.to_pylist()


def _write_csv(stream: IO[str], names: Sequence[str], rows: Iterable[dict[str, Any]]) -> None:
    """Numbers with all their digits, times as ISO 8601, lists as JSON, nothing for what is not known."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([spreadsheet_cell(name) for name in names])
    for row in rows:
        writer.writerow([spreadsheet_cell(_cell(row.get(name))) for name in names])


def _cell(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, list | dict):
        return json.dumps(json_value(value), ensure_ascii=False)
    return value


def _write_json(stream: IO[str], names: Sequence[str], rows: Iterable[dict[str, Any]]) -> None:
    """One array of objects, one object a line; `details` as an object, not as text."""
    separator = "[\n"
    for row in rows:
        plain = {name: json_value(row.get(name)) for name in names}
        if "details" in plain:
            plain["details"] = json.loads(plain["details"])
        stream.write(separator + json.dumps(plain, ensure_ascii=False, allow_nan=False))
        separator = ",\n"
    stream.write("\n]\n" if separator == ",\n" else "[]\n")


_TEXT_WRITERS: Final[dict[str, Callable[[IO[str], Sequence[str], Iterable[dict[str, Any]]], None]]] = {
    "csv": _write_csv,
    "json": _write_json,
}
