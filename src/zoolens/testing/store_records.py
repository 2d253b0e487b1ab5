"""Records and rows for tests of what lies in a store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from zoolens.base.store.records import DatasetRecord, ModelRecord, Run, StackRecord, fingerprint
from zoolens.base.store.store import Store


def model_record(name: str = "zoo:net@1.0.0", content: Any = None) -> ModelRecord:
    return ModelRecord(fingerprint(["model", content or name]), name, "onnx", {"name": name})


def dataset_record(name: str = "digits") -> DatasetRecord:
    return DatasetRecord(fingerprint(["dataset", name]), name, 100, {"classes": ["zero", "one"]})


def stack_record(
    runtime: str = "onnxruntime", version: str = "1.20", *, options: Mapping[str, Any] | None = None, **lock: Any
) -> StackRecord:
    identity = {"version": version, "cpu": "some", **({} if options is None else {"options": options})}
    return StackRecord(fingerprint([runtime, identity]), runtime, identity, {"packages": {"numpy": "2.0"}, **lock})


def begin(store: Store, model: str = "zoo:net@1.0.0", *, attempt: int = 0) -> Run:
    return store.begin_run(model_record(model), dataset_record(), stack_record(), attempt=attempt)


def some_rows(part: int, rows: int = 10) -> pa.Table:
    first = part * rows
    return pa.table({"index": list(range(first, first + rows)), "input": [f"bild-ä-{first + i}" for i in range(rows)]})
