"""The trained weights of a side, kept beside the other bulk facts of the store.

They are a part like any other, with one row for each tensor: registered with its SHA-256 and verified when it is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zoolens.base.errors import StoreError, ZoolensError
from zoolens.base.store.store import Store
from zoolens.findings.measure.answers import trained_answers
from zoolens.training.crosstrain.training.trainers.trainer import Weights

WEIGHTS: Final = "weights"
TYPES: Final = ("float16", "float32", "float64", "int32", "int64")
_SCHEMA: Final = pa.schema(
    [
        pa.field("tensor", pa.string()),
        pa.field("type", pa.string()),
        pa.field("shape", pa.list_(pa.int64())),
        pa.field("values", pa.large_binary()),  # little-endian, the last axis fastest
    ]
)


def keep_weights(store: Store, run: str, weights: Weights, answers: NDArray[Any]) -> bool:
    """Keep the weights of a filed side; `answers`: those that they gave for the test samples. Whether the run has its
    weights now: those of another training, whose answers are not the filed ones, are not kept. The first ones stay."""
    filed = filed_answers(store, run)
    if filed is None or not np.array_equal(filed, answers):
        return False
    rows = [_row(name, np.asarray(array)) for name, array in weights.items()]
    store.add_part(run, WEIGHTS, 0, pa.Table.from_pylist(rows, schema=_SCHEMA))
    return True


def filed_answers(store: Store, run: str) -> NDArray[np.int32] | None:
    """Returns the stored answers; None: this run's side has none."""
    try:
        return trained_answers(store, run)
    except StoreError:  # damaged, which is not the same as absent
        raise
    except ZoolensError:
        return None


def has_weights(store: Store, run: str) -> bool:
    return bool(store.parts(run, WEIGHTS))


def weights_of(store: Store, run: str) -> dict[str, NDArray[Any]]:
    """Returns stored weights by the names and in the layout of `network`; of a network as its library ships it by
    torchvision's names, or by those of Keras' layers."""
    table = next(store.iter_tables(run, WEIGHTS), None)
    if table is None:
        raise ZoolensError(f"Run {run} kept no weights.", hint="Train it with --keep-weights.")
    return {row["tensor"]: _array(row) for row in table.to_pylist()}


def _row(name: str, array: NDArray[Any]) -> dict[str, Any]:
    if array.dtype.name not in TYPES:
        raise ZoolensError(
            f"The weights of {name} are {array.dtype.name}, which cannot be stored.", hint="Use float32."
        )
    values = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
    return {"tensor": name, "type": array.dtype.name, "shape": list(array.shape), "values": values}


def _array(row: Mapping[str, Any]) -> NDArray[Any]:
    flat = np.frombuffer(row["values"], np.dtype(row["type"]).newbyteorder("<"))
    return flat.reshape(row["shape"]).astype(row["type"])
